// Models a launch as a slot problem and finds its slowest cycle.
#include "karez/passes/scheduling/critical_cycle.h"

#include <cmath>
#include <vector>

#include "karez/base/text.h"
#include "karez/passes/scheduling/slot_model.h"

namespace karez::passes {

std::string microseconds(double seconds) { return cat(base::number(std::round(seconds * 1e7) / 10), " us"); }

double launch_interval(const Graph& graph, const Segmentation& segmentation, const ById<ValueId, int>& slots,
                       const CostTable& costs) {
  SlotRanges ranges;
  for (int count : slots) ranges.push_back({count, count});
  const SlotModel model = launch_model(graph, segmentation, costs, ranges);
  const solve::SlotLimits limits;
  if (solve::acts_of(model.problem) > limits.acts) return 0;
  std::vector<int> slot_counts;
  for (const auto& reg : model.problem.registers) slot_counts.push_back(reg.min_slots);
  return interval_of(model.problem, slot_counts, limits).interval;
}

}  // namespace karez::passes
