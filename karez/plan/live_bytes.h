// A lower bound for the bytes of a plan's values: the bytes live at once when its acts run one after another.
#pragma once

#include <cstdint>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// Returns for each device the largest number of bytes of its scratch and register blocks that hold, at one call, values
// that are written and will still be read.
//
//   order    the acts of one launch in the order of `dry_run`, with the calls of each act in order;
//            a collective, an input or a fetch is one call
//   value    bytes from the call that writes them to the last call that reads them before they are overwritten;
//            if a call works in place, its operand and its result count as one value;
//            for a register with several slots, the slots that the pieces of one launch use
// The bound depends on the operands alone, not on the placement of bytes, so a plan with registers that share bytes has
// the bound of the same plan without sharing. Variables, constants and results that the user holds are excluded. No
// placement that runs the calls in this order takes less; a placement that lets acts overlap may need more.
ById<DeviceId, std::int64_t> live_bytes(const Plan& plan);

// The additional bytes of launches that run ahead: all slots but one of every register on the device.
ById<DeviceId, std::int64_t> run_ahead_bytes(const Plan& plan);

// The bytes of the scratch and register blocks of each device.
ById<DeviceId, std::int64_t> arena_bytes(const Plan& plan);

}  // namespace karez::plan
