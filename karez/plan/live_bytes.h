// A lower bound on the memory for a plan's values: the bytes that are live at the same time if acts run one by one.
#pragma once

#include <cstdint>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// Returns, for each device, the live bytes in its scratch and register blocks: the maximum over all calls. A byte is
// live from the call that writes it to the last call that reads it before it is overwritten.
//
//   order      the acts of one launch are in the order of `dry_run`, with the calls of each act in order;
//              a collective, an input or a fetch is one call
//   in place   if a call works in place, its operand and its result count as one value
//   slots      of a register with several slots, only the slots that the pieces of one launch use are counted
//
// The bound depends on the operands alone: it is the same whether or not registers share bytes. Variables, constants
// and results that the user holds are excluded. A plan that runs the calls in this order cannot need less memory; one
// that lets acts overlap may need more.
ById<DeviceId, std::int64_t> live_bytes(const Plan& plan);

// Returns, for each device, the additional bytes that let launches run ahead: all slots but one of each register.
ById<DeviceId, std::int64_t> run_ahead_bytes(const Plan& plan);

// Returns the total bytes of the scratch and register blocks of each device.
ById<DeviceId, std::int64_t> arena_bytes(const Plan& plan);

}  // namespace karez::plan
