// The fewest bytes that a plan's values need: those that are live at once when its acts run one after the other.
#pragma once

#include <cstdint>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// By device: the most bytes of its scratch and register blocks that hold, at one call, what was written and is yet to
// be read.
//
//   order    one launch's acts as `dry_run` does them, the calls of each in turn; a collective, an input or a fetch is
//   one call a value  bytes from the call that writes them to the last that reads them before they are written anew;
//   where a call works in
//            place both values are one; of a register with several slots, the slots that one launch's pieces lie in
//
// It looks at the operands alone, not at how bytes were placed, so a plan whose registers share bytes has the bound of
// the same plan without sharing. Variables, constants and results that the user holds are left out. No placement that
// runs the calls in this order takes less; one that lets acts overlap may need more.
ById<DeviceId, std::int64_t> live_bytes(const Plan& plan);

// What pieces of further launches take beside them, once those run ahead: all but one slot of every register there.
ById<DeviceId, std::int64_t> run_ahead_bytes(const Plan& plan);

// What those blocks take.
ById<DeviceId, std::int64_t> arena_bytes(const Plan& plan);

}  // namespace karez::plan
