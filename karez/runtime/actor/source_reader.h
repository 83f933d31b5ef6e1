// The source reader: a thread of a session that reads slow sources, so that the worker can compute during a read.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Limits in seconds. After a read that took longer, the source reader does the input's next read. After a faster read,
// the worker does it, which saves the switch to another thread and back. If the teams of kernels use every core, the
// source reader takes a core from a team, which then waits for its slowest thread. In this case only reads that mostly
// wait, such as for a disk, are worth a switch, so the limit is higher.
inline constexpr double slow_read_with_idle_core = 100e-6, slow_read_with_busy_cores = 1e-3;

// Fills the outputs of an input's act from the source, or from the part of an array on this device. Returns the seconds
// that the source took. Propagates exceptions of the source.
double read_input(WorkerPlan& worker_plan, ActorState& actor);

class SourceReader {
 public:
  SourceReader() : thread_([this] { run(); }) {
    std::lock_guard lock(mutex_);
    jobs_.reserve(1024);  // so that workers do not allocate
  }
  ~SourceReader();
  // Reads the input of an act that has begun. Posts the actor's `completion` to `box` when the data has been read.
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
  std::thread thread_;  // last, because the thread uses the other members
};

}  // namespace karez::runtime
