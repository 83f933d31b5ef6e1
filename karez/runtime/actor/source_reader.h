// The source reader: one thread of a session that reads slow sources, so that the worker computes meanwhile.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Limits in seconds. After a slower read, the source reader does the input's next read; after a faster read, the worker
// does, which saves the switch to another thread and back. If the teams of kernels use every core, the reader takes a
// core from them, and a team waits for its slowest thread: then the reader pays only for reads that certainly wait for
// something else.
inline constexpr double slow_read_with_idle_core = 100e-6, slow_read_with_busy_cores = 1e-3;

// Fills the outputs of an input's act from the source, or from the device's own part of an array. Returns the seconds
// that the source took. Throws what the source throws.
double read_input(WorkerPlan& worker_plan, ActorState& actor);

class SourceReader {
 public:
  SourceReader() : thread_([this] { run(); }) {
    std::lock_guard lock(mutex_);
    jobs_.reserve(1024);  // so that workers do not allocate
  }
  ~SourceReader();
  // The act has begun; when its data is read, its `completion` is posted to `box`.
  void read(WorkerPlan& worker_plan, ActorState& actor, Mailbox& box);
  // The total seconds of reads so far. May be called from any thread.
  double seconds() const { return static_cast<double>(nanoseconds_.value()) * 1e-9; }

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
  std::vector<Job> jobs_;  // oldest first; at most one per input
  bool stop_ = false;
  std::thread thread_;  // last: it uses the other members
};

}  // namespace karez::runtime
