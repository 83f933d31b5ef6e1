// The end of a job of ranks: the signals that the ranks receive, and the exit code of the job.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tools/namespace.h"

namespace karez::tools {

// Signals for the running ranks, each stronger than the one before. The caller passes the time.
class ShutdownEscalation {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A rank has failed: the others have a second to report what they waited for, then they get SIGTERM, then SIGKILL.
  void failed(Time now);
  // The user ends the job: SIGINT, two seconds later SIGTERM, two seconds later SIGKILL. SIGTERM and SIGHUP begin at
  // SIGTERM. A second interrupt sends the next signal at once.
  void interrupted(int signal, Time now);

  std::optional<int> due(Time now);  // a signal to send now; returns each once
  std::optional<Time> next() const;  // the time of the next signal
  bool begun() const { return begun_; }

 private:
  struct Step {
    Time when;
    int signal;
  };
  std::vector<Step> steps_;  // in order of time
  bool begun_ = false;       // a signal was sent
};

// The end of one rank.
struct RankExit {
  int rank = 0;
  std::string name;             // "rank 2 (alpha, process 4711)"
  int status = 0;               // of waitpid; -1: unknown, its host is gone
  bool after_signal = false;    // it ended after a signal of this job, so it is not a cause
  std::string last_error = {};  // its StderrTail
  bool good() const { return status == 0; }
};
std::string print(const RankExit& end);        // "rank 2 (alpha, process 4711) was ended by signal 9 (Killed)"
bool reports_other_rank(const RankExit& end);  // exit code 75 or 76: another rank is gone or hangs

// The final lines: the last error of the rank that caused the end, and the ranks that ended as a consequence. Empty if
// all succeeded.
std::vector<std::string> exit_report(const std::vector<RankExit>& ends, std::optional<int> interrupted);

struct JobResult {
  int code = 0;
  const RankExit* cause = nullptr;  // null: all succeeded, or the job was interrupted
};
// The first rank that failed on its own decides: its exit code, or 75 (a peer is gone) if a signal ended it or its host
// is gone. A rank that ended with 75 or 76 reports another rank and decides only if no rank failed on its own; a hang
// then has priority over a missing peer. Interrupted before any failure: 128 plus the signal.
JobResult job_result(const std::vector<RankExit>& ends, std::optional<int> interrupted);

}  // namespace karez::tools
