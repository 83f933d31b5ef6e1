// Reads the numbers of context switches that the system counts for each thread.
#include "karez/runtime/stages/thread_switches.h"

#include <sys/resource.h>

#include <algorithm>

namespace karez::runtime {

void ThreadSwitches::update() { only_preempted(); }

bool ThreadSwitches::only_preempted() {
  rusage usage = {};
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return false;
  const bool result = usage.ru_nivcsw != preemptions_ && usage.ru_nvcsw == waits_;
  waits_ = usage.ru_nvcsw, preemptions_ = usage.ru_nivcsw;
  return result;
}

ThreadUsage thread_usage() {
  rusage usage = {};
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return {};
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_nvcsw};
}

double computing_seconds(const ThreadUsage& before, double seconds) {
  const ThreadUsage now = thread_usage();
  return now.waits == before.waits ? seconds : std::min(now.seconds - before.seconds, seconds);
}

}  // namespace karez::runtime
