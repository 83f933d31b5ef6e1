// The slots pass: finds the slots with the fewest bytes that keep the launch interval, and fewer slots for longer
// intervals. Collectives get their turns in the order of a simulated launch.
#include "karez/passes/scheduling/slots.h"

#include <algorithm>
#include <map>
#include <set>

#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/critical_cycle.h"
#include "karez/passes/scheduling/launch_simulation.h"
#include "karez/passes/scheduling/readers.h"
#include "karez/passes/scheduling/slot_model.h"

namespace karez::passes {
namespace {

constexpr double slack = 1.03;  // relative to the shortest interval; a slot that saves less time is not worth its bytes
constexpr int max_steps = 16;   // in which fewer_slots reduces the slots of every value to one

using Slots = ById<ValueId, int>;

// Finds slots for increasing launch intervals; the number of slots never increases.
class SlotChooser {
 public:
  SlotChooser(const Graph& graph, const Segmentation& segmentation, const CostTable& costs, int max_slots)
      : graph_(graph),
        segmentation_(segmentation),
        costs_(costs) {
    auto uses = uses_of(graph);
    int micro = 1;
    for (const Node& node : graph.nodes) micro = std::max(micro, node.acts);
    for (ValueId v : graph.values.ids()) {
      const Node& maker = graph.node(graph.value(v).producer);
      const std::set<SegmentId> readers = reading_segments(graph, segmentation, uses, v);
      const StreamKind from = segmentation.segments[segmentation.segment_of[graph.value(v).producer]].stream;
      const bool is_prefetched = maker.op->role == Role::source && maker.attrs.flag("ahead", false);
      const bool crosses_streams = std::any_of(readers.begin(), readers.end(),
                                               [&](SegmentId s) { return segmentation.segments[s].stream != from; });
      max_.push_back(may_alias(maker)                   ? 1
                     : fills_per_launch(graph, v) > 1   ? micro
                     : crosses_streams || is_prefetched ? max_slots
                                                        : 1);
      min_.push_back(is_prefetched ? std::min(2, max_[v]) : 1);
    }
    if (micro > 1) intervals_.push_back({micro_model});
    intervals_.push_back({launch_model});
    for (IntervalModel& interval_model : intervals_) {
      const SlotModel model = model_of(interval_model);
      std::vector<int> min_counts, max_counts;
      for (const auto& reg : model.problem.registers)
        min_counts.push_back(reg.min_slots), max_counts.push_back(reg.max_slots);
      if (solve::acts_of(model.problem) > solve::SlotLimits().acts) continue;
      const solve::SlotCycle min_interval = interval_of(model.problem, max_counts);
      if (min_interval.is_deadlock()) continue;  // the simulation reports the deadlock
      interval_model.min_interval = min_interval.interval;
      if (interval_model.min_interval > 0)
        slowest_ = std::max(slowest_, interval_of(model.problem, min_counts).interval / interval_model.min_interval);
      interval_model.is_known = true;
    }
  }

  // Returns the interval with the fewest slots for all values, relative to the shortest interval; at least `slack`.
  double slowest() const { return slowest_; }

  // Returns the slots with the fewest bytes for intervals that are `times` as long as the shortest ones.
  const Slots& slots_for(double times) {
    for (const IntervalModel& interval_model : intervals_) {
      if (!interval_model.is_known) continue;
      const SlotModel model = model_of(interval_model);
      std::vector<int> max_counts;
      for (const auto& reg : model.problem.registers) max_counts.push_back(reg.max_slots);
      const double reached = interval_of(model.problem, max_counts).interval;  // with the slots that remain
      const solve::SlotPlan plan =
          cheapest_slots(model.problem, std::max(times * interval_model.min_interval, reached));
      for (ValueId v : max_.ids())
        if (is_chosen(interval_model, v)) max_[v] = min_[v];  // for values that only one actor of the model uses
      for (std::size_t r = 0; r < plan.slots.size(); ++r)
        if (const ValueId v = model.edge[r].value; v.valid()) max_[v] = plan.slots[r];
    }
    return max_;
  }

 private:
  // A model of the interval between micro-batches in the steady state, or of the interval between launches.
  struct IntervalModel {
    SlotModel (*model)(const Graph&, const Segmentation&, const CostTable&, const SlotRanges&);
    double min_interval = 0;  // with the largest allowed numbers of slots
    bool is_known = false;
  };

  bool is_chosen(const IntervalModel& interval_model, ValueId v) const {
    return (fills_per_launch(graph_, v) > 1) == (interval_model.model == micro_model);
  }

  // Only the registers that the model chooses have a range of slots. The others are fixed, since the slots of
  // micro-batches are chosen before those of launches.
  SlotModel model_of(const IntervalModel& interval_model) const {
    SlotRanges ranges;
    for (ValueId v : max_.ids()) ranges.push_back({is_chosen(interval_model, v) ? min_[v] : max_[v], max_[v]});
    return interval_model.model(graph_, segmentation_, costs_, ranges);
  }

  const Graph& graph_;
  const Segmentation& segmentation_;
  const CostTable& costs_;
  Slots max_, min_;
  std::vector<IntervalModel> intervals_;
  double slowest_ = slack;
};

// A window has as many slots as its operand.
Slots with_windows(const Graph& graph, Slots slots) {
  for (ValueId v : graph.values.ids())
    if (const Node& node = graph.node(graph.value(v).producer); may_alias(node)) slots[v] = slots[node.inputs[0]];
  return slots;
}

}  // namespace

CommunicatorKey communicator_key(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const int to = graph.value(node.outputs[0]).mesh;
  if (node.op->role == Role::transfer) return {graph.value(node.inputs[0]).mesh, to, -1};
  return {to, to, static_cast<int>(node.attrs.integer("axis"))};
}

SlotAssignment assign_slots(const Graph& graph, const Segmentation& segmentation, const CostTable& costs, Slots slots) {
  SlotAssignment result;
  result.slots = std::move(slots);
  result.interval = launch_interval(graph, segmentation, result.slots, costs);
  result.turns.resize(graph.nodes.size());
  std::map<CommunicatorKey, int> next;
  for (NodeId node : simulate_launch(graph, segmentation, result.slots, costs).collectives)
    result.turns[node].push_back(next[communicator_key(graph, node)]++);
  return result;
}

Slots slot_counts(const Graph& graph, const Segmentation& segmentation, const CostTable& costs, int max_slots) {
  return with_windows(graph, SlotChooser(graph, segmentation, costs, max_slots).slots_for(slack));
}

std::vector<Slots> fewer_slots(const Graph& graph, const Segmentation& segmentation, const CostTable& costs,
                               int max_slots) {
  SlotChooser chooser(graph, segmentation, costs, max_slots);
  std::vector<Slots> result;
  Slots previous = with_windows(graph, chooser.slots_for(slack));
  auto add = [&](Slots slots) {
    if (slots == previous) return;
    previous = slots;
    result.push_back(std::move(slots));
  };
  const double end = chooser.slowest();
  for (int i = 1; i <= max_steps; ++i)
    add(with_windows(graph, chooser.slots_for(slack + (end - slack) * i / max_steps)));
  add(Slots(graph.values.size(), 1));  // including inputs that are prefetched
  return result;
}

}  // namespace karez::passes
