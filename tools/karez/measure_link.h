// Measures a connection to another process: seconds per message and per byte, and the difference of the clocks.
#pragma once

#include <cstdint>

#include "karez/comm/transport/connection.h"
#include "karez/comm/transport/socket.h"
#include "karez/sbp/cost.h"
#include "tools/namespace.h"

namespace karez::tools {

struct LinkMeasure {
  LinkCost cost;     // alpha: half of the median round trip of 64 bytes, both ends asleep; beta: both send at once
  double clock = 0;  // seconds by which the peer's system clock is ahead; only at the end that begins
  double clock_error = 0;  // largest error of `clock`: half of the fastest round
};

// Both processes call this function on an unused channel, one of them with `begins`; it takes about `seconds`. Throws
// Error (kind peer) if the other process disconnects, sends nothing for `timeout`, or sends wrong bytes.
LinkMeasure measure_link(Connection& connection, std::uint64_t channel, bool begins, double seconds,
                         Seconds timeout = Seconds(5));

}  // namespace karez::tools
