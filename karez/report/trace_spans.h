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

// Returns the spans of the plan with this number, by worker and in the order in which the acts began. Leaves out acts
// that had not ended and acts whose begin event was overwritten. Spans of one lane never overlap.
std::vector<TraceSpan> spans_of(const Plan& plan, std::int32_t number, std::span<const EventLog> logs);

}  // namespace karez::report
