// The protocol as one worker drives it: which of its actors act, what an act spends and sends, and whom a message makes
// ready.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "karez/runtime/event_ring.h"
#include "karez/runtime/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

class Protocol {
 public:
  Protocol(int worker, Mailbox& box, EventRing& events) : worker_(worker), box_(box), events_(events) {}

  // A part to be served from now on, and no longer.
  void attach(WorkerPlan& worker_plan);
  void detach(WorkerPlan& worker_plan);
  const std::vector<WorkerPlan*>& worker_plans() const { return attached_; }

  // A part with a ready actor, or none.
  WorkerPlan* runnable();
  void act(WorkerPlan& worker_plan, ActorState& actor);

  // Of collectives under way: from here on their links are looked at, and wake nobody; or no longer.
  void set_link_polling(bool watch);
  // What has come to them is taken here.
  void poll_links();

  // Acts that are delayed, if there are any, and may begin now.
  bool delays() const { return !delayed_.empty(); }
  void end_delays();

  // Mail: a message came from another worker; an act that finishes later is over; a link of a collective moved; a
  // member broke.
  void take(WorkerPlan& worker_plan, const Message& message, std::uint64_t ticket);
  void take_for_session(LoadedPlan& loaded, const Message& message, std::uint64_t ticket, EventKind how);
  void finished(WorkerPlan& worker_plan, ActorState& actor);
  void arrived(WorkerPlan& worker_plan, SequenceState& sequence);
  void abandoned(WorkerPlan& worker_plan);
  void resume(WorkerPlan& worker_plan);

  // From the session's own ports, in the launch of this ticket.
  void send_from_session(LoadedPlan& loaded, std::vector<Mail>& mails, std::uint64_t ticket, const Message& message);

  // Worker 0: the plan whose session ports took a message since this was asked last. It is asked after every act and
  // mail, and not within: what follows sends to the very actor that may be in the midst of its messages.
  bool has_session_message() const { return notified_plan_ != nullptr; }
  LoadedPlan& take_notified_plan() { return *std::exchange(notified_plan_, nullptr); }

  // What it is in the midst of: "a3 'compute.1'", or "" between acts. From any thread, while no plan is being
  // forgotten.
  std::string acting() const;
  std::string acting_in() const;  // likewise, with launch and call

  // Ticks that acts held this worker, ever: reading inputs, or the rest. From any thread.
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
  std::atomic<const ActorState*> acting_{nullptr};
  SingleWriterCounter computing_, reading_;
};

}  // namespace karez::runtime
