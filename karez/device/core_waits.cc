// Threads are listed anew at each look, because OpenMP ends and starts some when a team's size changes.
#include "karez/device/core_waits.h"

#include <dirent.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "karez/base/text.h"

namespace karez::device {
namespace {

using std::chrono::nanoseconds;

std::optional<CoreTimes> read_times(const std::string& path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  long long ran = 0, waited = 0;
  if (!file || std::fscanf(file.get(), "%lld %lld", &ran, &waited) != 2) return std::nullopt;
  return CoreTimes{nanoseconds(ran), nanoseconds(waited)};
}

}  // namespace

CoreWaits::CoreWaits(std::string root) : folder_(root + "/proc/self/task/") { since_last(); }

std::optional<CoreTimes> CoreWaits::since_last() {
  std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(folder_.c_str()), closedir);
  if (!folder) return std::nullopt;
  std::map<int, CoreTimes> now;
  CoreTimes out;
  while (const dirent* entry = readdir(folder.get())) {
    const int thread = std::atoi(entry->d_name);
    if (thread <= 0) continue;
    const auto times = read_times(cat(folder_, thread, "/schedstat"));
    if (!times) continue;  // it has ended
    now[thread] = *times;
    const auto before = last_.find(thread);
    if (before == last_.end() || times->ran < before->second.ran)
      continue;  // it is new, also under a number that another one had
    out.ran += times->ran - before->second.ran;
    out.waited = std::max(out.waited, times->waited - before->second.waited);
  }
  last_ = std::move(now);
  if (last_.empty()) return std::nullopt;
  return out;
}

bool Crowding::look(const CoreTimes& since, nanoseconds period) {
  // Alone a thread waits for up to a twentieth of the time, for threads of the kernel; beside one busy process for a
  // quarter and more, however it waits for its team.
  const bool waits = since.waited > period / 8;
  if (!crowded_) {
    waits_ = waits ? waits_ + 1 : 0;
    if (waits_ == 2) crowded_ = true, calm_ = {};
    return crowded_;
  }
  if (since.ran < period / 50) return true;  // it did nothing, and has nothing to say
  calm_ = waits ? nanoseconds(0) : calm_ + period;
  if (calm_ >= std::chrono::seconds(1)) crowded_ = false, waits_ = 0;
  return crowded_;
}

}  // namespace karez::device
