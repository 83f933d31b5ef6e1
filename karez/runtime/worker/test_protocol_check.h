// For tests: replays the event logs of workers and checks that the protocol allows them. Tokens are counted from the
// plan alone, independently of Ports.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "karez/plan/plan.h"
#include "karez/runtime/event_ring.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Throws on the first entry that violates the protocol:
//
//   - an act that begins with an empty input, without a free output slot, or during another act of its actor
//   - an act that does not send exactly one message for each returned input and for each consumer of a filled output
//   - a slot that is filled or returned twice
//   - a piece that is out of order
//
// The logs are by worker and must be complete: no entry may have been overwritten. Entries of plans other than `number`
// are skipped. If `finished`, every act must have ended at the end of the logs.
void check_protocol(const Plan& plan, std::int32_t number, std::span<const EventLog> logs, bool finished = true);

}  // namespace karez::runtime
