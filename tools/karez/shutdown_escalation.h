// How a job of ranks ends: which signals go to the ranks when, and what the whole of it returns.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tools/namespace.h"

namespace karez::tools {

// Signals for those who still run, each harder than the one before. No clock of its own.
class ShutdownEscalation {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A rank has failed: the others have a second to say what they know (a rank that waits for a dead one does), then
  // SIGTERM, then SIGKILL.
  void failed(Time now);
  // Somebody wants it to end: SIGINT, two seconds later SIGTERM, two seconds later SIGKILL. SIGTERM and SIGHUP begin at
  // SIGTERM. Once more: the next one now.
  void interrupted(int signal, Time now);

  std::optional<int> due(Time now);  // a signal to send now; each once
  std::optional<Time> next() const;  // when the next is due
  bool begun() const { return begun_; }

 private:
  struct Step {
    Time when;
    int signal;
  };
  std::vector<Step> steps_;  // soonest first
  bool begun_ = false;       // a signal was sent
};

// How one rank ended.
struct RankExit {
  int rank = 0;
  std::string name;             // "rank 2 (alpha, process 4711)"
  int status = 0;               // of waitpid; -1: nobody knows, its host is gone
  bool after_signal = false;    // after a signal of ours, so that it tells nothing
  std::string last_error = {};  // its last line of errors
  bool good() const { return status == 0; }
};
std::string print(const RankExit& end);        // "rank 2 (alpha, process 4711) was ended by signal 9 (Killed)"
bool reports_other_rank(const RankExit& end);  // it ended with 75 or 76 itself: another rank has gone or hangs

// What is said when all have ended: whose fault it was with its own last words, and who ended because of it. Nothing
// where all went well.
std::vector<std::string> exit_report(const std::vector<RankExit>& ends, std::optional<int> interrupted);

struct JobResult {
  int code = 0;
  const RankExit* cause = nullptr;  // null: all went well, or somebody interrupted it
};
// The first that failed by itself decides: with its exit code; with 75 (a peer is gone) where a signal ended it or its
// host is gone. One that ended with 75 or 76 only tells of another, who decides if there is one; a hang is told before
// a peer that is gone. Interrupted, and nobody failed before: 128 and the signal.
JobResult job_result(const std::vector<RankExit>& ends, std::optional<int> interrupted);

}  // namespace karez::tools
