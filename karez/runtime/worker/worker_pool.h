// The worker pool: the threads of a session, the cores that they run on, and queries of their waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "karez/base/timed_mutex.h"
#include "karez/plan/plan.h"
#include "karez/runtime/actor/source_reader.h"
#include "karez/runtime/event_ring.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/rank_state.h"
#include "karez/runtime/worker/contention_monitor.h"
#include "karez/runtime/worker/worker.h"
#include "karez/runtime/worker/worker_owner.h"

namespace karez::runtime {

// The places in the rings of all workers from which to go on reading.
struct PoolPosition {
  int generation = -1;  // of the set of workers; `stop` ends it
  std::vector<EventPosition> workers;
};

class WorkerPool {
 public:
  struct Options {
    int workers = 0;  // the maximum number of workers; 0: one per usable core
    int events = 4096;
    int spin_microseconds = 20;
    bool pin = false;
  };
  // `session_mutex` guards the set of workers for threads that post to them, and keeps the plans of current acts from
  // being freed. It is locked after the pool's own mutex.
  WorkerPool(WorkerOwner& owner, std::mutex& session_mutex, const Options& options);

  // Starts the workers that the plan needs and that are not running yet. `on_first` is called with the mailbox of
  // worker 0 when that worker is created.
  void start(const Plan& plan, const std::function<void(Mailbox&)>& on_first);
  // Ends all threads. `drop_plans` is called after the threads have ended and before the workers are destroyed, because
  // the links of plans post to the workers.
  void stop(const std::function<void()>& drop_plans);

  int max_workers() const { return max_workers_; }
  // Call these with the session's mutex held.
  int size() const { return static_cast<int>(workers_.size()); }
  Worker* first() { return workers_.empty() ? nullptr : workers_[0].get(); }
  Mailbox* first_box() { return workers_.empty() ? nullptr : &workers_[0]->box(); }
  // Call these while no other thread loads a plan.
  Mailbox& box(int worker) { return workers_[static_cast<std::size_t>(worker)]->box(); }
  std::vector<Mailbox*> boxes();
  SourceReader* source_reader(const Plan& plan);  // null until a plan with inputs is loaded
  int busy_threads(const Plan& plan) const;       // the maximum number of threads that the plan's kernels keep busy

  // Returns one line for each actor that is not idle. Never blocks on a worker that runs a kernel.
  std::string wait_graph();
  // Adds the current calls and waits of the workers, as far as they are known after `max_seconds`.
  void add_states(RankState& state, double max_seconds);
  std::string contention_text();
  // These return the events by worker, with times in ticks. The second function returns nullopt if the pool stays
  // locked for `timeout`.
  std::vector<EventLog> events() const;
  std::optional<std::vector<EventLog>> events_within(std::chrono::milliseconds timeout);
  // Returns the events of these kinds since a position, which becomes the end; workers that were started since are read
  // from their first event. Waits while workers are started or stopped.
  std::vector<EventLog> events_since(PoolPosition& from, EventKinds kinds);
  PoolPosition end_of_events();
  // These return the ticks that acts have spent on the workers, and the seconds that the source reader has spent. Call
  // them while the set of workers cannot change.
  std::int64_t ticks(bool reading) const;
  double reader_seconds() const { return reader_ == nullptr ? 0 : reader_->seconds(); }

 private:
  void pin_workers(const Plan& plan);
  std::shared_ptr<WorkerQuery> query_workers();

  WorkerOwner& owner_;
  std::mutex& session_mutex_;
  Options options_;
  int max_workers_ = 1;
  base::TimedMutex mutex_;  // guards the set of workers and the queries to them
  int generation_ = 0;      // increased when all workers are destroyed
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<SourceReader> reader_;
  std::unique_ptr<ContentionMonitor> contention_monitor_;  // exists if kernels have teams
  std::vector<int> teams_;                                 // by worker: the largest team of the loaded plans
  std::vector<std::vector<int>> cpus_of_;                  // CPUs by worker, if workers are pinned
  std::vector<std::unique_ptr<CpuSet>> cpu_sets_;          // sent to workers; kept until they have ended
  std::vector<std::shared_ptr<WorkerQuery>> queries_;      // kept until all workers have answered
  std::shared_ptr<WorkerQuery> state_query_;               // the last query of `add_states`
};

}  // namespace karez::runtime
