// Reads the numbers of context switches that the system counts for each thread.
#include "karez/runtime/stages/thread_switches.h"

#include <sys/resource.h>

namespace karez::runtime {

void ThreadSwitches::update() { only_preempted(); }

bool ThreadSwitches::only_preempted() {
  rusage usage = {};
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return false;
  const bool result = usage.ru_nivcsw != preemptions_ && usage.ru_nvcsw == waits_;
  waits_ = usage.ru_nvcsw, preemptions_ = usage.ru_nivcsw;
  return result;
}

}  // namespace karez::runtime
