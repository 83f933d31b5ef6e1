// The session's reader: one thread that reads sources which take their time, so that the worker computes meanwhile.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "karez/runtime/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// A read that takes longer than this makes the source's next one the reader's; a faster one gives it back to the
// worker, which then saves the way to another thread and back. Where kernels' teams have every core, a reader takes one
// from them, and a team waits for its slowest thread: there only a read that surely waits for something else is worth
// it.
inline constexpr double slow_read_with_idle_core = 100e-6, slow_read_with_busy_cores = 1e-3;

// Reads what the act is to fill, of its launch: from the source, or its own part of an array. Returns the seconds that
// a source took. Throws what it throws.
double read_input(WorkerPlan& worker_plan, ActorState& actor);

class SourceReader {
 public:
  SourceReader() : thread_([this] { run(); }) {
    std::lock_guard lock(mutex_);
    jobs_.reserve(1024);  // so that workers need not allocate
  }
  ~SourceReader();
  // The act has begun; when it is read, its `note` is posted to `box`.
  void read(WorkerPlan& worker_plan, ActorState& actor, Mailbox& box);
  double seconds() const {
    return static_cast<double>(nanoseconds_.value()) * 1e-9;
  }  // that sources took, ever; from any thread

 private:
  struct Job {
    WorkerPlan* worker_plan;
    ActorState* actor;
    Mailbox* box;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable more_;
  SingleWriterCounter nanoseconds_;
  std::vector<Job> jobs_;  // oldest first; never more than there are inputs
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace karez::runtime
