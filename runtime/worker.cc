// A worker: the loop, the protocol's messages, and what an act does for each kind of body.
#include "runtime/worker.h"

#include <algorithm>
#include <chrono>

#include "device/cpu_budget.h"
#include "plan/waits.h"
#include "runtime/host_copy.h"

namespace karez::runtime {
namespace {

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Done::operator()(std::exception_ptr error) const {
  if (error) *error_ = std::move(error);
  box_->post(mail_);
}

Worker::Worker(Session& session, int number, int cpu) : session_(session), number_(number), cpu_(cpu), thread_([this] { run(); }) {}

void Worker::stop() {
  stop_mail_.what = Mail::What::stop;
  box_.post(&stop_mail_);
  thread_.join();
}

std::string Worker::acting() const {
  const ActorState* actor = acting_.load(std::memory_order_acquire);
  return actor == nullptr ? "" : cat("a", actor->id, " '", actor->actor->name, "'");
}

void Worker::run() {
  if (cpu_ >= 0) bind_to_cpu(cpu_);
  while (!stop_) {
    try {
      step();
    } catch (const std::exception& error) {  // no kernel's: the protocol was broken, and nothing can be trusted to go on
      session_.broke(cat("worker ", number_, ": ", error.what()));
    }
  }
}

inline void Worker::step() {
  if (!box_.empty()) {
    for (Mail* mail = box_.take_all(); mail != nullptr;) {
      Mail* next = mail->next;  // once opened, a mail may be posted again
      open(*mail);
      mail = next;
    }
    return;
  }
  if (runnable_.empty() || session_.broken()) return idle();
  Part& part = *runnable_.front();
  if (part.ready.empty()) {
    part.runnable = false;
    runnable_.erase(runnable_.begin());
    return;
  }
  do act(part, *part.actors[static_cast<std::size_t>(part.ready.pop())]);
  while (!part.ready.empty() && box_.empty());
}

// Looks for mail for a while, then sleeps: a wake-up costs far more than a message, but a spinning thread takes a core from others.
void Worker::idle() {
  int spin = spin_microseconds_.load(std::memory_order_relaxed);
  if (spin > 0) {
    auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(spin);
    do {
      for (int i = 0; i < 64; ++i) {
        if (!box_.empty()) return;
        pause_cpu();
      }
    } while (std::chrono::steady_clock::now() < until);
  }
  box_.park();
}

void Worker::open(Mail& mail) {
  if (mail.part != nullptr && mail.part->leaving) [[unlikely]]
    return open_late(mail);
  switch (mail.what) {
    case Mail::What::message: {
      Message message = mail.message;  // the sender may write the mail again as soon as the message took effect
      if (message.to != session_actor) return deliver(*mail.part, message);
      deliver_to_session(*static_cast<Loaded*>(mail.payload), message);
      if (over_ != nullptr) end_launch();
      return;
    }
    case Mail::What::finished: {
      Part& part = *mail.part;
      ActorState& actor = *part.actors[static_cast<std::size_t>(mail.place)];
      if (std::exception_ptr error = std::exchange(actor.async_error, nullptr)) {
        try {
          std::rethrow_exception(error);
        } catch (const std::exception& e) { fail_launch(part, actor, e.what(), actor.calls[0].call->where); } catch (...) {
          fail_launch(part, actor, "an unknown exception", actor.calls[0].call->where);
        }
      }
      auto stream = static_cast<std::size_t>(actor.stream);
      part.stream_busy[stream] = 0;
      while (!part.deferred[stream].empty()) part.ready.insert(part.deferred[stream].pop());
      make_runnable(part);
      complete(part, actor);
      return;
    }
    case Mail::What::arrival: {
      Sequence& sequence = *mail.part->sequences[static_cast<std::size_t>(mail.place)];
      sequence.posted.exchange(false, std::memory_order_acq_rel);  // before looking at the links
      if (sequence.running != nullptr) advance_collective(*mail.part, sequence);
      return;  // otherwise the peers are ahead; the links are looked at when our turn begins
    }
    case Mail::What::abandon:
      for (auto& sequence : mail.part->sequences)
        if (sequence->running != nullptr) end_collective(*mail.part, *sequence, *sequence->running);
      return;
    case Mail::What::launch: return queue_launch(*static_cast<LaunchRecord*>(mail.payload));
    case Mail::What::attach:
      attached_.push_back(mail.part);
      runnable_.reserve(attached_.size());
      for (auto& actor : mail.part->actors)  // actors without inputs need no message to begin
        if (actor->actor->inputs.empty() && actor->ports.ready()) consider(*mail.part, *actor);
      return;
    case Mail::What::unload: return unload(*static_cast<Loaded*>(mail.payload));
    case Mail::What::detach: return detach(*mail.part);
    case Mail::What::detached: return detached(*static_cast<Loaded*>(mail.payload));
    case Mail::What::inquiry: return answer(*static_cast<Inquiry*>(mail.payload));
    case Mail::What::stop: stop_ = true; return;
  }
}

// ---- protocol

void Worker::make_runnable(Part& part) {
  if (part.runnable) return;
  part.runnable = true;
  runnable_.push_back(&part);
}

// The ports are ready. A collective waits for its turn besides: whoever ends the turn before considers it again.
inline void Worker::consider(Part& part, ActorState& actor) {
  if (actor.sequence >= 0) [[unlikely]] {
    const Sequence& sequence = *part.sequences[static_cast<std::size_t>(actor.sequence)];
    if (sequence.by_turn[static_cast<std::size_t>(sequence.next)] != &actor || sequence.running != nullptr) return;
  }
  part.ready.insert(actor.place);
  if (!part.runnable) make_runnable(part);
}

void Worker::act(Part& part, ActorState& actor) {
  if (!part.stream_busy.empty() && part.stream_busy[static_cast<std::size_t>(actor.stream)]) [[unlikely]] {
    part.deferred[static_cast<std::size_t>(actor.stream)].insert(actor.place);
    return;
  }
  actor.ports.begin();
  for (PatchedPort& port : actor.patched) {
    int slot = port.output ? actor.ports.output_slot(port.port) : actor.ports.input_slot(port.port);
    if (slot == port.slot) continue;
    port.slot = slot;
    for (Patch& patch : port.patches) *patch.cell = patch.base + slot * patch.stride;
  }
  for (const PoisonRange& range : actor.poisoned) {
    if (range.port >= 0 && !actor.ports.first_of_period(range.port)) continue;
    poison(range.base + (range.port >= 0 ? actor.ports.output_slot(range.port) * range.stride : 0), range.bytes);
  }
  switch (actor.body) {
    case BodyKind::state: break;
    case BodyKind::compute:
      if (actor.calls.empty() || part.loaded->poisoned.load(std::memory_order_relaxed)) break;
      if (actor.asynchronous) return start_async(part, actor);
      run_calls(part, actor);
      break;
    case BodyKind::input:
      if (!part.loaded->poisoned.load(std::memory_order_relaxed)) read_input(part, actor);
      break;
    case BodyKind::fetch:
      if (!part.loaded->poisoned.load(std::memory_order_relaxed)) fetch(part, actor);
      break;
    case BodyKind::collective: return begin_collective(part, actor);  // a poisoned launch too: the other members count on it
  }
  complete(part, actor);
}

inline void Worker::complete(Part& part, ActorState& actor) {
  part.acts.add(1);
  actor.ports.complete([&](const Message& message) { send(part, actor, message); });
  if (actor.ports.ready()) consider(part, actor);
  if (over_ != nullptr) [[unlikely]]
    end_launch();
}

// To an actor of the same worker a message takes effect at once: taking it only counts tokens, so a queue between would change nothing.
inline void Worker::send(Part& part, ActorState& from, const Message& message) {
  part.messages.add(1);
  ActorState* to = part.local[static_cast<std::size_t>(message.to.index + 1)];
  if (to == nullptr) [[unlikely]]
    return send_away(part, from, message);
  if (to->ports.take(message)) consider(part, *to);
}

void Worker::send_away(Part& part, ActorState& from, const Message& message) {
  Loaded& loaded = *part.loaded;
  if (message.to == session_actor && number_ == 0) return deliver_to_session(loaded, message);
  Mail& mail = from.mails[static_cast<std::size_t>(message.lane)];
  mail.what = Mail::What::message;
  mail.message = message;
  mail.payload = &loaded;
  mail.part = message.to == session_actor ? nullptr : loaded.part_of[static_cast<std::size_t>(message.to.index)];
  loaded.boxes[mail.part == nullptr ? 0 : static_cast<std::size_t>(mail.part->worker)]->post(&mail);
}

void Worker::deliver(Part& part, const Message& message) {
  ActorState& to = *part.local[static_cast<std::size_t>(message.to.index + 1)];
  if (to.ports.take(message)) consider(part, to);
}

// ---- bodies

void Worker::run_calls(Part& part, ActorState& actor) {
  acting_.store(&actor, std::memory_order_release);
  const Call* at = nullptr;
  try {
    for (PreparedCall& call : actor.calls) {
      at = call.call;
      call.run(call.args());
    }
  } catch (const std::exception& error) { fail_launch(part, actor, error.what(), at->where.empty() ? at->kernel : at->where); } catch (...) {
    fail_launch(part, actor, "an unknown exception", at->where.empty() ? at->kernel : at->where);
  }
  acting_.store(nullptr, std::memory_order_release);
}

// Such an act holds its stream until it is done.
void Worker::start_async(Part& part, ActorState& actor) {
  part.stream_busy[static_cast<std::size_t>(actor.stream)] = 1;
  Done done(&box_, &actor.note, &actor.async_error);
  try {
    actor.calls[0].async->start(actor.calls[0].args(), done);
  } catch (...) { done(std::current_exception()); }
}

void Worker::read_input(Part& part, ActorState& actor) {
  acting_.store(&actor, std::memory_order_release);
  try {
    const Feed& feed = part.loaded->launch.load(std::memory_order_relaxed)->feeds[static_cast<std::size_t>(actor.binding)];
    std::int64_t position = feed.position + actor.ports.acts() % actor.acts_per_launch;
    for (const BoundOperand& bound : actor.bound) feed.source->read(position, bound.begin, {bound.address, bound.view});
  } catch (const std::exception& error) {
    fail_launch(part, actor, error.what(), actor.actor->where.empty() ? cat("input '", actor.actor->binding, "'") : actor.actor->where);
  }
  acting_.store(nullptr, std::memory_order_release);
}

void Worker::fetch(Part& part, ActorState& actor) {
  HostArray& array = part.loaded->launch.load(std::memory_order_relaxed)->outputs[static_cast<std::size_t>(actor.binding)].second;
  const BoundOperand& bound = actor.bound[0];
  copy_tensor(array.bytes(), array.view(), bound.address, *bound.view);
}

// Collectives hold no stream: two communicators that met in different orders on two devices would wait for each other.
void Worker::begin_collective(Part& part, ActorState& actor) {
  Sequence& sequence = *part.sequences[static_cast<std::size_t>(actor.sequence)];
  sequence.running = &actor;
  if (part.loaded->abandoned.load(std::memory_order_relaxed)) return end_collective(part, sequence, actor);
  try {
    actor.collective->start(actor.collective_in, actor.collective_out, actor.staging);
  } catch (const std::exception& error) {
    fail_launch(part, actor, error.what(), actor.actor->collective->where);
    abandon_collectives(*part.loaded);
    return;
  }
  advance_collective(part, sequence);
}

void Worker::advance_collective(Part& part, Sequence& sequence) {
  ActorState* actor = sequence.running;
  bool over = false;
  try {
    over = actor->collective->advance();
  } catch (const std::exception& error) {
    fail_launch(part, *actor, error.what(), actor->actor->collective->where);
    abandon_collectives(*part.loaded);
    return;
  }
  if (!over) return;
  part.sent_bytes.find(actor->actor->collective->kind)->second.add(sequence.endpoint->bytes_sent() - sequence.sent_before);
  sequence.sent_before = sequence.endpoint->bytes_sent();
  end_collective(part, sequence, *actor);
}

void Worker::end_collective(Part& part, Sequence& sequence, ActorState& actor) {
  sequence.running = nullptr;
  actor.collective->abandon();  // where it could not end by itself
  if (++sequence.next == static_cast<int>(sequence.by_turn.size())) sequence.next = 0;
  complete(part, actor);
  ActorState* next = sequence.by_turn[static_cast<std::size_t>(sequence.next)];
  if (next != &actor && next->ports.ready() && !part.ready.has(next->place)) consider(part, *next);
}

// The first error is the launch's; the rest of it completes without working, so that every token comes home.
void Worker::fail_launch(Part& part, const ActorState& actor, const std::string& what, const std::string& where) {
  Loaded& loaded = *part.loaded;
  LaunchRecord* record = loaded.launch.load(std::memory_order_acquire);
  const PlanDevice& device = loaded.plan.devices[static_cast<std::size_t>(loaded.plan.stream(actor.actor->stream).device.index)];
  std::string text = cat(where.empty() ? "" : cat(where, ": "), what, " [", record == nullptr ? "between launches" : cat("launch ", record->ticket),
                         ", actor '", actor.actor->name, "', device ", device_name(device), "]");
  if (record == nullptr) return session_.broke(text);
  {
    std::lock_guard lock(record->mutex);
    if (record->error.empty()) record->error = std::move(text);
  }
  loaded.poisoned.store(true, std::memory_order_relaxed);
}

void Worker::abandon_collectives(Loaded& loaded) {
  if (loaded.abandoned.exchange(true)) return;
  for (auto& part : loaded.parts)
    if (part) loaded.boxes[static_cast<std::size_t>(part->worker)]->post(&part->abandon);
}

// ---- the session's side, on worker 0

void Worker::queue_launch(LaunchRecord& record) {
  (last_launch_ == nullptr ? first_launch_ : last_launch_->next) = &record;
  last_launch_ = &record;
  ++record.loaded->queued;
  begin_launch();
}

void Worker::begin_launch() {
  while (first_launch_ != nullptr && !launched_) {
    LaunchRecord& record = *first_launch_;
    Loaded& loaded = *record.loaded;
    if (session_.refuses(record)) {
      drop_first_launch();
      continue;
    }
    SessionPorts& ports = loaded.session_ports;
    if (!ports.starter.ready()) return;  // a source of the launch before has yet to return its token
    launched_ = true;
    loaded.launch.store(&record, std::memory_order_release);
    ports.starter.begin();
    ports.starter.complete([&](const Message& message) { session_sends(loaded, ports.start_mails, message); });
  }
}

void Worker::drop_first_launch() {
  LaunchRecord* record = first_launch_;
  first_launch_ = record->next;
  if (first_launch_ == nullptr) last_launch_ = nullptr;
  launched_ = false;
  Loaded& loaded = *record->loaded;
  session_.finished(*record);  // from here on the record may be gone
  if (--loaded.queued == 0 && loaded.leaving) ask_parts_to_go(loaded);
}

void Worker::session_sends(Loaded& loaded, std::vector<Mail>& mails, const Message& message) {
  loaded.session_ports.messages.add(1);
  Part& part = *loaded.part_of[static_cast<std::size_t>(message.to.index)];
  if (part.worker == number_) return deliver(part, message);
  Mail& mail = mails[static_cast<std::size_t>(message.lane)];
  mail.message = message;
  mail.part = &part;
  loaded.boxes[static_cast<std::size_t>(part.worker)]->post(&mail);
}

// The end itself waits until the act or mail is over: it sends to the very actor that may be in the midst of its messages.
void Worker::deliver_to_session(Loaded& loaded, const Message& message) {
  SessionPorts& ports = loaded.session_ports;
  if (message.kind == Message::Kind::filled) {
    if (ports.ender.take(message)) over_ = &loaded;
  } else if (ports.starter.take(message) && !launched_) {
    begin_launch();
  }
}

void Worker::end_launch() {
  Loaded& loaded = *std::exchange(over_, nullptr);
  SessionPorts& ports = loaded.session_ports;
  ports.ender.begin();
  ports.ender.complete([&](const Message& message) { session_sends(loaded, ports.done_mails, message); });
  loaded.launch.store(nullptr, std::memory_order_relaxed);
  drop_first_launch();
  begin_launch();
}

void Worker::answer(Inquiry& inquiry) {
  std::string text;
  for (Part* part : attached_)
    for (auto& actor : part->actors)
      if (!at_rest(actor->ports)) {
        auto waits = waits_of(part->loaded->plan, actor->id, actor->ports);
        if (!waits.empty()) text += print(part->loaded->plan, waits);
        else text += cat(actor_name(part->loaded->plan, actor->id), actor->ports.running() ? " is under way\n" : " is ready, but not at its turn\n");
      }
  std::lock_guard lock(inquiry.mutex);
  inquiry.answers[static_cast<std::size_t>(number_)] = text.empty() ? "at rest\n" : text;
  --inquiry.missing;
  inquiry.answered.notify_all();
}

}  // namespace karez::runtime
