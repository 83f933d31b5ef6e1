// The profile of a running program: the times of its launches by op, module and thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "karez/report/namespace.h"
#include "karez/report/profile_spans.h"
#include "karez/report/trace_json.h"
#include "karez/runtime/profile/event_recorder.h"

namespace karez::report {

// An act of a data set's stage on a thread, or a time in which the program waited for data and no launch ran.
struct ProfiledStage {
  std::string stage;
  int thread = 0, thread_id = 0;  // number of a data thread, or 0; thread of the system
  std::int64_t begin = 0, end = 0;
  bool stall = false;
  std::int64_t elements = 0, bytes = 0;
};

// What one rank has recorded. Times are in ns since `origin`, which is in ns since 1970.
struct ProfileData {
  int rank = 0, ranks = 1;
  std::int64_t origin = 0;
  Recording recording;
  std::vector<ProfiledStage> stages;
  std::uint64_t lost_stages = 0;  // acts of stages that were not recorded
};

struct ProfileRow {
  std::string op, line, module, kernel;
  std::int64_t calls = 0;
  std::int64_t time = 0;    // ns in which the call occupied its worker or, if it runs concurrently, the worker had
                            // nothing else to do
  std::int64_t hidden = 0;  // ns of concurrent acts in which their worker did something else
  std::int64_t waited = 0;  // ns in which a worker waited before the call
  std::int64_t cpu = 0, cpu_of = 0;  // ns on a core, in the calls that were measured, which took `cpu_of` ns
  double bytes = 0;                  // read and written
};

// The time of all workers from the first launch to the end of the last one. Each moment of each worker belongs to a row
// or to one of the other times.
struct ProfileTimes {
  std::int64_t begin = 0, end = 0;  // ns
  std::int64_t launches = 0;        // that have begun and ended
  std::int64_t unfinished = 0;      // launches that have not ended, or whose events were lost
  std::int64_t workers = 0;
  std::vector<ProfileRow> rows;  // by op, line, module and kernel; the longest first
  std::int64_t other = 0;        // ns of calls of other launches
  std::int64_t waiting = 0;      // a launch runs, and the worker has no act that can run
  std::int64_t overhead = 0;     // of launches and acts
  std::int64_t stall = 0;        // no launch exists, and the program waits for data
  std::int64_t program = 0;      // no launch exists otherwise
  std::uint64_t lost = 0;        // events that were not recorded
  std::int64_t total() const { return workers * (end - begin); }
};
ProfileTimes times_of(const ProfileData& data);

enum class ProfileBy { op, kind, module };  // op: at its source line
// Formats the times as a table with at most this many rows; the others are added up.
std::string profile_table(const ProfileTimes& times, ProfileBy by, std::size_t max_rows);

// Each launch, call, act of a stage and stall is a span; spans of one lane do not overlap, except that an act of a
// stage may contain acts that its thread executes while it waits.
Trace trace_of(const ProfileData& data);

}  // namespace karez::report
