// Computes the spans of acts from the event rings of the workers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "karez/plan/plan.h"
#include "karez/report/namespace.h"
#include "karez/runtime/event_ring.h"

namespace karez::report {

struct TraceSpan {
  ActorId actor;
  std::int64_t act = 0;      // the number of the act of this actor, from 0
  std::uint32_t ticket = 0;  // of the launch
  int worker = 0;
  // A lane of the worker: 0 for acts that occupied the worker, 1 and above for concurrent acts (collectives, and inputs
  // that a separate thread reads).
  int lane = 0;
  std::int64_t begin = 0, end = 0;     // ns
  bool failed = false, worked = true;  // worked: false for an act that computed nothing
  bool operator==(const TraceSpan&) const = default;
};

// An act of a worker. Collectives are concurrent.
struct LaneInterval {
  std::int64_t begin = 0, end = 0;
  bool concurrent = false;
};
// Returns the lane of each act of one worker; the acts are in the order in which they began. An act during which the
// next one begins is concurrent, too.
std::vector<int> lanes_of(std::span<const LaneInterval> acts);

// Returns the spans of the plan with this number, by worker and in the order in which the acts began. Leaves out acts
// that had not ended and acts whose begin event was overwritten. Spans of one lane never overlap.
std::vector<TraceSpan> spans_of(const Plan& plan, std::int32_t number, std::span<const EventLog> logs);

}  // namespace karez::report
