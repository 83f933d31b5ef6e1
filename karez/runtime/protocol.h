// The protocol as one worker drives it: which of its actors act, what an act spends and sends, and whom a message makes
// ready.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "karez/runtime/event_ring.h"
#include "karez/runtime/loaded.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

class Protocol {
 public:
  Protocol(int worker, Mailbox& box, EventRing& events) : worker_(worker), box_(box), events_(events) {}

  // A part to be served from now on, and no longer.
  void attach(Part& part);
  void detach(Part& part);
  const std::vector<Part*>& parts() const { return attached_; }

  // A part with a ready actor, or none.
  Part* runnable();
  void act(Part& part, ActorState& actor);

  // Of collectives under way: from here on their links are looked at, and wake nobody; or no longer.
  void watch_links(bool watch);
  // What has come to them is taken here.
  void poll_links();

  // Acts that are delayed, if there are any, and may begin now.
  bool delays() const { return !delayed_.empty(); }
  void end_delays();

  // Mail: a message came from another worker; an act that finishes later is over; a link of a collective moved; a
  // member broke.
  void take(Part& part, const Message& message, std::uint64_t ticket);
  void take_for_session(Loaded& loaded, const Message& message, std::uint64_t ticket, EventKind how);
  void finished(Part& part, ActorState& actor);
  void arrived(Part& part, Sequence& sequence);
  void abandoned(Part& part);
  void resume(Part& part);

  // From the session's own ports, in the launch of this ticket.
  void send_from_session(Loaded& loaded, std::vector<Mail>& mails, std::uint64_t ticket, const Message& message);

  // Worker 0: the plan whose session ports took a message since this was asked last. It is asked after every act and
  // mail, and not within: what follows sends to the very actor that may be in the midst of its messages.
  bool session_moved() const { return moved_ != nullptr; }
  Loaded& moved() { return *std::exchange(moved_, nullptr); }

  // What it is in the midst of: "a3 'compute.1'", or "" between acts. From any thread, while no plan is being
  // forgotten.
  std::string acting() const;
  std::string acting_in() const;  // likewise, with launch and call

  // Ticks that acts held this worker, ever: reading inputs, or the rest. From any thread.
  std::int64_t ticks(bool reading) const { return (reading ? reading_ : computing_).value(); }

 private:
  struct Delayed {
    std::chrono::steady_clock::time_point until;
    Part* part;
    ActorState* actor;
  };

  void consider(Part& part, ActorState& actor);
  void make_runnable(Part& part);
  bool set_aside(Part& part, ActorState& actor);
  bool hold(Part& part, ActorState& actor);
  void begin_work(Part& part, ActorState& actor);
  void end_work(Part& part, ActorState& actor);
  void complete(Part& part, ActorState& actor);
  void end_collective(Part& part, Sequence& sequence);
  void send(Part& part, ActorState& from, const Message& message);
  void send_away(Part& part, ActorState& from, const Message& message);
  void fail(Part& part, ActorState& actor);
  void check_collective(Part& part, ActorState& actor);
  void break_collectives(Part& part, ActorState& actor);

  const int worker_;
  Mailbox& box_;
  EventRing& events_;
  std::vector<Part*> attached_, runnable_;
  std::vector<Delayed> delayed_;
  Loaded* moved_ = nullptr;
  std::atomic<const ActorState*> acting_{nullptr};
  OwnedCounter computing_, reading_;
};

}  // namespace karez::runtime
