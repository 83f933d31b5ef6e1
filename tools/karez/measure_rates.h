// Measures the compute rates of this process for a cost table.
#pragma once

#include "karez/sbp/cost.h"
#include "tools/namespace.h"

namespace karez::tools {

// Measures the rates of a team of `team` threads, which takes about a second. Link costs and the overhead of a call
// keep their defaults.
CostTable measure_rates(int team);

}  // namespace karez::tools
