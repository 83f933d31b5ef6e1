// What a connection to another process costs: seconds a message and a byte, and how far the other's clock is from ours.
#pragma once

#include <cstdint>

#include "karez/comm/connection.h"
#include "karez/comm/socket.h"
#include "karez/sbp/cost.h"
#include "tools/namespace.h"

namespace karez::tools {

struct LinkMeasure {
  LinkCost cost;  // alpha: half of the median round of 64 bytes, both ends woken by the link; beta: both send at once
  double clock = 0;        // seconds that the other's clock of the day is ahead of ours; at the end that begins
  double clock_error = 0;  // at most so far wrong: half of the quickest round
};

// Both processes call it, one with `begins`, on a channel that nobody else has; it takes about `seconds`. Throws Error
// (kind peer) where the other is gone, says nothing for `patience`, or sends other bytes than it should.
LinkMeasure measure_link(Connection& connection, std::uint64_t channel, bool begins, double seconds,
                         Seconds patience = Seconds(5));

}  // namespace karez::tools
