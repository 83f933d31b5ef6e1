// Measures a connection to another process: seconds per message and per byte, and the difference between the clocks.
#pragma once

#include <cstdint>

#include "karez/comm/transport/connection.h"
#include "karez/comm/transport/socket.h"
#include "karez/sbp/cost.h"
#include "tools/namespace.h"

namespace karez::tools {

struct LinkMeasure {
  // alpha: half of the median round trip of 64 bytes, when both ends sleep; beta: seconds per byte, when both ends
  // send.
  LinkCost cost;
  double clock = 0;        // seconds by which the peer's system clock is ahead; set only at the end with `begins`
  double clock_error = 0;  // largest error of `clock`: half of the fastest round trip
};

// Both processes call this function on the same unused channel, exactly one of them with `begins`. The measurement
// takes about `seconds` seconds. Throws Error (kind peer) if the other process disconnects, sends nothing for
// `timeout`, or sends wrong bytes.
LinkMeasure measure_link(Connection& connection, std::uint64_t channel, bool begins, double seconds,
                         Seconds timeout = Seconds(5));

}  // namespace karez::tools
