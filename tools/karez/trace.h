// Spans of acts from the event rings of the workers.
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
  int lane = 0;  // lane of the worker: 0 for acts that occupied it; from 1 on for concurrent acts, that is collectives
                 // and inputs read by a separate thread
  std::int64_t begin = 0, end = 0;     // ns
  bool failed = false, worked = true;  // worked: false for an act that computed nothing
  bool operator==(const TraceSpan&) const = default;
};

// Returns the spans by worker, in the order in which acts began, without acts whose begin was overwritten or that had
// not ended. Spans of one lane never overlap.
std::vector<TraceSpan> spans_of(const Plan& plan, std::int32_t number, std::span<const EventLog> logs);

// Formats the spans for Chrome and Perfetto ("Trace Event Format"): a complete event "X" per span, pid the rank, tid
// the worker (concurrent acts have named lanes after the last worker), args ticket, act, worker and where; times in
// microseconds.
std::string trace_json(const Plan& plan, std::span<const TraceSpan> spans);

}  // namespace karez::tools
