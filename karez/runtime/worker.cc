// A worker's loop.
#include "karez/runtime/worker.h"

#include <chrono>

#include "karez/comm/time_slice.h"
#include "karez/kernels/cpu/team_cpus.h"
#include "karez/plan/waits.h"
#include "karez/runtime/bodies.h"
#include "karez/runtime/collectives.h"
#include "karez/runtime/exit.h"
#include "karez/runtime/failure.h"

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

Worker::Worker(Session& session, int number, int events)
    : session_(session),
      number_(number),
      events_(events),
      protocol_(number, box_, events_),
      unloading_(session, protocol_),
      launches_(session, protocol_, unloading_, events_),
      thread_([this] { run(); }) {}

void Worker::stop() {
  stop_mail_.what = Mail::What::stop;
  box_.post(&stop_mail_);
  thread_.join();
}

void Worker::run() {
  note_session_thread();
  comm::request_short_time_slice();  // its teams inherit it
  while (!stop_) {
    try {
      step();
    } catch (...) {  // no body's: the protocol was broken, and nothing can be trusted to go on
      const Error error = thrown();
      session_.broke(Error(error.kind, cat("worker ", number_, ": ", error.what()), error.where));
    }
  }
}

inline void Worker::step() {
  if (protocol_.delays()) [[unlikely]]
    protocol_.end_delays();
  if (!box_.empty()) {
    events_.look_at_clock();
    for (Mail* mail = box_.take_all(); mail != nullptr;) {
      Mail* next = mail->next;  // once opened, a mail may be posted again
      open(*mail);
      if (protocol_.session_moved()) launches_.go_on(protocol_.moved());
      mail = next;
    }
    return;
  }
  Part* part = session_.broken() ? nullptr : protocol_.runnable();
  if (part == nullptr) return idle();
  do {
    protocol_.act(*part, *part->actors[static_cast<std::size_t>(part->ready.pop())]);
    if (protocol_.session_moved()) launches_.go_on(protocol_.moved());
  } while (!part->ready.empty() && box_.empty());
}

// Looks for mail and at its links for a while, then sleeps: a wake-up costs far more than a message, but a spinning
// thread takes a core from others.
void Worker::idle() {
  if (protocol_.delays()) return std::this_thread::yield();
  int spin = spin_microseconds_.load(std::memory_order_relaxed);
  if (spin > 0) {
    auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(spin);
    protocol_.watch_links(true);
    do {
      protocol_.poll_links();
      for (int i = 0; box_.empty() && i < 64; ++i) pause_cpu();
    } while (box_.empty() && std::chrono::steady_clock::now() < until);
    protocol_.watch_links(false);
    if (!box_.empty()) return;
  }
  box_.park();
}

void Worker::open(Mail& mail) {
  if (mail.part != nullptr && mail.part->leaving) [[unlikely]]
    return unloading_.open_late(mail);
  switch (mail.what) {
    case Mail::What::message: {
      const Message message = mail.message;  // the sender may write the mail again as soon as the message took effect
      const std::uint64_t ticket = mail.ticket;
      if (message.to != session_actor) return protocol_.take(*mail.part, message, ticket);
      return protocol_.take_for_session(*static_cast<Loaded*>(mail.payload), message, ticket, EventKind::taken);
    }
    case Mail::What::finished:
      return protocol_.finished(*mail.part, *mail.part->actors[static_cast<std::size_t>(mail.place)]);
    case Mail::What::arrival:
      return protocol_.arrived(*mail.part, *mail.part->sequences[static_cast<std::size_t>(mail.place)]);
    case Mail::What::break_off: return break_off(*static_cast<Breaking*>(mail.payload));
    case Mail::What::abandon: return protocol_.abandoned(*mail.part);
    case Mail::What::resume: return protocol_.resume(*mail.part);
    case Mail::What::spoil: return launches_.spoil(*static_cast<SpoiledOp*>(mail.payload));
    case Mail::What::launch: return launches_.queue(*static_cast<LaunchRecord*>(mail.payload));
    case Mail::What::over: return launches_.drop(*static_cast<LaunchRecord*>(mail.payload));
    case Mail::What::attach: return protocol_.attach(*mail.part);
    case Mail::What::unload: return unloading_.begin(*static_cast<Loaded*>(mail.payload));
    case Mail::What::detach: return unloading_.detach(*mail.part);
    case Mail::What::detached: return unloading_.detached(*static_cast<Loaded*>(mail.payload));
    case Mail::What::bind: bind_team(static_cast<const CpuSet*>(mail.payload)->cpus); return;
    case Mail::What::inquiry: return answer(*static_cast<Inquiry*>(mail.payload));
    case Mail::What::stop: stop_ = true; return;
  }
}

namespace {

// What keeps an actor that is not at rest, in this rank or at another.
void look_at(const ActorState& actor, const Part& part, RankState& state) {
  const Plan& plan = part.loaded->plan;
  if (actor.work == Work::collective) {
    if (!actor.ports.running()) return;  // its turn or its operands are another's matter
    const Collective& c = *actor.actor->collective;
    const int member = actor.collective->awaited();
    if (member < 0) return;
    const int whom = plan.communicators[c.communicator].members[static_cast<std::size_t>(member)].rank;
    const RegisterId reg = c.out.reg.valid() ? c.out.reg : c.in.reg;
    if (whom != plan.rank) state.waits.push_back({whom, cat(name_of_act(actor), reg.valid() ? cat(", r", reg) : "")});
  } else if (actor.ports.running()) {
    state.inside = name_of_act(actor);  // on another thread
  } else if (actor.ports.ready()) {
    state.may_move = true;
  }
}

}  // namespace

void Worker::answer(Inquiry& inquiry) {
  std::string text;
  RankState state;
  state.may_move = protocol_.delays();
  for (Part* part : protocol_.parts())
    for (auto& actor : part->actors)
      if (!is_idle(actor->ports)) {
        look_at(*actor, *part, state);
        auto waits = waits_of(part->loaded->plan, actor->id, actor->ports);
        if (!waits.empty()) text += print(part->loaded->plan, waits);
        else
          text += cat(actor_name(part->loaded->plan, actor->id),
                      actor->ports.running() ? " is under way\n" : " is ready, but not at its turn\n");
      }
  std::lock_guard lock(inquiry.mutex);
  inquiry.answers[static_cast<std::size_t>(number_)] = text.empty() ? "at rest\n" : text;
  inquiry.states[static_cast<std::size_t>(number_)] = std::move(state);
  --inquiry.missing;
  inquiry.answered.notify_all();
}

}  // namespace karez::runtime
