// How fast this process computes: the rates that a cost table has.
#pragma once

#include "karez/sbp/cost.h"
#include "tools/namespace.h"

namespace karez::tools {

// With teams of so many threads, in about a second. Links, and what a call costs in the engine, are left as they are.
CostTable measure_rates(int team);

}  // namespace karez::tools
