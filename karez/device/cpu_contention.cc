// Reads the times of all threads, and detects contention. The threads are listed at each update, because OpenMP ends
// and starts threads when the size of a team changes.
#include "karez/device/cpu_contention.h"

#include <dirent.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "karez/base/text.h"

namespace karez::device {
namespace {

using std::chrono::nanoseconds;

std::optional<SchedTimes> read_times(const std::string& path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  long long ran = 0, waited = 0;
  if (!file || std::fscanf(file.get(), "%lld %lld", &ran, &waited) != 2) return std::nullopt;
  return SchedTimes{nanoseconds(ran), nanoseconds(waited)};
}

}  // namespace

SchedTimesReader::SchedTimesReader(std::string root) : folder_(root + "/proc/self/task/") { since_last(); }

std::optional<SchedTimes> SchedTimesReader::since_last() {
  std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(folder_.c_str()), closedir);
  if (!folder) return std::nullopt;
  std::map<int, SchedTimes> current;
  SchedTimes out;
  while (const dirent* entry = readdir(folder.get())) {
    const int thread = std::atoi(entry->d_name);
    if (thread <= 0) continue;
    const auto times = read_times(cat(folder_, thread, "/schedstat"));
    if (!times) continue;  // the thread has ended
    current[thread] = *times;
    const auto previous = last_.find(thread);
    if (previous == last_.end() || times->ran < previous->second.ran)
      continue;  // a new thread, possibly with the id of one that has ended
    out.ran += times->ran - previous->second.ran;
    out.waited = std::max(out.waited, times->waited - previous->second.waited);
  }
  last_ = std::move(current);
  if (last_.empty()) return std::nullopt;
  return out;
}

bool CpuContention::update(const SchedTimes& since, nanoseconds period) {
  // Without contention, a thread waits up to a twentieth of the time, for threads of the kernel. With one other busy
  // process it waits a quarter of the time or more, whether it spins or sleeps while it waits for its team.
  const bool waits = since.waited > period / 8;
  if (!contended_) {
    contended_periods_ = waits ? contended_periods_ + 1 : 0;
    if (contended_periods_ == 2) contended_ = true, uncontended_time_ = {};
    return contended_;
  }
  if (since.ran < period / 50) return true;  // an idle process gives no information
  uncontended_time_ = waits ? nanoseconds(0) : uncontended_time_ + period;
  if (uncontended_time_ >= std::chrono::seconds(1)) contended_ = false, contended_periods_ = 0;
  return contended_;
}

}  // namespace karez::device
