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

// How long the calling thread has used a core. To measure it takes about a microsecond, with `queued` two.
struct ThreadUsage {
  double cpu_seconds = 0;
  double queued_seconds = 0;  // the time in which it was ready, but other threads used the cores; 0 if not measured
  long waits = 0;             // the number of times that it gave up its core
};
ThreadUsage thread_usage(bool queued = false);
// The part of an act of `seconds` in which its thread would use a core if no other thread used the cores: the time in
// the queue for a core is divided between computing and waiting as the rest is. `before`: its usage at the beginning;
// `queued` is the same in both calls. If the kernel does not count the time in the queue, that time counts as waiting
// in acts that have waited for something else.
double computing_seconds(const ThreadUsage& before, double seconds, bool queued = false);

}  // namespace karez::runtime
