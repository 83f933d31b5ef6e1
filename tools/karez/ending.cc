// Steps of an ending, and whose fault it is.
#include "tools/karez/ending.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "karez/base/error.h"

namespace karez::tools {

void Ending::failed(Time now) {
  using std::chrono::milliseconds;
  if (steps_.empty() && !begun_) steps_ = {{now + milliseconds(1000), SIGTERM}, {now + milliseconds(1800), SIGKILL}};
}

void Ending::interrupted(int signal, Time now) {
  using std::chrono::seconds;
  if (begun_ && !steps_.empty()) {  // once more
    const auto sooner = steps_.front().when - now;
    for (Step& step : steps_) step.when -= sooner;
    return;
  }
  if (begun_) return;
  steps_.clear();
  if (signal == SIGINT) steps_.push_back({now, SIGINT});
  const Time after = signal == SIGINT ? now + seconds(2) : now;
  steps_.push_back({after, SIGTERM});
  steps_.push_back({after + seconds(2), SIGKILL});
}

std::optional<int> Ending::due(Time now) {
  if (steps_.empty() || steps_.front().when > now) return std::nullopt;
  const int signal = steps_.front().signal;
  steps_.erase(steps_.begin());
  begun_ = true;
  return signal;
}

std::optional<Ending::Time> Ending::next() const {
  return steps_.empty() ? std::nullopt : std::optional(steps_.front().when);
}

std::string print(const RankEnd& end) {
  if (end.status == -1) return cat(end.name, " is gone with its host");
  if (WIFSIGNALED(end.status))
    return cat(end.name, " was ended by signal ", WTERMSIG(end.status), " (", strsignal(WTERMSIG(end.status)), ")");
  return cat(end.name, " ended with exit code ", WEXITSTATUS(end.status));
}

bool tells_of_another(const RankEnd& end) {
  if (end.status == -1 || !WIFEXITED(end.status)) return false;
  const int code = WEXITSTATUS(end.status);
  return code == exit_code(ErrorKind::peer) || code == exit_code(ErrorKind::hang);
}

namespace {

int code_of(const RankEnd& end) {
  return end.status != -1 && WIFEXITED(end.status) ? WEXITSTATUS(end.status) : exit_code(ErrorKind::peer);
}

// Who is to be believed more: one who failed by itself, then one who tells of a hang, then one who tells that a peer
// has gone.
int weight_of(const RankEnd& end) {
  return !tells_of_another(end) ? 2 : code_of(end) == exit_code(ErrorKind::hang) ? 1 : 0;
}

}  // namespace

Verdict verdict_of(const std::vector<RankEnd>& ends, std::optional<int> interrupted) {
  const RankEnd* because = nullptr;
  for (const RankEnd& end : ends)
    if (!end.good() && !end.asked && (because == nullptr || weight_of(end) > weight_of(*because))) because = &end;
  if (because != nullptr) return {code_of(*because), because};
  if (interrupted) return {128 + *interrupted, nullptr};
  return {};
}

std::vector<std::string> last_lines(const std::vector<RankEnd>& ends, std::optional<int> interrupted) {
  const Verdict verdict = verdict_of(ends, interrupted);
  if (verdict.because == nullptr) return {};
  const RankEnd& first = *verdict.because;
  if (tells_of_another(first)) return {cat("exit code ", verdict.code, ", as told by ", first.name)};
  std::vector<std::string> out;
  std::string others, by_themselves;
  for (const RankEnd& end : ends) {
    if (&end == &first || end.good() || end.asked) continue;
    std::string& list = tells_of_another(end) ? others : by_themselves;
    list += cat(list.empty() ? "" : ", ", "rank ", end.rank, " with ", code_of(end));
  }
  if (!first.said.empty()) out.push_back(cat(first.name, " said: ", first.said));
  if (!by_themselves.empty()) out.push_back(cat("failed by themselves too: ", by_themselves));
  if (!others.empty()) out.push_back(cat("because of it ended ", others));
  out.push_back(cat("exit code ", verdict.code, ", because of ", first.name));
  return out;
}

}  // namespace karez::tools
