// Schedules the actors of one worker, runs their acts, and sends and takes messages.
#include "karez/runtime/worker/protocol.h"

#include <algorithm>

#include "karez/plan/waits.h"
#include "karez/runtime/actor/actor_body.h"
#include "karez/runtime/actor/check_finite.h"
#include "karez/runtime/actor/collectives.h"
#include "karez/runtime/actor/poison.h"
#include "karez/runtime/launch/failure.h"

namespace karez::runtime {

std::string Protocol::current_act() const {
  const ActorState* actor = current_actor_.load(std::memory_order_acquire);
  return actor == nullptr ? "" : cat("a", actor->id, " '", actor->actor->name, "'");
}

std::string Protocol::current_call() const {
  const ActorState* actor = current_actor_.load(std::memory_order_acquire);
  return actor == nullptr ? "" : name_of_act(*actor);
}

void Protocol::attach(WorkerPlan& worker_plan) {
  attached_.push_back(&worker_plan);
  runnable_.reserve(attached_.size());
  for (auto& actor : worker_plan.actors)  // actors without inputs need no message to begin
    if (actor->actor->inputs.empty() && actor->ports.ready()) schedule(worker_plan, *actor);
}

void Protocol::detach(WorkerPlan& worker_plan) {
  attached_.erase(std::find(attached_.begin(), attached_.end(), &worker_plan));
  if (auto at = std::find(runnable_.begin(), runnable_.end(), &worker_plan); at != runnable_.end()) runnable_.erase(at);
  std::erase_if(delayed_, [&](const Delayed& delayed) { return delayed.worker_plan == &worker_plan; });
}

WorkerPlan* Protocol::runnable() {
  while (!runnable_.empty()) {
    WorkerPlan& worker_plan = *runnable_.front();
    if (!worker_plan.ready.empty()) return &worker_plan;
    worker_plan.runnable = false;
    runnable_.erase(runnable_.begin());
  }
  return nullptr;
}

bool Protocol::has_runnable() const {
  return std::any_of(runnable_.begin(), runnable_.end(), [](const WorkerPlan* plan) { return !plan->ready.empty(); });
}

// Rarely called. Not inlined, because the allocation in it would make `schedule` save CPU registers.
[[gnu::noinline]] void Protocol::make_runnable(WorkerPlan& worker_plan) {
  if (worker_plan.runnable) return;
  worker_plan.runnable = true;
  runnable_.push_back(&worker_plan);
}

// Call when the actor's ports are ready. A collective also needs its turn; the end of the previous turn schedules it
// again.
inline void Protocol::schedule(WorkerPlan& worker_plan, ActorState& actor) {
  if (actor.sequence >= 0) [[unlikely]]
    if (!worker_plan.sequences[static_cast<std::size_t>(actor.sequence)]->position->may_begin(actor.id)) return;
  worker_plan.ready.insert(actor.local_index);
  if (!worker_plan.runnable) make_runnable(worker_plan);
}

// Call before the first act of an actor in its next launch. An actor counts its launches by its acts alone.
static inline void enter_launch(LoadedPlan& loaded, ActorState& actor) {
  actor.acts_left = actor.acts_per_launch;
  actor.ticket = loaded.active_launch(++actor.launch).ticket.load(std::memory_order_relaxed);
}

// Returns the memory of the launch's results if the actor computes some of them there.
static inline std::span<std::byte* const> targets_of(LoadedPlan& loaded, const ActorState& actor) {
  if (actor.results.empty()) return {};
  return loaded.record(actor.launch)->targets;
}

// Returns true if the act must wait because its stream is busy or because it is delayed. The actor stays ready until
// the act begins: no other act consumes its tokens, and the turn of a collective does not pass.
[[gnu::noinline]] bool Protocol::defer(WorkerPlan& worker_plan, ActorState& actor) {
  const auto stream = static_cast<std::size_t>(actor.stream);
  if (worker_plan.stream_busy[stream]) {
    worker_plan.deferred[stream].insert(actor.local_index);
    return true;
  }
  const Delays& delays = worker_plan.loaded->delays;
  if (delays.max_microseconds == 0) return false;
  actor.delayed = !actor.delayed;
  if (actor.delayed) {
    const std::chrono::microseconds delay(delays.microseconds(actor.id.index, actor.ports.acts()));
    delayed_.push_back({std::chrono::steady_clock::now() + delay, &worker_plan, &actor});
  }
  return actor.delayed;
}

// Returns true if the act is a collective of a failed launch that not all ranks have poisoned yet. Keeps the collective
// in `held_collectives` until `resume`.
bool Protocol::hold(WorkerPlan& worker_plan, ActorState& actor) {
  const LoadedPlan& loaded = *worker_plan.loaded;
  const std::int64_t launch = actor.acts_left == 0 ? actor.launch + 1 : actor.launch;
  if (launch < loaded.poisoned.load() || launch >= loaded.released.load() || loaded.abandoned.load()) return false;
  worker_plan.held_collectives.insert(actor.local_index);
  return true;
}

void Protocol::resume(WorkerPlan& worker_plan) {
  worker_plan.resume_posted = false;
  if (worker_plan.held_collectives.empty()) return;
  while (!worker_plan.held_collectives.empty()) worker_plan.ready.insert(worker_plan.held_collectives.pop());
  make_runnable(worker_plan);
}

// Ends at most one delay, so that acts run in the order in which their delays end, even if the thread is late and
// several delays are over.
void Protocol::end_delays() {
  const auto first = std::min_element(delayed_.begin(), delayed_.end(),
                                      [](const Delayed& a, const Delayed& b) { return a.until < b.until; });
  if (first->until > std::chrono::steady_clock::now()) return;
  first->worker_plan->ready.insert(first->actor->local_index);
  make_runnable(*first->worker_plan);
  delayed_.erase(first);
}

void Protocol::act(WorkerPlan& worker_plan, ActorState& actor) {
  if (!worker_plan.stream_busy.empty()) [[unlikely]]
    if (defer(worker_plan, actor)) return;
  if (actor.work == WorkKind::collective)
    if (hold(worker_plan, actor)) [[unlikely]]
      return;
  LoadedPlan& loaded = *worker_plan.loaded;
  if (actor.acts_left == 0) enter_launch(loaded, actor);
  --actor.acts_left;
  actor.ports.begin();
  if (!actor.patched.empty() || !actor.poison_ranges.empty())
    prepare_memory(actor, targets_of(loaded, actor), !loaded.abandoned.load(std::memory_order_acquire));
  // A collective also runs in a poisoned launch, because the other members depend on it.
  if (actor.work != WorkKind::none &&
      (actor.work == WorkKind::collective || actor.launch < loaded.poisoned.load(std::memory_order_relaxed)))
    return begin_work(worker_plan, actor);
  events_.act(EventKind::acted, loaded.number, actor.ticket, actor.id, actor.ports.acts());
  complete(worker_plan, actor);
}

// Starts the work of an act. If the work throws, the launch fails.
void Protocol::begin_work(WorkerPlan& worker_plan, ActorState& actor) {
  LoadedPlan& loaded = *worker_plan.loaded;
  if (actor.writes_state) loaded.note_write(actor.launch);
  events_.update_time();
  events_.act(EventKind::began, loaded.number, actor.ticket, actor.id, actor.ports.acts());
  // A collective does not occupy its stream; otherwise two communicators in different orders on two devices would
  // deadlock.
  if (actor.work == WorkKind::collective) {
    try {
      if (!begin_collective(worker_plan, actor)) return;
    } catch (...) { return break_collectives(worker_plan, actor); }
    return end_collective(worker_plan, *worker_plan.sequences[static_cast<std::size_t>(actor.sequence)]);
  }
  if (actor.work == WorkKind::async_call) worker_plan.stream_busy[static_cast<std::size_t>(actor.stream)] = 1;
  current_actor_.store(&actor, std::memory_order_release);
  const std::int64_t begin = events_.time();
  bool over = true;
  try {
    over = run_body(worker_plan, actor, box_, events_);
  } catch (...) { fail(worker_plan, actor); }
  current_actor_.store(nullptr, std::memory_order_release);
  if (!over) return;
  end_work(worker_plan, actor);
  (actor.work == WorkKind::read ? reading_ : computing_).add(events_.time() - begin);
}

void Protocol::end_work(WorkerPlan& worker_plan, ActorState& actor) {
  if (!actor.poison_ranges.empty() && !worker_plan.loaded->abandoned.load(std::memory_order_acquire)) [[unlikely]]
    poison_after(actor, PoisonRange::last);  // not if abandoned, because another member may still read this memory
  events_.update_time();
  events_.act(EventKind::ended, worker_plan.loaded->number, actor.ticket, actor.id, actor.ports.acts());
  complete(worker_plan, actor);
}

[[gnu::always_inline]] inline void Protocol::complete(WorkerPlan& worker_plan, ActorState& actor) {
  worker_plan.acts.add(1);
  actor.ports.complete([&](const Message& message)
                           __attribute__((always_inline)) { send(worker_plan, actor, message); });
  if (actor.ports.ready()) schedule(worker_plan, actor);
}

// An asynchronous kernel has occupied its stream until now; a slow read has not.
void Protocol::on_finished(WorkerPlan& worker_plan, ActorState& actor) {
  if (std::exception_ptr error = std::exchange(actor.async_error, nullptr)) {
    try {
      std::rethrow_exception(error);
    } catch (...) { fail(worker_plan, actor); }
  }
  if (actor.work == WorkKind::async_call) {
    auto stream = static_cast<std::size_t>(actor.stream);
    worker_plan.stream_busy[stream] = 0;
    while (!worker_plan.deferred[stream].empty()) worker_plan.ready.insert(worker_plan.deferred[stream].pop());
    make_runnable(worker_plan);
  }
  end_work(worker_plan, actor);
}

void Protocol::set_link_polling(bool polling) {
  for (WorkerPlan* worker_plan : attached_)
    for (auto& sequence : worker_plan->sequences)
      if (sequence->running != nullptr) sequence->endpoint->set_busy_poll(polling);
}

void Protocol::poll_links() {
  for (WorkerPlan* worker_plan : attached_)
    for (auto& sequence : worker_plan->sequences)
      if (sequence->running != nullptr) sequence->endpoint->poll();
}

void Protocol::on_arrival(WorkerPlan& worker_plan, SequenceState& sequence) {
  sequence.arrival_posted.exchange(false, std::memory_order_acq_rel);  // must come before the links are polled
  try {
    if (!advance_collective(worker_plan, sequence)) return;
  } catch (...) { return break_collectives(worker_plan, *sequence.running); }
  end_collective(worker_plan, sequence);
}

void Protocol::on_abandon(WorkerPlan& worker_plan) {
  for (auto& sequence : worker_plan.sequences)
    if (sequence->running != nullptr) end_collective(worker_plan, *sequence);
  resume(worker_plan);
}

void Protocol::end_collective(WorkerPlan& worker_plan, SequenceState& sequence) {
  ActorState& actor = *sequence.running;
  if (worker_plan.loaded->check_nan) [[unlikely]]
    check_collective(worker_plan, actor);
  ActorState& next = advance_sequence(sequence);
  end_work(worker_plan, actor);
  if (&next != &actor && next.ports.ready() && !worker_plan.ready.has(next.local_index)) schedule(worker_plan, next);
}

// A message to an actor of the same worker takes effect immediately. It only counts tokens, so a queue would make no
// difference.
[[gnu::always_inline]] inline void Protocol::send(WorkerPlan& worker_plan, ActorState& from, const Message& message) {
  worker_plan.messages.add(1);
  ActorState* to = worker_plan.local[static_cast<std::size_t>(message.to.index + 1)];
  if (to == nullptr) [[unlikely]]
    return post_message(worker_plan, from, message);
  events_.sent(EventKind::handed, message);
  if (to->ports.take(message)) schedule(worker_plan, *to);
}

void Protocol::post_message(WorkerPlan& worker_plan, ActorState& from, const Message& message) {
  LoadedPlan& loaded = *worker_plan.loaded;
  if (message.to == session_actor && worker_ == 0)
    return take_for_session(loaded, message, from.ticket, EventKind::handed);
  events_.message(EventKind::posted, loaded.number, from.ticket, message);
  Mail& mail = from.mails[static_cast<std::size_t>(message.lane)];
  mail.kind = Mail::Kind::message;
  mail.ticket = from.ticket;
  mail.message = message;
  mail.payload = &loaded;
  mail.worker_plan = message.to == session_actor ? nullptr : loaded.worker_plan_of[message.to];
  loaded.boxes[mail.worker_plan == nullptr ? 0 : static_cast<std::size_t>(mail.worker_plan->worker)]->post(&mail);
}

void Protocol::take(WorkerPlan& worker_plan, const Message& message, std::uint64_t ticket) {
  events_.message(EventKind::taken, worker_plan.loaded->number, ticket, message);
  ActorState& to = *worker_plan.local[static_cast<std::size_t>(message.to.index + 1)];
  if (to.ports.take(message)) schedule(worker_plan, to);
}

void Protocol::take_for_session(LoadedPlan& loaded, const Message& message, std::uint64_t ticket, EventKind how) {
  events_.message(how, loaded.number, ticket, message);
  SessionPorts& ports = loaded.session_ports;
  (message.kind == Message::Kind::filled ? ports.session_done : ports.session_start).take(message);
  notified_plan_ = &loaded;
}

void Protocol::send_from_session(LoadedPlan& loaded, std::vector<Mail>& mails, std::uint64_t ticket,
                                 const Message& message) {
  loaded.session_ports.messages.add(1);
  WorkerPlan& worker_plan = *loaded.worker_plan_of[message.to];
  const bool same_worker = worker_plan.worker == worker_;
  events_.message(same_worker ? EventKind::handed : EventKind::posted, loaded.number, ticket, message);
  if (same_worker) {
    ActorState& to = *worker_plan.local[static_cast<std::size_t>(message.to.index + 1)];
    if (to.ports.take(message)) schedule(worker_plan, to);
    return;
  }
  Mail& mail = mails[static_cast<std::size_t>(message.lane)];
  mail.message = message;
  mail.ticket = ticket;
  mail.worker_plan = &worker_plan;
  loaded.boxes[static_cast<std::size_t>(worker_plan.worker)]->post(&mail);
}

void Protocol::fail(WorkerPlan& worker_plan, ActorState& actor) {
  events_.act(EventKind::failed, worker_plan.loaded->number, actor.ticket, actor.id, actor.ports.acts());
  fail_launch(*worker_plan.loaded, actor, current_error(), where_of(actor));
}

// Reports a sum that is not finite although this member's operand is finite. The operands of other members are not
// checked here: a non-finite operand was reported for the act that produced it or, if it is in a variable, for the act
// that reads it. Collectives that only move or compare values produce no new values.
void Protocol::check_collective(WorkerPlan& worker_plan, ActorState& actor) {
  const Collective& c = *actor.actor->collective;
  if (actor.launch >= worker_plan.loaded->poisoned.load(std::memory_order_relaxed)) return;
  try {
    if (c.in.view.count() > 0) require_numbers(worker_plan.loaded->plan, c.in, actor.collective_in);
    if (c.reduce == Reduce::sum && all_finite({actor.collective_in, &c.in.view}))
      require_finite({actor.collective_out, &c.out.view}, "produces");
  } catch (...) { fail(worker_plan, actor); }
}

// Call in a catch block. Other members may be in earlier launches and wait for messages that will not be sent, so those
// launches are aborted too.
void Protocol::break_collectives(WorkerPlan& worker_plan, ActorState& actor) {
  LoadedPlan& loaded = *worker_plan.loaded;
  const Error error = current_error();
  fail(worker_plan, actor);
  {
    std::lock_guard lock(loaded.error_mutex);
    if (!loaded.collective_error) loaded.collective_error = error;
  }
  loaded.poisoned.store(0, std::memory_order_relaxed);
  abandon_collectives(loaded);
}

}  // namespace karez::runtime
