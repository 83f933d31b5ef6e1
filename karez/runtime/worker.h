// A worker: one thread that serves the streams given to it. It takes mail, lets its best ready actor act, and parks
// when there is none.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "karez/runtime/event_ring.h"
#include "karez/runtime/launch_queue.h"
#include "karez/runtime/mailbox.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/plan_unloader.h"
#include "karez/runtime/protocol.h"
#include "karez/runtime/rank_state.h"

namespace karez::runtime {

// A question to all workers, answered between two acts: who waits for what.
struct WorkerQuery {
  std::mutex mutex;
  std::condition_variable answered;
  std::vector<std::string> answers;  // by worker; "" while it has not answered
  std::vector<RankState> states;     // by worker: what it is inside of, and which ranks its collectives wait for
  std::size_t missing = 0;
  std::vector<Mail> mails;
};

// Cpus for a worker and the teams of its kernels. Kept until the worker has ended.
struct CpuSet {
  std::vector<int> cpus;
  Mail mail;
};

class Worker {
 public:
  // `events`: entries of its ring.
  Worker(Session& session, int number, int events);
  // Ends the thread; what it had not done stays undone. To be called before any worker is destroyed: the others may
  // still post to it.
  void stop();

  Mailbox& box() { return box_; }
  void set_spin(int microseconds) { spin_microseconds_.store(microseconds, std::memory_order_relaxed); }
  std::string acting() const { return protocol_.acting(); }
  std::string acting_in() const { return protocol_.acting_in(); }
  std::int64_t ticks(bool reading) const { return protocol_.ticks(reading); }
  EventLog events() const { return events_.read(); }

 private:
  void run();
  void step();
  void idle();
  void open(Mail& mail);
  void answer(WorkerQuery& query);

  Session& session_;
  const int number_;
  Mailbox box_;
  EventRing events_;
  Protocol protocol_;
  PlanUnloader unloader_;
  LaunchQueue launch_queue_;  // worker 0 alone
  std::atomic<int> spin_microseconds_{20};
  bool stop_ = false;
  Mail stop_mail_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace karez::runtime
