// slots: the fewest bytes of slots that keep the launch interval, then longer intervals step by step; collectives get
// turns in the order of a simulated launch.
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

constexpr double slack = 1.03;  // of the best interval: a slot that saves less time is not worth its bytes
constexpr int steps = 16;       // from the cheapest slots that keep the interval to one slot each

using Slots = ById<ValueId, int>;

// Finds slots for increasing launch intervals, and never more slots than before.
class SlotChooser {
 public:
  SlotChooser(const Graph& graph, const Segmentation& segmentation, const CostTable& costs, int most)
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
      const bool ahead = maker.op->role == Role::source && maker.attrs.flag("ahead", false);
      const bool meets = std::any_of(readers.begin(), readers.end(),
                                     [&](SegmentId s) { return segmentation.segments[s].stream != from; });
      held_.push_back(may_alias(maker) ? 1 : fills_per_launch(graph, v) > 1 ? micro : meets || ahead ? most : 1);
      min_.push_back(ahead ? std::min(2, held_[v]) : 1);
    }
    if (micro > 1) intervals_.push_back({micro_model});
    intervals_.push_back({launch_model});
    for (IntervalModel& interval_model : intervals_) {
      const SlotModel model = model_of(interval_model);
      std::vector<int> least, all;
      for (const auto& reg : model.problem.registers) least.push_back(reg.least), all.push_back(reg.most);
      if (solve::acts_of(model.problem) > solve::SlotLimits().acts) continue;
      const solve::SlotCycle best = interval_of(model.problem, all);
      if (best.is_deadlock()) continue;  // the simulation reports where
      interval_model.best = best.interval;
      if (interval_model.best > 0)
        slowest_ = std::max(slowest_, interval_of(model.problem, least).interval / interval_model.best);
      interval_model.known = true;
    }
  }

  double slowest() const {
    return slowest_;
  }  // relative to the best intervals, with the least slots everywhere; at least `slack`

  // The cheapest slots for intervals that are `times` the best ones.
  const Slots& at(double times) {
    for (const IntervalModel& interval_model : intervals_) {
      if (!interval_model.known) continue;
      const SlotModel model = model_of(interval_model);
      std::vector<int> all;
      for (const auto& reg : model.problem.registers) all.push_back(reg.most);
      const double reached = interval_of(model.problem, all).interval;  // with the slots that are left
      const solve::SlotPlan plan = cheapest_slots(model.problem, std::max(times * interval_model.best, reached));
      for (ValueId v : held_.ids())
        if (is_chosen(interval_model, v))
          held_[v] = min_[v];  // a value without a register in the model stays within one of its actors
      for (std::size_t r = 0; r < plan.slots.size(); ++r)
        if (const ValueId v = model.edge[r].value; v.valid()) held_[v] = plan.slots[r];
    }
    return held_;
  }

 private:
  // The interval that slots may lengthen: of micro-batches in a steady state, or of launches.
  struct IntervalModel {
    SlotModel (*model)(const Graph&, const Segmentation&, const CostTable&, const SlotRanges&);
    double best = 0;  // interval
    bool known = false;
  };

  bool is_chosen(const IntervalModel& interval_model, ValueId v) const {
    return (fills_per_launch(graph_, v) > 1) == (interval_model.model == micro_model);
  }

  // Only the registers of this interval have a choice: slots of micro-batches are chosen before those of launches.
  SlotModel model_of(const IntervalModel& interval_model) const {
    SlotRanges ranges;
    for (ValueId v : held_.ids()) ranges.push_back({is_chosen(interval_model, v) ? min_[v] : held_[v], held_[v]});
    return interval_model.model(graph_, segmentation_, costs_, ranges);
  }

  const Graph& graph_;
  const Segmentation& segmentation_;
  const CostTable& costs_;
  Slots held_, min_;
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
  SlotAssignment made;
  made.slots = std::move(slots);
  made.interval = launch_interval(graph, segmentation, made.slots, costs);
  made.turns.resize(graph.nodes.size());
  std::map<CommunicatorKey, int> next;
  for (NodeId node : simulate_launch(graph, segmentation, made.slots, costs).collectives)
    made.turns[node].push_back(next[communicator_key(graph, node)]++);
  return made;
}

Slots slot_counts(const Graph& graph, const Segmentation& segmentation, const CostTable& costs, int most) {
  return with_windows(graph, SlotChooser(graph, segmentation, costs, most).at(slack));
}

std::vector<Slots> fewer_slots(const Graph& graph, const Segmentation& segmentation, const CostTable& costs, int most) {
  SlotChooser chooser(graph, segmentation, costs, most);
  std::vector<Slots> made;
  Slots last = with_windows(graph, chooser.at(slack));
  auto add = [&](Slots slots) {
    if (slots == last) return;
    last = slots;
    made.push_back(std::move(slots));
  };
  const double end = chooser.slowest();
  for (int i = 1; i <= steps; ++i) add(with_windows(graph, chooser.at(slack + (end - slack) * i / steps)));
  add(Slots(graph.values.size(), 1));  // inputs that are read ahead included
  return made;
}

}  // namespace karez::passes
