// Marks threads that execute a stage, which must not begin an op of all ranks, and says for what they wait.
#pragma once

#include <atomic>

#include "karez/data/namespace.h"

namespace karez::data {

// Whether this thread executes a stage of a data set.
bool in_stage();

// The id of the process for whose result the calling thread waits; 0: none. Another thread may read it for a report.
std::atomic<int>& awaited_process();

// The time of functions that other processes have executed for the calling thread, how long they computed, and the id
// of the last of these processes.
struct RemoteTime {
  double ns = 0, cpu_ns = 0;
  int process = 0;
};
RemoteTime& remote_time();

class StageScope {
 public:
  StageScope();
  ~StageScope();
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  bool outer_;
};

}  // namespace karez::data
