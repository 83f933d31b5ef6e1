// The message protocol on one worker. It decides which actors may act, which tokens an act consumes and sends, and
// which actors become ready by a message.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "karez/runtime/event_ring.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

class Protocol {
 public:
  Protocol(int worker, Mailbox& box, EventRing& events) : worker_(worker), box_(box), events_(events) {}

  // Starts and stops serving a worker plan.
  void attach(WorkerPlan& worker_plan);
  void detach(WorkerPlan& worker_plan);
  const std::vector<WorkerPlan*>& worker_plans() const { return attached_; }

  WorkerPlan* runnable();  // returns a worker plan with a ready actor, or null
  bool has_runnable() const;
  void act(WorkerPlan& worker_plan, ActorState& actor);

  // Starts or stops busy polling on the links of running collectives. Polled links send no notifications.
  void set_link_polling(bool polling);
  void poll_links();  // polls the links of running collectives once

  bool delays() const { return !delayed_.empty(); }  // true if acts are delayed
  void end_delays();                                 // makes an act ready whose delay is over, if there is one

  // Handlers of mail: a message from another worker, the end of an asynchronous act, an event on the links of a
  // collective, the failure of a member of a collective, and the report that all ranks have poisoned a failed launch.
  void take(WorkerPlan& worker_plan, const Message& message, std::uint64_t ticket);
  void take_for_session(LoadedPlan& loaded, const Message& message, std::uint64_t ticket, EventKind how);
  void on_finished(WorkerPlan& worker_plan, ActorState& actor);
  void on_arrival(WorkerPlan& worker_plan, SequenceState& sequence);
  void on_abandon(WorkerPlan& worker_plan);
  void resume(WorkerPlan& worker_plan);

  // Sends a message of the session's own ports, in the launch with this ticket.
  void send_from_session(LoadedPlan& loaded, std::vector<Mail>& mails, std::uint64_t ticket, const Message& message);

  // Worker 0 only: returns the plan whose session ports have received a message since the last call. Call it after
  // every act and mail, not during an act: its result makes the caller send messages to actors, and the current actor
  // may not have sent all its messages yet.
  bool has_session_message() const { return notified_plan_ != nullptr; }
  LoadedPlan& take_notified_plan() { return *std::exchange(notified_plan_, nullptr); }

  // Returns the current act, such as "a3 'compute.1'", or "" between acts. These functions may be called from any
  // thread while no plan is being freed.
  std::string current_act() const;
  std::string current_call() const;  // returns the current act with its launch and call

  // Returns the ticks that acts have spent on this worker since its start: reading inputs if `reading`, otherwise in
  // other work. May be called from any thread.
  std::int64_t ticks(bool reading) const { return (reading ? reading_ : computing_).value(); }

 private:
  struct Delayed {
    std::chrono::steady_clock::time_point until;
    WorkerPlan* worker_plan;
    ActorState* actor;
  };

  void schedule(WorkerPlan& worker_plan, ActorState& actor);
  void make_runnable(WorkerPlan& worker_plan);
  bool defer(WorkerPlan& worker_plan, ActorState& actor);
  bool hold(WorkerPlan& worker_plan, ActorState& actor);
  void begin_work(WorkerPlan& worker_plan, ActorState& actor);
  void end_work(WorkerPlan& worker_plan, ActorState& actor);
  void complete(WorkerPlan& worker_plan, ActorState& actor);
  void end_collective(WorkerPlan& worker_plan, SequenceState& sequence);
  void send(WorkerPlan& worker_plan, ActorState& from, const Message& message);
  void post_message(WorkerPlan& worker_plan, ActorState& from, const Message& message);
  void fail(WorkerPlan& worker_plan, ActorState& actor);
  void check_collective(WorkerPlan& worker_plan, ActorState& actor);
  void break_collectives(WorkerPlan& worker_plan, ActorState& actor);

  const int worker_;
  Mailbox& box_;
  EventRing& events_;
  std::vector<WorkerPlan*> attached_, runnable_;
  std::vector<Delayed> delayed_;
  LoadedPlan* notified_plan_ = nullptr;
  std::atomic<const ActorState*> current_actor_{nullptr};
  SingleWriterCounter computing_, reading_;
};

}  // namespace karez::runtime
