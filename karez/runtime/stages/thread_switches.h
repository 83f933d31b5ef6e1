// Whether a thread took long because it waited, or because the system gave its core to another thread.
#pragma once

#include "karez/runtime/namespace.h"

namespace karez::runtime {

// The number of times that the calling thread has waited and that it has been preempted.
class ThreadSwitches {
 public:
  void update();
  // Whether the thread has been preempted, and has not waited, since the last call of `update` or of this function.
  bool only_preempted();

 private:
  long waits_ = 0, preemptions_ = 0;
};

// How long the calling thread has used a core.
struct ThreadUsage {
  double seconds = 0;
  long waits = 0;  // the number of times that it gave up its core
};
ThreadUsage thread_usage();
// The part of an act of `seconds` in which its thread used a core, or waited for one. `before`: its usage at the
// beginning.
double computing_seconds(const ThreadUsage& before, double seconds);

}  // namespace karez::runtime
