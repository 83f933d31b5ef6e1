// The functions of a session that concern other ranks: ops, failures, launches on other ranks, and names of links.
#include <algorithm>

#include "karez/comm/rendezvous/peers.h"
#include "karez/data/stages/stage_scope.h"
#include "karez/runtime/control.h"
#include "karez/runtime/launch/launch_queue.h"
#include "karez/runtime/launch/launch_table.h"
#include "karez/runtime/load/links.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/session.h"
#include "karez/runtime/worker/worker_pool.h"

namespace karez::runtime {

// Launches of different plans run concurrently, in an order that may differ between ranks, so no two plans share a
// link. A link name contains the number of the plan within its program. This number is equal on all ranks, because they
// load the plans of a program in the same order.
std::string Session::links_of(const Plan& plan) {
  require(plan.rank == options_.peers->rank(), "plan '", plan.name, "' is for rank ", plan.rank,
          ", not for this process (rank ", options_.peers->rank(), ")");
  return cat("program ", plan.program_hash, " ", plans_of_program_[plan.program_hash]++, "\n");
}

void Session::join_ranks() {
  require(options_.make_control != nullptr, "a session with other ranks needs SessionOptions::make_control");
  control_ = options_.make_control(
      {.ended = [this](std::uint64_t op, const LaunchEnd& end) { ended(op, end); },
       .invalidated = [this](std::uint64_t op, bool all) { invalidated(op, all); },
       .failed = [this](const Error& error, std::optional<int> lost) { on_rank_failure(error, lost); },
       .state = [this](bool waits, double max_seconds) { return state(waits, max_seconds); }});
  control_->start_heartbeat();
  std::lock_guard lock(mutex_);
  left_ranks_ = false;
}

void Session::leave_ranks() {
  {
    std::lock_guard lock(mutex_);
    left_ranks_ = true;
  }
  if (control_ != nullptr) control_->stop_heartbeat();
  std::unique_lock lock(mutex_);
  over_.wait(lock, [&] { return control_users_ == 0; });
  lock.unlock();
  control_.reset();
  plans_of_program_.clear();
  lock.lock();  // the control may have reported a failure until it was destroyed
  invalidated_.clear();
  failures_.clear(false);
  flight_recorded_ = false;
}

std::vector<Exchange> Session::exchanges(const Plan& plan) const {
  if (!options_.on_plan) return exchanges_of(plan);
  Plan changed = plan;
  options_.on_plan(changed);
  return exchanges_of(changed);
}

// Keeps the control alive while a thread of the program uses it.
class Session::ControlGuard {
 public:
  explicit ControlGuard(Session& session) : session_(session) {
    std::lock_guard lock(session_.mutex_);
    control_ = session_.control_.get();
    ++session_.control_users_;
  }
  ~ControlGuard() {
    std::lock_guard lock(session_.mutex_);
    --session_.control_users_;
    session_.over_.notify_all();
  }
  ControlGuard(const ControlGuard&) = delete;
  ControlGuard& operator=(const ControlGuard&) = delete;
  explicit operator bool() const { return control_ != nullptr; }
  // Calls a function of the control. An exception from it is a failure that is reported to the program.
  template <class Call> auto call(Call call) const {
    try {
      return call(*control_);
    } catch (const Error&) {
      session_.failure_reported_ = true;
      throw;
    }
  }
  Control* operator->() const { return control_; }

 private:
  Session& session_;
  Control* control_ = nullptr;
};

void Session::require_joined() const {
  std::lock_guard lock(mutex_);
  require_open();
  require(ErrorKind::peer, !left_ranks_,
          "this world has left the other ranks and has not joined them again: reset it, or restart the job");
}

namespace {

// Data threads execute stages in an order that differs between ranks.
void require_outside_of_stages(const OpDescription& op) {
  require(ErrorKind::user, !data::in_stage(),
          "a function of a data set must not use values on the devices of several "
          "ranks (",
          op.what, "); compute with host arrays there, or in the loop that reads the data set");
}

}  // namespace

std::uint64_t Session::begin_op(const OpDescription& op) {
  const ControlGuard guard(*this);
  if (guard) require_outside_of_stages(op);
  ++ops_;
  require_joined();
  if (!guard) return 0;
  return guard.call([&](Control& control) { return control.begin(op); });
}

namespace {

struct ScopedCount {
  explicit ScopedCount(std::atomic<int>& count) : count(count) { ++count; }
  ~ScopedCount() { --count; }
  ScopedCount(const ScopedCount&) = delete;
  ScopedCount& operator=(const ScopedCount&) = delete;
  std::atomic<int>& count;
};

}  // namespace

void Session::await_op(std::uint64_t op) {
  const ControlGuard guard(*this);
  if (!guard) return;
  const ScopedCount awaiting(awaiting_threads_);
  guard.call([&](Control& control) { control.await_begun(op, options_.while_waiting); });
}

std::variant<std::uint64_t, Refusal> Session::request_op(const OpDescription& op) {
  const ControlGuard guard(*this);
  if (guard) require_outside_of_stages(op);
  ++ops_;
  require_joined();
  if (!guard) return std::uint64_t{0};
  const ScopedCount awaiting(awaiting_threads_);
  return guard.call([&](Control& control) { return control.request(op, options_.while_waiting); });
}

Launch Session::launch_remote(std::uint64_t op) {
  ++ops_;
  auto record = std::make_shared<LaunchRecord>();
  record->session = this;
  record->op = op;
  record->remote_only = record->ended = true;
  const ControlGuard guard(*this);
  {
    std::unique_lock lock(mutex_);
    require_open();
    throw_failure(lock);
    launches_->drop_finished_remote();
    record->over = !guard;
    launches_->add(record);
  }
  if (guard) guard->end(op, {}, {});
  return {std::move(record), std::make_shared<Launch::DeviceValues>()};
}

// Reports that the launch is poisoned on this rank. Its garbage results are not sent to other ranks before all ranks
// have reported this (poison_launches).
void Session::invalidate(std::uint64_t op) {
  if (const ControlGuard guard(*this); guard) guard->invalidate(op);
}

void Session::fail_ranks(const Error& error) {
  if (const ControlGuard guard(*this); guard) guard->fail(error);
}

std::optional<std::pair<int, int>> Session::differing_ranks(std::uint64_t op) {
  const ControlGuard guard(*this);
  return guard ? guard->differing_ranks(op) : std::nullopt;
}

namespace {

// Returns the text to append to the error of a broken link: the wait or the call of this rank. The error of a hang
// already contains this text.
std::string wait_text_of(int rank, const Error& error, const RankState& state) {
  if (error.kind != ErrorKind::peer) return {};
  if (state.waits.empty())
    return state.current_call.empty() ? "" : cat("\n  rank ", rank, " was inside ", state.current_call);
  return cat("\n  rank ", rank, " waited for ", state.first_wait()->text());
}

// The error of a broken link names the peer but not the cause. Returns `own` with `first` in front, which is the first
// error of any rank and may name the cause.
Error with_cause(const Error& own, const Error& first) {
  const std::string text = own.what();
  if (own.kind != ErrorKind::peer || text.find(first.what()) != text.npos) return own;
  return {first.kind, cat(first.what(), "\n  here: ", text), first.where.empty() ? own.where : first.where};
}

}  // namespace

// Running launches are aborted with this error, because the progress of the other ranks is unknown. Launches that have
// ended on this rank, but not on all ranks, fail with it too.
void Session::on_rank_failure(const Error& error, std::optional<int> lost) {
  const RankState rank_state = state(true, 0.2);
  record_flight(error, rank_state);
  {
    std::lock_guard lock(mutex_);
    failures_.set_rank_failure(wait_text_of(options_.peers->rank(), error, rank_state));
    abort_launches(error);  // the first error of any rank
    for (const auto& record : launches_->records()) {
      if (record->over || !record->ended) continue;
      if (!record->error)
        record->error =
            Error(error.kind, cat("launch ", record->ticket, ": ", error.what(), failures_.wait_text()), error.where);
      else record->error = with_cause(*record->error, error);
      record->over = true;
    }
    over_.notify_all();
  }
  options_.peers->cancel_waits(error.what(), lost);
}

}  // namespace karez::runtime
