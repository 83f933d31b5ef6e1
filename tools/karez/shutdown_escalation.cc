// Computes the signals that end a job, and the rank that caused the end.
#include "tools/karez/shutdown_escalation.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "karez/base/error.h"

namespace karez::tools {

void ShutdownEscalation::failed(Time now) {
  using std::chrono::milliseconds;
  if (steps_.empty() && !begun_) steps_ = {{now + milliseconds(1000), SIGTERM}, {now + milliseconds(1800), SIGKILL}};
}

void ShutdownEscalation::interrupted(int signal, Time now) {
  using std::chrono::seconds;
  if (begun_ && !steps_.empty()) {  // a second interrupt
    const auto advance = steps_.front().when - now;
    for (Step& step : steps_) step.when -= advance;
    return;
  }
  if (begun_) return;
  steps_.clear();
  if (signal == SIGINT) steps_.push_back({now, SIGINT});
  const Time next_time = signal == SIGINT ? now + seconds(2) : now;
  steps_.push_back({next_time, SIGTERM});
  steps_.push_back({next_time + seconds(2), SIGKILL});
}

std::optional<int> ShutdownEscalation::due(Time now) {
  if (steps_.empty() || steps_.front().when > now) return std::nullopt;
  const int signal = steps_.front().signal;
  steps_.erase(steps_.begin());
  begun_ = true;
  return signal;
}

std::optional<ShutdownEscalation::Time> ShutdownEscalation::next() const {
  return steps_.empty() ? std::nullopt : std::optional(steps_.front().when);
}

std::string print(const RankExit& end) {
  if (end.status == -1) return cat(end.name, " is gone with its host");
  if (WIFSIGNALED(end.status))
    return cat(end.name, " was ended by signal ", WTERMSIG(end.status), " (", strsignal(WTERMSIG(end.status)), ")");
  return cat(end.name, " ended with exit code ", WEXITSTATUS(end.status));
}

bool reports_other_rank(const RankExit& end) {
  if (end.status == -1 || !WIFEXITED(end.status)) return false;
  const int code = WEXITSTATUS(end.status);
  return code == exit_code(ErrorKind::peer) || code == exit_code(ErrorKind::hang);
}

namespace {

int code_of(const RankExit& end) {
  return end.status != -1 && WIFEXITED(end.status) ? WEXITSTATUS(end.status) : exit_code(ErrorKind::peer);
}

// Returns the priority of a cause: highest for a rank that failed on its own, then for a rank that reports a hang, then
// for a rank that reports a missing peer.
int cause_priority(const RankExit& end) {
  return !reports_other_rank(end) ? 2 : code_of(end) == exit_code(ErrorKind::hang) ? 1 : 0;
}

}  // namespace

JobResult job_result(const std::vector<RankExit>& ends, std::optional<int> interrupted) {
  const RankExit* cause = nullptr;
  for (const RankExit& end : ends)
    if (!end.good() && !end.after_signal && (cause == nullptr || cause_priority(end) > cause_priority(*cause)))
      cause = &end;
  if (cause != nullptr) return {code_of(*cause), cause};
  if (interrupted) return {128 + *interrupted, nullptr};
  return {};
}

std::vector<std::string> exit_report(const std::vector<RankExit>& ends, std::optional<int> interrupted) {
  const JobResult result = job_result(ends, interrupted);
  if (result.cause == nullptr) return {};
  const RankExit& first = *result.cause;
  if (reports_other_rank(first)) return {cat("exit code ", result.code, ", reported by ", first.name)};
  std::vector<std::string> out;
  std::string consequences, own_failures;
  for (const RankExit& end : ends) {
    if (&end == &first || end.good() || end.after_signal) continue;
    std::string& list = reports_other_rank(end) ? consequences : own_failures;
    list += cat(list.empty() ? "" : ", ", "rank ", end.rank, " (code ", code_of(end), ")");
  }
  if (!first.last_error.empty()) out.push_back(cat(first.name, " reported: ", first.last_error));
  if (!own_failures.empty()) out.push_back(cat("also failed: ", own_failures));
  if (!consequences.empty()) out.push_back(cat("ended as a consequence: ", consequences));
  out.push_back(cat("exit code ", result.code, ", because of ", first.name));
  return out;
}

}  // namespace karez::tools
