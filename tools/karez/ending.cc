// Steps of an ending, and whose fault it is.
#include "tools/karez/ending.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

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

std::optional<Ending::Time> Ending::next() const { return steps_.empty() ? std::nullopt : std::optional(steps_.front().when); }

std::string print(const RankEnd& end) {
  if (end.status == -1) return cat(end.name, " is gone with its host");
  if (WIFSIGNALED(end.status)) return cat(end.name, " was ended by signal ", WTERMSIG(end.status), " (", strsignal(WTERMSIG(end.status)), ")");
  return cat(end.name, " ended with exit code ", WEXITSTATUS(end.status));
}

Verdict verdict_of(const std::vector<RankEnd>& ends, std::optional<int> interrupted) {
  const int peer = exit_code(ErrorKind::peer);
  auto code_of = [&](const RankEnd& end) { return end.status != -1 && WIFEXITED(end.status) ? WEXITSTATUS(end.status) : peer; };
  const RankEnd* because = nullptr;
  for (const RankEnd& end : ends) {
    if (end.good() || end.asked) continue;
    const bool tells_of_another = end.status != -1 && WIFEXITED(end.status) && code_of(end) == peer;
    if (because == nullptr) because = &end;
    if (tells_of_another) continue;
    because = &end;
    break;
  }
  if (because != nullptr) return {code_of(*because), because};
  if (interrupted) return {128 + *interrupted, nullptr};
  return {};
}

}  // namespace karez::tools
