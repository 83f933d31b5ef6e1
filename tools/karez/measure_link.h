// Measures a connection to another process: seconds per message and per byte, and the difference of the clocks.
#pragma once

#include <cstdint>

#include "karez/comm/connection.h"
#include "karez/comm/socket.h"
#include "karez/sbp/cost.h"
#include "tools/namespace.h"

namespace karez::tools {

struct LinkMeasure {
  LinkCost cost;     // alpha: half of the median round trip of 64 bytes, both ends asleep; beta: both send at once
  double clock = 0;  // seconds that the other's system clock is ahead of ours; at the end that begins
  double clock_error = 0;  // largest error of `clock`: half of the fastest round
};

// Both processes call it, one with `begins`, on a channel of their own; it takes about `seconds`. Throws Error (kind
// peer) if the other process is gone, sends nothing for `patience`, or sends wrong bytes.
LinkMeasure measure_link(Connection& connection, std::uint64_t channel, bool begins, double seconds,
                         Seconds patience = Seconds(5));

}  // namespace karez::tools
