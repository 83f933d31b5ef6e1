// A worker: one thread that serves the streams given to it. It takes mail, runs its best ready actor, and parks when there is none.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/loaded.h"
#include "runtime/mailbox.h"

namespace karez::runtime {

// A question to all workers, answered between two acts: who waits for what.
struct Inquiry {
  std::mutex mutex;
  std::condition_variable answered;
  std::vector<std::string> answers;  // by worker; "" while it has not answered
  std::size_t missing = 0;
  std::vector<Mail> mails;
};

class Worker {
 public:
  // `cpu` >= 0 binds the thread.
  Worker(Session& session, int number, int cpu);
  // Ends the thread; what it had not done stays undone. To be called before any worker is destroyed: the others may still post to it.
  void stop();

  Mailbox& box() { return box_; }
  void set_spin(int microseconds) { spin_microseconds_.store(microseconds, std::memory_order_relaxed); }
  // What it is in the midst of: "a3 'compute.1'", or "" between acts. From any thread, while no plan is being forgotten.
  std::string acting() const;

 private:
  void run();
  void step();
  void idle();
  void open(Mail& mail);
  void answer(Inquiry& inquiry);

  // Protocol.
  void make_runnable(Part& part);
  void consider(Part& part, ActorState& actor);
  void act(Part& part, ActorState& actor);
  void complete(Part& part, ActorState& actor);
  void send(Part& part, ActorState& from, const Message& message);
  void send_away(Part& part, ActorState& from, const Message& message);
  void deliver(Part& part, const Message& message);

  // Bodies. They throw nothing: a failure poisons the launch.
  void run_calls(Part& part, ActorState& actor);
  void start_async(Part& part, ActorState& actor);
  void read_input(Part& part, ActorState& actor);
  void fetch(Part& part, ActorState& actor);
  void begin_collective(Part& part, ActorState& actor);
  void advance_collective(Part& part, Sequence& sequence);
  void end_collective(Part& part, Sequence& sequence, ActorState& actor);
  void fail_launch(Part& part, const ActorState& actor, const std::string& what, const std::string& where);
  void abandon_collectives(Loaded& loaded);

  // Worker 0 alone: the session's side.
  void queue_launch(LaunchRecord& record);
  void begin_launch();
  void drop_first_launch();
  void deliver_to_session(Loaded& loaded, const Message& message);
  void end_launch();
  void session_sends(Loaded& loaded, std::vector<Mail>& mails, const Message& message);

  // Unloading.
  void unload(Loaded& loaded);
  void ask_parts_to_go(Loaded& loaded);
  void detach(Part& part);
  void detached(Loaded& loaded);
  void open_late(Mail& mail);

  Session& session_;
  const int number_;
  const int cpu_;
  Mailbox box_;
  std::vector<Part*> attached_, runnable_;
  std::atomic<const ActorState*> acting_{nullptr};
  std::atomic<int> spin_microseconds_{20};
  LaunchRecord *first_launch_ = nullptr, *last_launch_ = nullptr;  // queued, oldest first; the first is in flight if `launched_`
  Loaded* over_ = nullptr;                                         // every done register of it was filled, in this act or mail
  bool launched_ = false, stop_ = false;
  Mail stop_mail_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace karez::runtime
