// Sorts variable accesses, and formats device names.
#include "karez/runtime/variables.h"

#include <algorithm>
#include <functional>

#include "karez/base/text.h"

namespace karez::runtime {

std::string device_name(const PlanDevice& device) { return cat(device.rank, ".", device.device); }

void sort_accesses(std::vector<VariableAccess>& accesses) {
  std::sort(accesses.begin(), accesses.end(), [](const VariableAccess& a, const VariableAccess& b) {
    return a.variable == b.variable ? a.writes > b.writes
                                    : std::less<>()(a.variable, b.variable);  // writes first, as unique keeps the first
  });
  accesses.erase(std::unique(accesses.begin(), accesses.end(),
                             [](const VariableAccess& a, const VariableAccess& b) { return a.variable == b.variable; }),
                 accesses.end());
}

}  // namespace karez::runtime
