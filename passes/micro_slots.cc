// Micro-batches under way, as a slot problem of segments.
#include "passes/micro_slots.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "passes/behind.h"
#include "passes/collapsed.h"
#include "passes/readers.h"
#include "solve/slots.h"

namespace karez::passes {
namespace {

constexpr double slack = 1.05;  // over the best interval: what a slot more may save and is not worth its bytes

std::int64_t largest_part(const Graph& graph, ValueId value) {
  const TensorType& type = graph.type(value);
  return count_of(shape_of(local_box(type.shape, graph.mesh(value), *graph.value(value).layout, 0))) * size_of(type.dtype);
}

// By segment: the first of those that a stream can do one behind the other without waiting for anything new, as a backward's input gradient, which
// the next stage waits for, and its weight gradient. Taken as one act they leave room for any order of the two.
ById<SegmentId, SegmentId> runs_of(const Graph& graph, const Segmented& cut) {
  Behind behind(graph, cut);
  ById<SegmentId, SegmentId> run(cut.segments.size());
  std::map<int, SegmentId> last;  // by mesh: the run that its compute stream has begun last
  for (SegmentId s : cut.segments.ids()) {
    behind.look_at(s);
    run[s] = s;
    const Segment& segment = cut.segments[s];
    if (segment.stream != StreamKind::compute || graph.node(segment.nodes[0]).acts == 1) continue;
    const auto at = last.find(segment.mesh);
    if (at != last.end() && behind.waits_for_all_of(at->second, s)) {
      run[s] = at->second;
      behind.add(run[s], s);
    } else {
      last[segment.mesh] = s;
    }
  }
  return run;
}

}  // namespace

void raise_micro_slots(const Graph& graph, const Segmented& cut, const CostTable& costs, ById<ValueId, int>& slots) {
  int most = 1;
  for (const Node& node : graph.nodes) most = std::max(most, node.acts);
  if (most == 1) return;
  solve::SlotProblem problem;
  ById<SegmentId, int> number(cut.segments.size(), -1);
  std::map<std::pair<StreamKind, int>, solve::SlotProblem::Stream> streams;
  const ById<SegmentId, SegmentId> run = runs_of(graph, cut);
  for (SegmentId s : cut.segments.ids()) {
    const Segment& segment = cut.segments[s];
    const int acts = graph.node(segment.nodes[0]).acts;
    if (acts == 1) continue;
    if (run[s] != s) {
      number[s] = number[run[s]];
      problem.actors[static_cast<std::size_t>(number[s])].seconds += seconds_of(graph, segment, costs);
      continue;
    }
    number[s] = static_cast<int>(problem.actors.size());
    problem.actors.push_back({seconds_of(graph, segment, costs), 1});
    if (segment.stream == StreamKind::compute) streams[{segment.stream, segment.mesh}].actors.push_back(number[s]);
  }
  for (auto& [where, stream] : streams) problem.streams.push_back(std::move(stream));
  auto uses = uses_of(graph);
  std::vector<ValueId> carried;
  for (ValueId v : graph.values.ids()) {
    const NodeId maker = graph.value(v).producer;
    if (graph.node(maker).acts == 1 || fills(graph, v) == 1 || may_alias(graph.node(maker))) continue;
    const int producer = number[cut.of[maker]];
    const std::set<SegmentId> readers = reading_segments(graph, cut, uses, v);
    solve::SlotProblem::Register reg;
    reg.producer = producer;
    for (SegmentId reader : readers) {
      const int at = number[reader];
      const bool known = std::any_of(reg.consumers.begin(), reg.consumers.end(), [&](const auto& consumer) { return consumer.actor == at; });
      if (at >= 0 && at != producer && !known) reg.consumers.push_back({at});
    }
    if (reg.consumers.empty()) continue;
    reg.bytes = std::max<std::int64_t>(1, largest_part(graph, v));
    reg.least = slots[v];
    reg.most = std::max(slots[v], most);
    problem.registers.push_back(std::move(reg));
    carried.push_back(v);
  }
  if (carried.empty()) return;
  std::vector<int> all;
  for (const auto& reg : problem.registers) all.push_back(reg.most);
  const solve::SlotPlan plan = cheapest_slots(problem, slack * interval_of(problem, all).interval);
  for (std::size_t i = 0; i < carried.size(); ++i) slots[carried[i]] = plan.slots[i];
  for (ValueId v : graph.values.ids())  // a window has as many as what it looks at
    if (const Node& node = graph.node(graph.value(v).producer); may_alias(node)) slots[v] = std::max(slots[v], slots[node.inputs[0]]);
}

}  // namespace karez::passes
