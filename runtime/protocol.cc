// The protocol as one worker drives it.
#include "runtime/protocol.h"

#include <algorithm>

#include "plan/waits.h"
#include "runtime/bodies.h"
#include "runtime/collectives.h"
#include "runtime/failure.h"

namespace karez::runtime {

std::string Protocol::acting() const {
  const ActorState* actor = acting_.load(std::memory_order_acquire);
  return actor == nullptr ? "" : cat("a", actor->id, " '", actor->actor->name, "'");
}

void Protocol::attach(Part& part) {
  attached_.push_back(&part);
  runnable_.reserve(attached_.size());
  for (auto& actor : part.actors)  // actors without inputs need no message to begin
    if (actor->actor->inputs.empty() && actor->ports.ready()) consider(part, *actor);
}

void Protocol::detach(Part& part) {
  attached_.erase(std::find(attached_.begin(), attached_.end(), &part));
  if (auto at = std::find(runnable_.begin(), runnable_.end(), &part); at != runnable_.end()) runnable_.erase(at);
}

Part* Protocol::runnable() {
  while (!runnable_.empty()) {
    Part& part = *runnable_.front();
    if (!part.ready.empty()) return &part;
    part.runnable = false;
    runnable_.erase(runnable_.begin());
  }
  return nullptr;
}

// Rare, and what it may allocate would cost `consider` the registers it saves.
[[gnu::noinline]] void Protocol::make_runnable(Part& part) {
  if (part.runnable) return;
  part.runnable = true;
  runnable_.push_back(&part);
}

// The ports are ready. A collective waits for its turn besides: whoever ends the turn before considers it again.
inline void Protocol::consider(Part& part, ActorState& actor) {
  if (actor.sequence >= 0) [[unlikely]]
    if (!part.sequences[static_cast<std::size_t>(actor.sequence)]->seat->may_begin(actor.id)) return;
  part.ready.insert(actor.place);
  if (!part.runnable) make_runnable(part);
}

void Protocol::act(Part& part, ActorState& actor) {
  if (!part.stream_busy.empty() && part.stream_busy[static_cast<std::size_t>(actor.stream)]) [[unlikely]] {
    part.deferred[static_cast<std::size_t>(actor.stream)].insert(actor.place);
    return;
  }
  actor.ports.begin();
  if (!actor.patched.empty() || !actor.poisoned.empty()) prepare_memory(actor);
  Loaded& loaded = *part.loaded;
  // A collective runs in a poisoned launch too: the other members count on it.
  if (actor.work != Work::none && (actor.work == Work::collective || !loaded.poisoned.load(std::memory_order_relaxed)))
    return begin_work(part, actor);
  events_.act(EventKind::acted, loaded.number, loaded.ticket.load(std::memory_order_relaxed), actor.id, actor.ports.acts());
  complete(part, actor);
}

// The one place where what a body throws is caught.
void Protocol::begin_work(Part& part, ActorState& actor) {
  Loaded& loaded = *part.loaded;
  events_.look_at_clock();
  events_.act(EventKind::began, loaded.number, loaded.ticket.load(std::memory_order_relaxed), actor.id, actor.ports.acts());
  if (actor.work == Work::collective) {  // it holds no stream: two communicators that met in different orders on two devices would wait
    try {
      if (!begin_collective(part, actor)) return;
    } catch (...) {
      fail(part, actor);
      return abandon_collectives(loaded);
    }
    return end_collective(part, *part.sequences[static_cast<std::size_t>(actor.sequence)]);
  }
  if (actor.work == Work::later) part.stream_busy[static_cast<std::size_t>(actor.stream)] = 1;
  acting_.store(&actor, std::memory_order_release);
  bool over = true;
  try {
    over = run_body(part, actor, box_);
  } catch (...) { fail(part, actor); }
  acting_.store(nullptr, std::memory_order_release);
  if (over) end_work(part, actor);
}

void Protocol::end_work(Part& part, ActorState& actor) {
  const Loaded& loaded = *part.loaded;
  events_.look_at_clock();
  events_.act(EventKind::ended, loaded.number, loaded.ticket.load(std::memory_order_relaxed), actor.id, actor.ports.acts());
  complete(part, actor);
}

[[gnu::always_inline]] inline void Protocol::complete(Part& part, ActorState& actor) {
  part.acts.add(1);
  actor.ports.complete([&](const Message& message) __attribute__((always_inline)) { send(part, actor, message); });
  if (actor.ports.ready()) consider(part, actor);
}

// Such an act held its stream until now.
void Protocol::finished(Part& part, ActorState& actor) {
  if (std::exception_ptr error = std::exchange(actor.later_error, nullptr)) {
    try {
      std::rethrow_exception(error);
    } catch (...) { fail(part, actor); }
  }
  auto stream = static_cast<std::size_t>(actor.stream);
  part.stream_busy[stream] = 0;
  while (!part.deferred[stream].empty()) part.ready.insert(part.deferred[stream].pop());
  make_runnable(part);
  end_work(part, actor);
}

void Protocol::arrived(Part& part, Sequence& sequence) {
  sequence.posted.exchange(false, std::memory_order_acq_rel);  // before looking at the links
  try {
    if (!advance_collective(part, sequence)) return;
  } catch (...) {
    fail(part, *sequence.running);
    return abandon_collectives(*part.loaded);
  }
  end_collective(part, sequence);
}

void Protocol::abandoned(Part& part) {
  for (auto& sequence : part.sequences)
    if (sequence->running != nullptr) end_collective(part, *sequence);
}

void Protocol::end_collective(Part& part, Sequence& sequence) {
  ActorState& actor = *sequence.running;
  ActorState& next = pass_turn(sequence);
  end_work(part, actor);
  if (&next != &actor && next.ports.ready() && !part.ready.has(next.place)) consider(part, next);
}

// To an actor of the same worker a message takes effect at once: taking it only counts tokens, so a queue between would change nothing.
[[gnu::always_inline]] inline void Protocol::send(Part& part, ActorState& from, const Message& message) {
  part.messages.add(1);
  ActorState* to = part.local[static_cast<std::size_t>(message.to.index + 1)];
  if (to == nullptr) [[unlikely]]
    return send_away(part, from, message);
  events_.sent(EventKind::handed, message);
  if (to->ports.take(message)) consider(part, *to);
}

void Protocol::send_away(Part& part, ActorState& from, const Message& message) {
  Loaded& loaded = *part.loaded;
  if (message.to == session_actor && worker_ == 0) return take_for_session(loaded, message, EventKind::handed);
  events_.message(EventKind::posted, loaded.number, loaded.ticket.load(std::memory_order_relaxed), message);
  Mail& mail = from.mails[static_cast<std::size_t>(message.lane)];
  mail.what = Mail::What::message;
  mail.message = message;
  mail.payload = &loaded;
  mail.part = message.to == session_actor ? nullptr : loaded.part_of[message.to];
  loaded.boxes[mail.part == nullptr ? 0 : static_cast<std::size_t>(mail.part->worker)]->post(&mail);
}

void Protocol::take(Part& part, const Message& message) {
  const Loaded& loaded = *part.loaded;
  events_.message(EventKind::taken, loaded.number, loaded.ticket.load(std::memory_order_relaxed), message);
  ActorState& to = *part.local[static_cast<std::size_t>(message.to.index + 1)];
  if (to.ports.take(message)) consider(part, to);
}

void Protocol::take_for_session(Loaded& loaded, const Message& message, EventKind how) {
  events_.message(how, loaded.number, loaded.ticket.load(std::memory_order_relaxed), message);
  SessionPorts& ports = loaded.session_ports;
  (message.kind == Message::Kind::filled ? ports.ender : ports.starter).take(message);
  moved_ = &loaded;
}

void Protocol::send_from_session(Loaded& loaded, std::vector<Mail>& mails, const Message& message) {
  loaded.session_ports.messages.add(1);
  Part& part = *loaded.part_of[message.to];
  bool here = part.worker == worker_;
  events_.message(here ? EventKind::handed : EventKind::posted, loaded.number, loaded.ticket.load(std::memory_order_relaxed), message);
  if (here) {
    ActorState& to = *part.local[static_cast<std::size_t>(message.to.index + 1)];
    if (to.ports.take(message)) consider(part, to);
    return;
  }
  Mail& mail = mails[static_cast<std::size_t>(message.lane)];
  mail.message = message;
  mail.part = &part;
  loaded.boxes[static_cast<std::size_t>(part.worker)]->post(&mail);
}

void Protocol::fail(Part& part, ActorState& actor) {
  const Loaded& loaded = *part.loaded;
  events_.act(EventKind::failed, loaded.number, loaded.ticket.load(std::memory_order_relaxed), actor.id, actor.ports.acts());
  fail_launch(*part.loaded, actor, thrown(), where_of(actor));
}

}  // namespace karez::runtime
