// A worker: one thread that serves the streams assigned to it. It takes mail, runs its most urgent ready actor, and
// sleeps if no actor is ready. While it sleeps, another thread may do its work.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "karez/runtime/event_ring.h"
#include "karez/runtime/launch/launch_queue.h"
#include "karez/runtime/load/plan_unloader.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/rank_state.h"
#include "karez/runtime/session_thread.h"
#include "karez/runtime/worker/mailbox.h"
#include "karez/runtime/worker/protocol.h"
#include "karez/runtime/worker/worker_owner.h"

namespace karez::runtime {

// A query to all workers for their waits. A worker answers it between two acts.
struct WorkerQuery {
  std::mutex mutex;
  std::condition_variable answered;
  std::vector<std::string> answers;  // by worker; "" until the worker has answered
  std::vector<RankState> states;     // by worker: its current call, and the ranks that its collectives wait for
  std::size_t missing = 0;
  std::vector<Mail> mails;
};

// The CPUs for a worker and the teams of its kernels. It is kept until the worker has ended.
struct CpuSet {
  std::vector<int> cpus;
  Mail mail;
};

class Worker {
 public:
  // `events`: the number of entries in its event ring.
  Worker(WorkerOwner& owner, int number, int events);
  // Ends the thread without doing the remaining work. Must be called on all workers before any of them is destroyed,
  // because workers may post mail to each other.
  void stop();

  Mailbox& box() { return box_; }

  // Lets the calling thread do the work of this worker, if the worker sleeps; otherwise returns false. The caller may
  // then post silently to the mailbox, and must call `serve`, which ends when `done()` is true or no work is left.
  bool try_serve() { return serving_.try_lock(); }
  template <class Done> void serve(Done&& done) {
    const SessionThreadScope scope;
    while (!done() && step()) continue;
    end_serving();
  }
  void set_spin(int microseconds) { spin_microseconds_.store(microseconds, std::memory_order_relaxed); }
  std::string current_act() const { return protocol_.current_act(); }
  std::string current_call() const { return protocol_.current_call(); }
  std::int64_t ticks(bool reading) const { return protocol_.ticks(reading); }
  EventLog events() const { return events_.read(); }
  EventLog events(EventPosition& from, EventKinds kinds) const { return events_.read(from, kinds); }
  EventPosition end_of_events() const { return events_.end(); }

 private:
  void run();
  void end_serving();
  bool step();
  bool try_step();
  bool poll();
  void open(Mail& mail);
  void answer(WorkerQuery& query);

  WorkerOwner& owner_;
  const int number_;
  Mailbox box_;
  EventRing events_;
  Protocol protocol_;
  PlanUnloader unloader_;
  LaunchQueue launch_queue_;  // used by worker 0 only
  std::atomic<int> spin_microseconds_{20};
  std::mutex serving_;  // held by the thread that does the work; guards the members above and `stop_`
  bool stop_ = false;
  Mail stop_mail_;
  std::thread thread_;  // last, because the thread uses the other members
};

}  // namespace karez::runtime
