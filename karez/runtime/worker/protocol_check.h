// Replays the records of workers and checks that the protocol allows them. Tokens are counted from the plan alone,
// independently of Ports.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "karez/plan/plan.h"
#include "karez/runtime/event_ring.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Throws on the first entry that violates the protocol: an act that begins with an empty input, without a free slot, or
// while its actor acts; an act that sends anything but one message for each returned input and each consumer of a
// filled output; a slot filled or returned twice; a piece out of order. Logs are by worker and must be complete from
// their first entry on (nothing overwritten); entries of other plans are skipped. With `finished`, no act may be
// unfinished at the end.
void check_protocol(const Plan& plan, std::int32_t number, std::span<const EventLog> logs, bool finished = true);

}  // namespace karez::runtime
