// Decides how a job of ranks ends: which signals the ranks receive, and which exit code the job returns.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tools/namespace.h"

namespace karez::tools {

// The sequence of signals for the running ranks, each stronger than the previous one. The caller passes the time.
class ShutdownEscalation {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Call after a rank has failed. The other ranks have a second to report their waits; then they get SIGTERM, and
  // 0.8 seconds later SIGKILL.
  void failed(Time now);
  // Call when the user ends the job. The ranks get SIGINT, two seconds later SIGTERM, two seconds later SIGKILL; after
  // SIGTERM or SIGHUP the sequence begins with SIGTERM. A second interrupt sends the next signal at once.
  void interrupted(int signal, Time now);

  std::optional<int> due(Time now);  // a signal to send now; each signal is returned once
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
  int status = 0;               // status of waitpid; -1: unknown, because the host is lost
  bool after_signal = false;    // true if the rank ended after a signal of this job, so that it is not a cause
  std::string last_error = {};  // its StderrTail
  bool good() const { return status == 0; }
};
std::string print(const RankExit& end);        // "rank 2 (alpha, process 4711) was ended by signal 9 (Killed)"
bool reports_other_rank(const RankExit& end);  // true for exit codes 75 and 76: another rank is lost or hangs

// Returns the final lines of a job: the last error of the rank that caused the end, the other ranks that failed, and
// the exit code. Empty if no rank failed before the first signal.
std::vector<std::string> exit_report(const std::vector<RankExit>& ends, std::optional<int> interrupted);

struct JobResult {
  int code = 0;
  const RankExit* cause = nullptr;  // null: all succeeded, or the job was interrupted
};
// Returns the exit code of the first rank that failed on its own, or 75 (a peer is lost) if a signal ended this rank or
// its host is lost. A rank that ended with 75 or 76 reports another rank and counts only if no rank failed on its own;
// a hang then has priority over a missing peer. If the job was interrupted before any failure, the code is 128 plus the
// signal.
JobResult job_result(const std::vector<RankExit>& ends, std::optional<int> interrupted);

}  // namespace karez::tools
