// Replays what workers recorded and says whether the protocol allows it: tokens counted from the plan alone, with no
// code of Ports.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "karez/plan/plan.h"
#include "karez/runtime/event_ring.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Throws on the first entry that may not stand where it stands: an act that begins with an input empty or no slot free,
// or while it acts; an act that sends other messages than one for each input it returns and each consumer of what it
// fills; a slot filled or returned twice; a piece out of turn. Logs are by worker, complete from their first entry on
// (nothing overwritten), and of one plan; other plans' entries are passed over. `finished`: nothing may be under way at
// the end.
void check_protocol(const Plan& plan, std::int32_t number, std::span<const EventLog> logs, bool finished = true);

}  // namespace karez::runtime
