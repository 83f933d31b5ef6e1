// Runs the loop of a worker, handles its mail and answers queries.
#include "karez/runtime/worker/worker.h"

#include <chrono>

#include "karez/comm/time_slice.h"
#include "karez/kernels/cpu/team_cpus.h"
#include "karez/plan/waits.h"
#include "karez/runtime/actor/actor_body.h"
#include "karez/runtime/actor/collectives.h"
#include "karez/runtime/launch/failure.h"
#include "karez/runtime/session_thread.h"
#include "karez/runtime/spin_wait.h"

namespace karez::runtime {
Worker::Worker(WorkerOwner& owner, int number, int events)
    : owner_(owner),
      number_(number),
      events_(events),
      protocol_(number, box_, events_),
      unloader_(owner, protocol_),
      launch_queue_(owner, protocol_, unloader_, events_),
      thread_([this] { run(); }) {}

void Worker::stop() {
  stop_mail_.kind = Mail::Kind::stop;
  box_.post(&stop_mail_);
  thread_.join();
}

void Worker::run() {
  note_session_thread();
  comm::request_short_time_slice();  // the teams of its kernels inherit the time slice
  std::unique_lock serving(serving_);
  while (!stop_) {
    if (step() || poll()) continue;
    const std::uint32_t wakes = box_.wakes();
    serving.unlock();
    box_.sleep(wakes);
    serving.lock();
  }
}

// The worker has to be woken if there is work that no later mail announces.
void Worker::end_serving() {
  const bool has_work = stop_ || protocol_.has_runnable() || protocol_.delays() || !box_.restore_mark();
  if (has_work) box_.wake();
  serving_.unlock();
}

// Returns false if there is nothing to do.
bool Worker::step() {
  try {
    return !stop_ && try_step();
  } catch (...) {  // the exception is not from an act: the protocol is broken, so no launch can continue
    const Error error = current_error();
    owner_.on_protocol_error(Error(error.kind, cat("worker ", number_, ": ", error.what()), error.where));
    return true;
  }
}

inline bool Worker::try_step() {
  if (protocol_.delays()) [[unlikely]]
    protocol_.end_delays();
  if (!box_.empty()) {
    events_.update_time();
    for (Mail* mail = box_.take_all(); mail != nullptr;) {
      Mail* next = mail->next;  // an opened mail may be posted again
      open(*mail);
      if (protocol_.has_session_message()) launch_queue_.continue_launches(protocol_.take_notified_plan());
      mail = next;
    }
    return true;
  }
  WorkerPlan* worker_plan = owner_.broken() ? nullptr : protocol_.runnable();
  if (worker_plan == nullptr) return false;
  do {
    protocol_.act(*worker_plan, *worker_plan->actors[static_cast<std::size_t>(worker_plan->ready.pop())]);
    if (protocol_.has_session_message()) launch_queue_.continue_launches(protocol_.take_notified_plan());
  } while (!worker_plan->ready.empty() && box_.empty());
  return true;
}

// Polls the mailbox and the links for a while, before the worker sleeps. A wake-up costs far more than a message, but a
// thread that polls takes a core from other threads. Returns whether there may be work.
bool Worker::poll() {
  if (stop_) return true;
  if (protocol_.delays()) {
    std::this_thread::yield();
    return true;
  }
  int spin = spin_microseconds_.load(std::memory_order_relaxed);
  if (spin > 0) {
    auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(spin);
    protocol_.set_link_polling(true);
    do {
      protocol_.poll_links();
      for (int i = 0; box_.empty() && i < 64; ++i) pause_cpu();
    } while (box_.empty() && std::chrono::steady_clock::now() < until);
    protocol_.set_link_polling(false);
  }
  return !box_.empty();
}

void Worker::open(Mail& mail) {
  if (mail.worker_plan != nullptr && mail.worker_plan->unloading) [[unlikely]]
    return unloader_.open_late_mail(mail);
  switch (mail.kind) {
    case Mail::Kind::message: {
      const Message message = mail.message;  // the sender may reuse the mail as soon as the message has taken effect
      const std::uint64_t ticket = mail.ticket;
      if (message.to != session_actor) return protocol_.take(*mail.worker_plan, message, ticket);
      return protocol_.take_for_session(*static_cast<LoadedPlan*>(mail.payload), message, ticket, EventKind::taken);
    }
    case Mail::Kind::finished:
      return protocol_.on_finished(*mail.worker_plan,
                                   *mail.worker_plan->actors[static_cast<std::size_t>(mail.local_index)]);
    case Mail::Kind::arrival:
      return protocol_.on_arrival(*mail.worker_plan,
                                  *mail.worker_plan->sequences[static_cast<std::size_t>(mail.local_index)]);
    case Mail::Kind::abort_launches: return abort_launches(*static_cast<LaunchAbort*>(mail.payload));
    case Mail::Kind::abandon: return protocol_.on_abandon(*mail.worker_plan);
    case Mail::Kind::resume: return protocol_.resume(*mail.worker_plan);
    case Mail::Kind::invalidate: return launch_queue_.invalidate(*static_cast<InvalidatedOp*>(mail.payload));
    case Mail::Kind::launch: return launch_queue_.queue(*static_cast<LaunchRecord*>(mail.payload));
    case Mail::Kind::unlock: return launch_queue_.drop(*static_cast<LaunchRecord*>(mail.payload));
    case Mail::Kind::attach: return protocol_.attach(*mail.worker_plan);
    case Mail::Kind::unload: return unloader_.begin(*static_cast<LoadedPlan*>(mail.payload));
    case Mail::Kind::detach: return unloader_.detach(*mail.worker_plan);
    case Mail::Kind::detached: return unloader_.on_detached(*static_cast<LoadedPlan*>(mail.payload));
    case Mail::Kind::set_affinity: bind_team(static_cast<const CpuSet*>(mail.payload)->cpus); return;
    case Mail::Kind::query: return answer(*static_cast<WorkerQuery*>(mail.payload));
    case Mail::Kind::stop: stop_ = true; return;
  }
}

namespace {

// Adds to the state what an actor that is not idle waits for or runs.
void add_state(const ActorState& actor, const WorkerPlan& worker_plan, RankState& state) {
  const Plan& plan = worker_plan.loaded->plan;
  if (actor.work == WorkKind::collective) {
    if (!actor.ports.running()) return;  // another actor reports why the turn or the operands are missing
    const Collective& c = *actor.actor->collective;
    const int member = actor.collective->awaited();
    if (member < 0) return;
    const int awaited_rank = plan.communicators[c.communicator].members[static_cast<std::size_t>(member)].rank;
    const RegisterId reg = c.out.reg.valid() ? c.out.reg : c.in.reg;
    if (awaited_rank != plan.rank)
      state.waits.push_back({awaited_rank, cat(name_of_act(actor), reg.valid() ? cat(", r", reg) : "")});
  } else if (actor.ports.running()) {
    state.current_call = name_of_act(actor);  // the act runs on another thread
  } else if (actor.ports.ready()) {
    state.can_progress = true;
  }
}

}  // namespace

void Worker::answer(WorkerQuery& query) {
  std::string text;
  RankState state;
  state.can_progress = protocol_.delays();
  for (WorkerPlan* worker_plan : protocol_.worker_plans())
    for (auto& actor : worker_plan->actors)
      if (!is_idle(actor->ports)) {
        add_state(*actor, *worker_plan, state);
        auto waits = waits_of(worker_plan->loaded->plan, actor->id, actor->ports);
        if (!waits.empty()) text += print(worker_plan->loaded->plan, waits);
        else
          text += cat(actor_name(worker_plan->loaded->plan, actor->id),
                      actor->ports.running() ? " is running\n" : " is ready, but waits for its turn\n");
      }
  std::lock_guard lock(query.mutex);
  query.answers[static_cast<std::size_t>(number_)] = text.empty() ? "idle\n" : text;
  query.states[static_cast<std::size_t>(number_)] = std::move(state);
  --query.missing;
  query.answered.notify_all();
}

}  // namespace karez::runtime
