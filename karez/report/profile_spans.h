// Computes the spans of calls and launches from the events of a recording.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "karez/plan/plan.h"
#include "karez/report/namespace.h"
#include "karez/runtime/profile/event_recorder.h"

namespace karez::report {

// A call of a kernel, or an act whose calls were not recorded one by one.
struct CallSpan {
  std::int32_t plan = -1;
  ActorId actor;
  int call = -1;                    // of the actor; -1: the whole act
  std::uint32_t ticket = 0;         // of the launch
  int worker = 0, lane = 0;         // as in TraceSpan
  std::int64_t begin = 0, end = 0;  // ns
  std::int64_t cpu = -1;            // ns on a core; -1: not measured
  bool failed = false;
  bool operator==(const CallSpan&) const = default;
};

// By worker and in the order in which the acts began. Spans of one lane never overlap.
std::vector<CallSpan> calls_of(const Recording& recording);

struct LaunchSpan {
  std::uint32_t ticket = 0;
  std::int32_t plan = -1;
  bool recorded = false;  // otherwise it was made before or after those of the profile
  // ns. `made` of a launch that is not recorded is `began`; both are 0 if it began before the recording.
  std::int64_t made = 0, began = 0, ended = 0;
};
// The launches that have begun and ended, in the order of their ends.
std::vector<LaunchSpan> launches_of(const Recording& recording);

}  // namespace karez::report
