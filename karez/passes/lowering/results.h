// The results pass: lets actors compute the results of a launch in the memory that the user holds afterwards.
#pragma once

#include "karez/passes/namespace.h"
#include "karez/plan/plan.h"

namespace karez::passes {

// Each fetch copies a register to the user's memory. This pass puts the register into an external block instead, whose
// memory is that of the result: the launch provides it. So the fetch copies nothing, and the register needs no memory
// of the plan. A register qualifies if
//
//   - a fetch reads all its bytes in row-major order (another fetch of the same register still copies)
//   - a compute actor or a collective fills it, once in a launch (the registers of inputs and variables have memory of
//     their own)
//   - no link sends it
Plan results(Plan plan);

}  // namespace karez::passes
