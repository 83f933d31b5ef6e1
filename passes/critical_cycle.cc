// The whole launch as a slot problem, and its worst cycle in words.
#include "passes/critical_cycle.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "passes/slot_model.h"

namespace karez::passes {
namespace {

std::string name_of_segment(const Graph& graph, const Segmented& cut, SegmentId s) {
  const Segment& segment = cut.segments[s];
  return cat(name_of(segment.stream), ".", s, " (", describe(graph, segment.nodes[0]), ")");
}

std::string what(const Graph& graph, const SlotModel::Edge& edge) {
  if (edge.variable >= 0) return cat("variable ", graph.variables[static_cast<std::size_t>(edge.variable)].name);
  if (edge.then.valid()) return cat("order before ", describe(graph, edge.then));
  return describe(graph, graph.value(edge.value).producer);
}

std::string reason(const Graph& graph, const SlotModel& model, const solve::SlotCycle::Step& step) {
  const auto index = static_cast<std::size_t>(step.index);
  using Why = solve::SlotCycle::Why;
  switch (step.why) {
    case Why::data: return cat("gives ", what(graph, model.edge[index]));
    case Why::slot: return cat("returns a slot of ", what(graph, model.edge[index]), ", one of ", model.problem.registers[index].least);
    case Why::actor: return "acts again";
    case Why::stream: return cat("shares the compute stream of mesh", model.mesh[index]);
  }
  return "";
}

}  // namespace

std::string microseconds(double seconds) { return cat(base::number(std::round(seconds * 1e7) / 10), " us"); }

CriticalCycle critical_cycle(const Graph& graph, const Segmented& cut, const ById<ValueId, int>& slots, const CostTable& costs) {
  SlotRanges ranges;
  for (int held : slots) ranges.push_back({held, held});
  const SlotModel model = launch_model(graph, cut, costs, ranges);
  const solve::SlotLimits limits;
  const std::int64_t acts = solve::acts_of(model.problem);
  if (acts > limits.acts) return {0, cat("critical cycle: not looked for among ", acts, " acts a launch, more than ", limits.acts, "\n")};
  std::vector<int> held;
  for (const auto& reg : model.problem.registers) held.push_back(reg.least);
  const solve::SlotCycle cycle = interval_of(model.problem, held, limits);
  if (cycle.steps.empty()) return {};
  constexpr std::size_t most = 12;
  CriticalCycle out{cycle.interval, cat("critical cycle: ", microseconds(cycle.interval), " a launch, predicted\n")};
  for (std::size_t i = 0; i < std::min(cycle.steps.size(), most); ++i) {
    const auto& step = cycle.steps[i];
    const auto segment = model.segment[static_cast<std::size_t>(step.actor)];
    const bool several = model.problem.actors[static_cast<std::size_t>(step.actor)].acts > 1;
    out.text +=
        cat("  ", name_of_segment(graph, cut, segment), several ? cat(", act ", step.act) : std::string(), ": ", reason(graph, model, step), "\n");
  }
  if (cycle.steps.size() > most) out.text += cat("  ... ", cycle.steps.size() - most, " more\n");
  return out;
}

}  // namespace karez::passes
