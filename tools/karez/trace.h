// Computes the spans of acts from the event rings of the workers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "karez/plan/plan.h"
#include "karez/runtime/event_ring.h"
#include "tools/namespace.h"

namespace karez::tools {

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

// Formats the spans for Chrome and Perfetto ("Trace Event Format"). Each span becomes a complete event "X": pid is the
// rank, tid is the worker, and args are ticket, act, worker and where. Times are in microseconds. The lanes of
// concurrent acts get their own names, and their tids follow those of the workers.
std::string trace_json(const Plan& plan, std::span<const TraceSpan> spans);

}  // namespace karez::tools
