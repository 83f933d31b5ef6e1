// The whole launch as a slot problem of segments, with variables as registers that are full when it begins.
#include "passes/critical_cycle.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/text.h"
#include "passes/collapsed.h"
#include "passes/readers.h"
#include "solve/slots.h"

namespace karez::passes {
namespace {

class Model {
 public:
  Model(const Graph& graph, const Segmented& cut, const ById<ValueId, int>& slots, const CostTable& costs)
      : graph_(graph),
        cut_(cut),
        slots_(slots),
        uses_(uses_of(graph)) {
    std::map<int, solve::SlotProblem::Stream> streams;
    for (SegmentId s : cut.segments.ids()) {
      problem_.actors.push_back({seconds_of(graph, cut.segments[s], costs), acts(s)});
      if (cut.segments[s].stream == StreamKind::compute) streams[cut.segments[s].mesh].actors.push_back(s.index);
    }
    for (auto& [mesh, stream] : streams) {
      problem_.streams.push_back(std::move(stream));
      stream_mesh_.push_back(mesh);
    }
    for (ValueId v : graph.values.ids()) carry(v);
    for (const Variable& variable : graph.variables) hold(variable);
    for (NodeId n : graph.nodes.ids())
      for (NodeId before : graph.node(n).after)
        add(cut.of[before], {cut.of[n]}, std::gcd(acts(cut.of[before]), acts(cut.of[n])), 1, 0, cat("order before ", describe(graph, n)));
  }

  std::string text() const {
    std::vector<int> held;
    std::int64_t all = 0;
    for (const auto& reg : problem_.registers) held.push_back(reg.least);
    for (const auto& actor : problem_.actors) all += actor.acts;
    const solve::SlotLimits limits;
    if (all > limits.acts) return cat("critical cycle: not looked for among ", all, " acts a launch, more than ", limits.acts, "\n");
    const solve::SlotCycle cycle = interval_of(problem_, held, limits);
    if (cycle.steps.empty()) return "";
    constexpr std::size_t most = 12;
    std::string out = cat("critical cycle: ", base::number(std::round(cycle.interval * 1e7) / 10), " us a launch, predicted\n");
    for (std::size_t i = 0; i < std::min(cycle.steps.size(), most); ++i) {
      const auto& step = cycle.steps[i];
      out +=
          cat("  ", name(SegmentId(step.actor)), acts(SegmentId(step.actor)) > 1 ? cat(", act ", step.act) : std::string(), ": ", reason(step), "\n");
    }
    if (cycle.steps.size() > most) out += cat("  ... ", cycle.steps.size() - most, " more\n");
    return out;
  }

 private:
  int acts(SegmentId s) const { return graph_.node(cut_.segments[s].nodes[0]).acts; }

  void add(SegmentId producer, const std::set<SegmentId>& readers, int pieces, int slots, int filled, std::string what) {
    solve::SlotProblem::Register reg;
    reg.producer = producer.index;
    reg.period = acts(producer) / pieces;
    for (SegmentId reader : readers)
      if (reader != producer) reg.consumers.push_back({reader.index, acts(reader) / pieces});
    if (reg.consumers.empty()) return;
    reg.least = reg.most = slots;
    reg.filled = filled;
    problem_.registers.push_back(std::move(reg));
    what_.push_back(std::move(what));
  }

  void carry(ValueId v) {
    const NodeId maker = graph_.value(v).producer;
    if (may_alias(graph_.node(maker)) || graph_.node(maker).op->role == Role::state || graph_.node(maker).op->role == Role::constant) return;
    const std::set<SegmentId> readers = reading_segments(graph_, cut_, uses_, v);
    add(cut_.of[maker], readers, fills(graph_, v), slots_[v], 0, describe(graph_, maker));
  }

  // The writer makes the version that the next launch's readers wait for.
  void hold(const Variable& variable) {
    if (!variable.read.valid() || !variable.updated.valid()) return;
    const std::set<SegmentId> readers = reading_segments(graph_, cut_, uses_, variable.read);
    add(cut_.of[graph_.value(variable.updated).producer], readers, 1, 1, 1, cat("variable ", variable.name));
  }

  std::string name(SegmentId s) const {
    const Segment& segment = cut_.segments[s];
    return cat(name_of(segment.stream), ".", s, " (", describe(graph_, segment.nodes[0]), ")");
  }
  std::string reason(const solve::SlotCycle::Step& step) const {
    const auto index = static_cast<std::size_t>(step.index);
    using Why = solve::SlotCycle::Why;
    switch (step.why) {
      case Why::data: return cat("gives ", what_[index]);
      case Why::slot: return cat("returns a slot of ", what_[index], ", one of ", problem_.registers[index].least);
      case Why::actor: return "acts again";
      case Why::stream: return cat("shares the compute stream of mesh", stream_mesh_[index]);
    }
    return "";
  }

  const Graph& graph_;
  const Segmented& cut_;
  const ById<ValueId, int>& slots_;
  ById<ValueId, std::vector<Use>> uses_;
  solve::SlotProblem problem_;
  std::vector<std::string> what_;  // by register
  std::vector<int> stream_mesh_;   // by stream
};

}  // namespace

std::string critical_cycle(const Graph& graph, const Segmented& cut, const ById<ValueId, int>& slots, const CostTable& costs) {
  return Model(graph, cut, slots, costs).text();
}

}  // namespace karez::passes
