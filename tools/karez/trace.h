// Spans of acts from what workers recorded.
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
  std::int64_t act = 0;      // of this actor, from 0
  std::uint32_t ticket = 0;  // of the launch
  int worker = 0;
  int lane = 0;  // of the worker: 0 for what held it; from 1 for what went on beside it: collectives, and inputs read
                 // by a thread of their own
  std::int64_t begin = 0, end = 0;     // ns
  bool failed = false, worked = true;  // worked: false for an act without work, which began and ended at once
  bool operator==(const TraceSpan&) const = default;
};

// By worker, in the order in which acts began. Acts whose begin was overwritten, or that had not ended, are left out.
// Spans of one lane never overlap.
std::vector<TraceSpan> spans_of(const Plan& plan, std::int32_t number, std::span<const EventLog> logs);

// As Chrome and Perfetto read it (the "Trace Event Format"): a complete event "X" per span, pid the rank, tid the
// worker (of what went on beside it: lanes behind the last worker, which are named), args ticket, act, worker and
// where; times in microseconds.
std::string trace_json(const Plan& plan, std::span<const TraceSpan> spans);

}  // namespace karez::tools
