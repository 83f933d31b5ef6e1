// Segments become actors; values, variables and control edges become registers.
#include "karez/passes/scheduling/slot_model.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/ancestors.h"
#include "karez/passes/scheduling/launch_simulation.h"
#include "karez/passes/scheduling/readers.h"
#include "karez/passes/sharding/device_cost.h"

namespace karez::passes {
namespace {

int acts_of(const Graph& graph, const Segmentation& segmentation, SegmentId s) {
  return graph.node(segmentation.segments[s].nodes[0]).acts;
}

// By segment: the first segment of its run. A stream can execute the segments of a run one after the other without a
// new wait.
ById<SegmentId, SegmentId> runs_of(const Graph& graph, const Segmentation& segmentation) {
  Ancestors ancestors(graph, segmentation);
  ById<SegmentId, SegmentId> run(segmentation.segments.size());
  std::map<int, SegmentId> last;  // by mesh: the last run of its compute stream
  for (SegmentId s : segmentation.segments.ids()) {
    ancestors.compute(s);
    run[s] = s;
    const Segment& segment = segmentation.segments[s];
    if (segment.stream != StreamKind::compute || acts_of(graph, segmentation, s) == 1) continue;
    const auto at = last.find(segment.mesh);
    if (at != last.end() && ancestors.waits_for_all_of(at->second, s)) {
      run[s] = at->second;
      ancestors.add(run[s], s);
    } else {
      last[segment.mesh] = s;
    }
  }
  return run;
}

class SlotModelBuilder {
 public:
  SlotModelBuilder(const Graph& graph, const Segmentation& segmentation, const CostTable& costs,
                   const SlotRanges& ranges, bool micro)
      : graph_(graph),
        segmentation_(segmentation),
        costs_(costs),
        ranges_(ranges),
        micro_(micro),
        actor_(segmentation.segments.size(), -1) {}

  SlotModel build() {
    actors();
    auto uses = uses_of(graph_);
    for (ValueId v : graph_.values.ids()) {
      const Node& maker = graph_.node(graph_.value(v).producer);
      if (may_alias(maker) || maker.op->role == Role::state || maker.op->role == Role::constant) continue;
      add(segmentation_.segment_of[graph_.value(v).producer], reading_segments(graph_, segmentation_, uses, v),
          fills_per_launch(graph_, v), ranges_[v], 0, largest_part(graph_, v), {.value = v});
    }
    for (std::size_t i = 0; i < graph_.variables.size(); ++i) {
      const Variable& variable = graph_.variables[i];
      if (!variable.read.valid() || !variable.updated.valid()) continue;
      // The writer makes the version that the next launch's readers wait for.
      add(segmentation_.segment_of[graph_.value(variable.updated).producer],
          reading_segments(graph_, segmentation_, uses, variable.read), 1, {}, 1, 0, {.variable = static_cast<int>(i)});
    }
    for (NodeId n : graph_.nodes.ids())
      for (NodeId before : graph_.node(n).after)
        add(segmentation_.segment_of[before], {segmentation_.segment_of[n]},
            std::gcd(acts(segmentation_.segment_of[before]), acts(segmentation_.segment_of[n])), {}, 0, 0, {.then = n});
    return std::move(made_);
  }

 private:
  int acts(SegmentId s) const { return acts_of(graph_, segmentation_, s); }

  void actors() {
    const auto run = micro_ ? runs_of(graph_, segmentation_) : ById<SegmentId, SegmentId>();
    std::map<int, solve::SlotProblem::Stream> streams;  // by mesh
    for (SegmentId s : segmentation_.segments.ids()) {
      if (micro_ && acts(s) == 1) continue;
      const double seconds = seconds_of(graph_, segmentation_.segments[s], costs_);
      if (micro_ && run[s] != s) {
        actor_[s] = actor_[run[s]];
        made_.problem.actors[static_cast<std::size_t>(actor_[s])].seconds += seconds;
        continue;
      }
      actor_[s] = static_cast<int>(made_.segment.size());
      made_.problem.actors.push_back({seconds, micro_ ? 1 : acts(s)});
      made_.segment.push_back(s);
      if (segmentation_.segments[s].stream == StreamKind::compute)
        streams[segmentation_.segments[s].mesh].actors.push_back(actor_[s]);
    }
    for (auto& [mesh, stream] : streams) {
      made_.problem.streams.push_back(std::move(stream));
      made_.mesh.push_back(mesh);
    }
  }

  // `pieces`: fills per launch.
  void add(SegmentId producer, const std::set<SegmentId>& readers, int pieces, SlotRange slots, int filled,
           std::int64_t bytes, SlotModel::Edge edge) {
    const bool each = pieces > 1;  // for each micro-batch
    if (actor_[producer] < 0 || (micro_ && !each)) return;
    solve::SlotProblem::Register reg;
    reg.producer = actor_[producer];
    reg.period = micro_ ? 1 : acts(producer) / pieces;
    for (SegmentId reader : readers) {
      const int at = actor_[reader];
      const bool known = std::any_of(reg.consumers.begin(), reg.consumers.end(),
                                     [&](const auto& consumer) { return consumer.actor == at; });
      if (at >= 0 && at != reg.producer && !known) reg.consumers.push_back({at, micro_ ? 1 : acts(reader) / pieces});
    }
    if (reg.consumers.empty()) return;
    reg.least = slots.least, reg.most = slots.most;
    reg.filled = filled;
    reg.bytes =
        edge.value.valid() ? std::max<std::int64_t>(1, bytes) : 0;  // an empty value gets no more slots than others
    made_.problem.registers.push_back(std::move(reg));
    made_.edge.push_back(edge);
  }

  const Graph& graph_;
  const Segmentation& segmentation_;
  const CostTable& costs_;
  const SlotRanges& ranges_;
  const bool micro_;
  ById<SegmentId, int> actor_;  // -1: none
  SlotModel made_;
};

}  // namespace

SlotModel launch_model(const Graph& graph, const Segmentation& segmentation, const CostTable& costs,
                       const SlotRanges& ranges) {
  return SlotModelBuilder(graph, segmentation, costs, ranges, false).build();
}

SlotModel micro_model(const Graph& graph, const Segmentation& segmentation, const CostTable& costs,
                      const SlotRanges& ranges) {
  return SlotModelBuilder(graph, segmentation, costs, ranges, true).build();
}

}  // namespace karez::passes
