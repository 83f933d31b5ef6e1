// Adds up the price of one value.
#include "karez/passes/sharding/value_price.h"

#include <algorithm>

#include "karez/passes/sharding/device_cost.h"

namespace karez::passes {

double ValuePrice::access_seconds(int from, int set) const {
  if (!fused_.fuses()) return 0;
  const std::vector<int>& targets = table_->layouts_in(set);
  const bool is_stored = std::any_of(targets.begin(), targets.end(), [&](int target) { return target != from; });
  return is_stored ? fills_ * stored_seconds(from) : 0;
}

double ValuePrice::stored_seconds(int layout) const {
  constexpr double unknown = -1;
  const auto at = static_cast<std::size_t>(layout);
  if (stored_->size() <= at) stored_->resize(at + 1, unknown);
  double& seconds = (*stored_)[at];
  if (seconds == unknown) {
    const auto part = static_cast<double>(largest_part(table_->type(), table_->mesh(), table_->layout(layout)));
    const double accesses = fused_.reads + (fused_.written ? 1 : 0);
    seconds =
        costs_->seconds({.work = WorkClass::memory, .bytes = accesses * part}) - (fused_.called ? 0 : costs_->call);
  }
  return seconds;
}

}  // namespace karez::passes
