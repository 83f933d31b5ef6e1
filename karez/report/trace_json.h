// Traces in the "Trace Event Format" of Chrome and Perfetto.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "karez/plan/plan.h"
#include "karez/report/namespace.h"
#include "karez/report/trace_spans.h"

namespace karez::report {

using TraceValue = std::variant<std::int64_t, double, bool, std::string>;

// A complete event "X". Times are in ns; the file has microseconds.
struct TraceEvent {
  std::string name, category;
  int process = 0, lane = 0;
  std::int64_t begin = 0, end = 0;
  std::map<std::string, TraceValue> args = {};
};

struct Trace {
  std::map<int, std::string> processes;              // names
  std::map<std::pair<int, int>, std::string> lanes;  // names, by process and lane
  std::vector<TraceEvent> events;
  std::map<std::string, TraceValue> facts = {};  // about the whole trace
};

std::string print(const Trace& trace);

// Returns a trace of one plan: the process is the rank, the lane is the worker, and args are ticket, act, worker and
// where. The lanes of concurrent acts get their own names, and their numbers follow those of the workers.
Trace trace_of(const Plan& plan, std::span<const TraceSpan> spans);

}  // namespace karez::report
