// Reads the times and the numbers of context switches that the system counts for each thread.
#include "karez/runtime/stages/thread_usage.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>

namespace karez::runtime {
namespace {

// The kernel's counters of the calling thread: nanoseconds on a core, nanoseconds in a queue for one, and more.
class SchedstatFile {
 public:
  SchedstatFile() : file_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  SchedstatFile(const SchedstatFile&) = delete;
  SchedstatFile& operator=(const SchedstatFile&) = delete;
  ~SchedstatFile() {
    if (file_ >= 0) close(file_);
  }
  double queued_seconds() const {
    char text[128];
    const ssize_t size = file_ < 0 ? 0 : pread(file_, text, sizeof text - 1, 0);
    if (size <= 0) return 0;
    text[size] = 0;
    char* end = nullptr;
    std::strtoll(text, &end, 10);
    return static_cast<double>(std::strtoll(end, nullptr, 10)) * 1e-9;
  }

 private:
  int file_;
};

}  // namespace

void ThreadSwitches::update() { only_preempted(); }

bool ThreadSwitches::only_preempted() {
  rusage usage = {};
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return false;
  const bool result = usage.ru_nivcsw != preemptions_ && usage.ru_nvcsw == waits_;
  waits_ = usage.ru_nvcsw, preemptions_ = usage.ru_nivcsw;
  return result;
}

ThreadUsage thread_usage(bool queued) {
  thread_local const SchedstatFile file;
  rusage usage = {};
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return {};
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), queued ? file.queued_seconds() : 0, usage.ru_nvcsw};
}

double computing_seconds(const ThreadUsage& before, double seconds, bool queued) {
  const ThreadUsage now = thread_usage(queued);
  if (now.waits == before.waits) return seconds;
  const double cpu = now.cpu_seconds - before.cpu_seconds,
               not_queued = seconds - now.queued_seconds + before.queued_seconds;
  return cpu < not_queued ? seconds * cpu / not_queued : seconds;
}

}  // namespace karez::runtime
