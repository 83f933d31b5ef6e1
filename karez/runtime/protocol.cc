// The protocol as one worker drives it.
#include "karez/runtime/protocol.h"

#include <algorithm>

#include "karez/plan/waits.h"
#include "karez/runtime/bodies.h"
#include "karez/runtime/check_finite.h"
#include "karez/runtime/collectives.h"
#include "karez/runtime/failure.h"
#include "karez/runtime/poison.h"

namespace karez::runtime {

std::string Protocol::acting() const {
  const ActorState* actor = acting_.load(std::memory_order_acquire);
  return actor == nullptr ? "" : cat("a", actor->id, " '", actor->actor->name, "'");
}

std::string Protocol::acting_in() const {
  const ActorState* actor = acting_.load(std::memory_order_acquire);
  return actor == nullptr ? "" : name_of_act(*actor);
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
  std::erase_if(delayed_, [&](const Delayed& delayed) { return delayed.part == &part; });
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
    if (!part.sequences[static_cast<std::size_t>(actor.sequence)]->position->may_begin(actor.id)) return;
  part.ready.insert(actor.place);
  if (!part.runnable) make_runnable(part);
}

// The first act of an actor's next launch: which one that is follows from the number of its acts alone.
static inline void enter_launch(Loaded& loaded, ActorState& actor) {
  actor.acts_left = actor.acts_per_launch;
  actor.ticket = loaded.flight(++actor.launch).ticket.load(std::memory_order_relaxed);
}

// Its stream is busy, or its act is to be delayed first. Until it begins it stays ready: nobody else spends its tokens,
// and a turn waits for it.
[[gnu::noinline]] bool Protocol::set_aside(Part& part, ActorState& actor) {
  const auto stream = static_cast<std::size_t>(actor.stream);
  if (part.stream_busy[stream]) {
    part.deferred[stream].insert(actor.place);
    return true;
  }
  const Delays& delays = part.loaded->delays;
  if (delays.most == 0) return false;
  actor.delayed = !actor.delayed;
  if (actor.delayed) {
    const std::chrono::microseconds delay(delays.microseconds(actor.id.index, actor.ports.acts()));
    delayed_.push_back({std::chrono::steady_clock::now() + delay, &part, &actor});
  }
  return actor.delayed;
}

// A collective of a failed launch of which not every rank knows yet. It stays ready likewise.
bool Protocol::hold(Part& part, ActorState& actor) {
  const Loaded& loaded = *part.loaded;
  const std::int64_t launch = actor.acts_left == 0 ? actor.launch + 1 : actor.launch;
  if (launch < loaded.poisoned.load() || launch >= loaded.released.load() || loaded.abandoned.load()) return false;
  part.held.insert(actor.place);
  return true;
}

void Protocol::resume(Part& part) {
  part.resumes = false;
  if (part.held.empty()) return;
  while (!part.held.empty()) part.ready.insert(part.held.pop());
  make_runnable(part);
}

// One at a time: where the thread comes late and several delays are over, the acts follow each other as the delays end.
void Protocol::end_delays() {
  const auto first = std::min_element(delayed_.begin(), delayed_.end(),
                                      [](const Delayed& a, const Delayed& b) { return a.until < b.until; });
  if (first->until > std::chrono::steady_clock::now()) return;
  first->part->ready.insert(first->actor->place);
  make_runnable(*first->part);
  delayed_.erase(first);
}

void Protocol::act(Part& part, ActorState& actor) {
  if (!part.stream_busy.empty()) [[unlikely]]
    if (set_aside(part, actor)) return;
  if (actor.work == Work::collective)
    if (hold(part, actor)) [[unlikely]]
      return;
  Loaded& loaded = *part.loaded;
  if (actor.acts_left == 0) enter_launch(loaded, actor);
  --actor.acts_left;
  actor.ports.begin();
  if (!actor.patched.empty() || !actor.poisoned.empty())
    prepare_memory(actor, !loaded.abandoned.load(std::memory_order_acquire));
  // A collective runs in a poisoned launch too: the other members count on it.
  if (actor.work != Work::none &&
      (actor.work == Work::collective || actor.launch < loaded.poisoned.load(std::memory_order_relaxed)))
    return begin_work(part, actor);
  events_.act(EventKind::acted, loaded.number, actor.ticket, actor.id, actor.ports.acts());
  complete(part, actor);
}

// The one place where what a body throws is caught.
void Protocol::begin_work(Part& part, ActorState& actor) {
  Loaded& loaded = *part.loaded;
  if (actor.writes_state) loaded.note_write(actor.launch);
  events_.look_at_clock();
  events_.act(EventKind::began, loaded.number, actor.ticket, actor.id, actor.ports.acts());
  if (actor.work == Work::collective) {  // it holds no stream: two communicators that met in different orders on two
                                         // devices would wait
    try {
      if (!begin_collective(part, actor)) return;
    } catch (...) { return break_collectives(part, actor); }
    return end_collective(part, *part.sequences[static_cast<std::size_t>(actor.sequence)]);
  }
  if (actor.work == Work::later) part.stream_busy[static_cast<std::size_t>(actor.stream)] = 1;
  acting_.store(&actor, std::memory_order_release);
  const std::int64_t began = events_.time();
  bool over = true;
  try {
    over = run_body(part, actor, box_);
  } catch (...) { fail(part, actor); }
  acting_.store(nullptr, std::memory_order_release);
  if (!over) return;
  end_work(part, actor);
  (actor.work == Work::read ? reading_ : computing_).add(events_.time() - began);
}

void Protocol::end_work(Part& part, ActorState& actor) {
  if (!actor.poisoned.empty() && !part.loaded->abandoned.load(std::memory_order_acquire)) [[unlikely]]
    poison_behind(
        actor, PoisonRange::last);  // of collectives that were given up, another member may yet take what one has sent
  events_.look_at_clock();
  events_.act(EventKind::ended, part.loaded->number, actor.ticket, actor.id, actor.ports.acts());
  complete(part, actor);
}

[[gnu::always_inline]] inline void Protocol::complete(Part& part, ActorState& actor) {
  part.acts.add(1);
  actor.ports.complete([&](const Message& message) __attribute__((always_inline)) { send(part, actor, message); });
  if (actor.ports.ready()) consider(part, actor);
}

// A kernel that finishes later held its stream until now; a slow read held nothing.
void Protocol::finished(Part& part, ActorState& actor) {
  if (std::exception_ptr error = std::exchange(actor.later_error, nullptr)) {
    try {
      std::rethrow_exception(error);
    } catch (...) { fail(part, actor); }
  }
  if (actor.work == Work::later) {
    auto stream = static_cast<std::size_t>(actor.stream);
    part.stream_busy[stream] = 0;
    while (!part.deferred[stream].empty()) part.ready.insert(part.deferred[stream].pop());
    make_runnable(part);
  }
  end_work(part, actor);
}

void Protocol::watch_links(bool watch) {
  for (Part* part : attached_)
    for (auto& sequence : part->sequences)
      if (sequence->running != nullptr) sequence->endpoint->set_busy_poll(watch);
}

void Protocol::poll_links() {
  for (Part* part : attached_)
    for (auto& sequence : part->sequences)
      if (sequence->running != nullptr) sequence->endpoint->poll();
}

void Protocol::arrived(Part& part, Sequence& sequence) {
  sequence.posted.exchange(false, std::memory_order_acq_rel);  // before looking at the links
  try {
    if (!advance_collective(part, sequence)) return;
  } catch (...) { return break_collectives(part, *sequence.running); }
  end_collective(part, sequence);
}

void Protocol::abandoned(Part& part) {
  for (auto& sequence : part.sequences)
    if (sequence->running != nullptr) end_collective(part, *sequence);
  resume(part);
}

void Protocol::end_collective(Part& part, Sequence& sequence) {
  ActorState& actor = *sequence.running;
  if (part.loaded->check_nan) [[unlikely]]
    check_collective(part, actor);
  ActorState& next = pass_turn(sequence);
  end_work(part, actor);
  if (&next != &actor && next.ports.ready() && !part.ready.has(next.place)) consider(part, next);
}

// To an actor of the same worker a message takes effect at once: taking it only counts tokens, so a queue between would
// change nothing.
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
  if (message.to == session_actor && worker_ == 0)
    return take_for_session(loaded, message, from.ticket, EventKind::handed);
  events_.message(EventKind::posted, loaded.number, from.ticket, message);
  Mail& mail = from.mails[static_cast<std::size_t>(message.lane)];
  mail.what = Mail::What::message;
  mail.ticket = from.ticket;
  mail.message = message;
  mail.payload = &loaded;
  mail.part = message.to == session_actor ? nullptr : loaded.part_of[message.to];
  loaded.boxes[mail.part == nullptr ? 0 : static_cast<std::size_t>(mail.part->worker)]->post(&mail);
}

void Protocol::take(Part& part, const Message& message, std::uint64_t ticket) {
  events_.message(EventKind::taken, part.loaded->number, ticket, message);
  ActorState& to = *part.local[static_cast<std::size_t>(message.to.index + 1)];
  if (to.ports.take(message)) consider(part, to);
}

void Protocol::take_for_session(Loaded& loaded, const Message& message, std::uint64_t ticket, EventKind how) {
  events_.message(how, loaded.number, ticket, message);
  SessionPorts& ports = loaded.session_ports;
  (message.kind == Message::Kind::filled ? ports.session_done : ports.session_start).take(message);
  moved_ = &loaded;
}

void Protocol::send_from_session(Loaded& loaded, std::vector<Mail>& mails, std::uint64_t ticket,
                                 const Message& message) {
  loaded.session_ports.messages.add(1);
  Part& part = *loaded.part_of[message.to];
  bool here = part.worker == worker_;
  events_.message(here ? EventKind::handed : EventKind::posted, loaded.number, ticket, message);
  if (here) {
    ActorState& to = *part.local[static_cast<std::size_t>(message.to.index + 1)];
    if (to.ports.take(message)) consider(part, to);
    return;
  }
  Mail& mail = mails[static_cast<std::size_t>(message.lane)];
  mail.message = message;
  mail.ticket = ticket;
  mail.part = &part;
  loaded.boxes[static_cast<std::size_t>(part.worker)]->post(&mail);
}

void Protocol::fail(Part& part, ActorState& actor) {
  events_.act(EventKind::failed, part.loaded->number, actor.ticket, actor.id, actor.ports.acts());
  fail_launch(*part.loaded, actor, thrown(), where_of(actor));
}

// A sum of finite parts that overflows is this act's. Other members' parts are not seen here: a strange one was blamed
// on who made it, and where it stood in a variable from the start its reader is accused. What only moves or compares
// makes nothing strange.
void Protocol::check_collective(Part& part, ActorState& actor) {
  const Collective& c = *actor.actor->collective;
  if (actor.launch >= part.loaded->poisoned.load(std::memory_order_relaxed)) return;
  try {
    if (c.in.view.count() > 0) require_numbers(part.loaded->plan, c.in, actor.collective_in);
    if (c.reduce == "sum" && all_finite({actor.collective_in, &c.in.view}))
      require_finite({actor.collective_out, &c.out.view}, "makes");
  } catch (...) { fail(part, actor); }
}

// Inside a catch block. Members may be in launches before this one, and nobody will send them what they wait for: those
// launches break, too.
void Protocol::break_collectives(Part& part, ActorState& actor) {
  Loaded& loaded = *part.loaded;
  const Error error = thrown();
  fail(part, actor);
  {
    std::lock_guard lock(loaded.breaking);
    if (!loaded.broken_by) loaded.broken_by = error;
  }
  loaded.poisoned.store(0, std::memory_order_relaxed);
  abandon_collectives(loaded);
}

}  // namespace karez::runtime
