// Builds slot problems: actors from segments, and registers from values, variables and control edges.
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

// Returns, for each segment, the first segment of its run. A run is a sequence of segments that a stream can execute
// one after another without a new wait.
ById<SegmentId, SegmentId> runs_of(const Graph& graph, const Segmentation& segmentation) {
  Ancestors ancestors(graph, segmentation);
  ById<SegmentId, SegmentId> run(segmentation.segments.size());
  std::map<int, SegmentId> last;  // by mesh: the last run of the mesh's compute stream
  for (SegmentId s : segmentation.segments.ids()) {
    ancestors.compute(s);
    run[s] = s;
    const Segment& segment = segmentation.segments[s];
    if (segment.stream != StreamKind::compute || acts_of(graph, segmentation, s) == 1) continue;
    const auto previous_run = last.find(segment.mesh);
    if (previous_run != last.end() && ancestors.waits_for_all_of(previous_run->second, s)) {
      run[s] = previous_run->second;
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
      // The writer computes the version for which the readers of the next launch wait.
      add(segmentation_.segment_of[graph_.value(variable.updated).producer],
          reading_segments(graph_, segmentation_, uses, variable.read), 1, {}, 1, 0, {.variable = static_cast<int>(i)});
    }
    for (NodeId n : graph_.nodes.ids())
      for (NodeId predecessor : graph_.node(n).after)
        add(segmentation_.segment_of[predecessor], {segmentation_.segment_of[n]},
            std::gcd(acts(segmentation_.segment_of[predecessor]), acts(segmentation_.segment_of[n])), {}, 0, 0,
            {.later = n});
    return std::move(model_);
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
        model_.problem.actors[static_cast<std::size_t>(actor_[s])].seconds += seconds;
        continue;
      }
      actor_[s] = static_cast<int>(model_.segment.size());
      model_.problem.actors.push_back({seconds, micro_ ? 1 : acts(s)});
      model_.segment.push_back(s);
      if (segmentation_.segments[s].stream == StreamKind::compute)
        streams[segmentation_.segments[s].mesh].actors.push_back(actor_[s]);
    }
    for (auto& [mesh, stream] : streams) {
      model_.problem.streams.push_back(std::move(stream));
      model_.mesh.push_back(mesh);
    }
  }

  // `pieces` is the number of fills per launch.
  void add(SegmentId producer, const std::set<SegmentId>& readers, int pieces, SlotRange slots, int filled,
           std::int64_t bytes, SlotModel::Edge edge) {
    const bool per_microbatch = pieces > 1;  // filled for each micro-batch
    if (actor_[producer] < 0 || (micro_ && !per_microbatch)) return;
    solve::SlotProblem::Register reg;
    reg.producer = actor_[producer];
    reg.period = micro_ ? 1 : acts(producer) / pieces;
    for (SegmentId reader : readers) {
      const int consumer_actor = actor_[reader];
      const bool is_consumer = std::any_of(reg.consumers.begin(), reg.consumers.end(),
                                           [&](const auto& consumer) { return consumer.actor == consumer_actor; });
      if (consumer_actor >= 0 && consumer_actor != reg.producer && !is_consumer)
        reg.consumers.push_back({consumer_actor, micro_ ? 1 : acts(reader) / pieces});
    }
    if (reg.consumers.empty()) return;
    reg.min_slots = slots.min_slots, reg.max_slots = slots.max_slots;
    reg.filled = filled;
    // An empty value counts as one byte, so that it does not get more slots than others.
    reg.bytes = edge.value.valid() ? std::max<std::int64_t>(1, bytes) : 0;
    model_.problem.registers.push_back(std::move(reg));
    model_.edge.push_back(edge);
  }

  const Graph& graph_;
  const Segmentation& segmentation_;
  const CostTable& costs_;
  const SlotRanges& ranges_;
  const bool micro_;
  ById<SegmentId, int> actor_;  // -1 if the segment has no actor
  SlotModel model_;
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
