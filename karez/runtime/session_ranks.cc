// The functions of a session with several ranks: ops of all ranks, launches that end on all ranks, and names of links.
#include <algorithm>

#include "karez/base/log.h"
#include "karez/comm/peers.h"
#include "karez/runtime/agreement.h"
#include "karez/runtime/heartbeat.h"
#include "karez/runtime/links.h"
#include "karez/runtime/loaded_plan.h"
#include "karez/runtime/session.h"
#include "karez/runtime/worker.h"

namespace karez::runtime {

// Launches of different plans run concurrently, in an order that may differ between ranks, so no two plans share a
// link. Link names contain the number of the plan within its program, which is equal on all ranks, because they load
// plans in one order.
std::string Session::links_of(const Plan& plan) {
  require(plan.rank == options_.peers->rank(), "plan '", plan.name, "' is for rank ", plan.rank,
          ", not for this process (rank ", options_.peers->rank(), ")");
  return cat("program ", plan.program_hash, " ", plans_of_program_[plan.program_hash]++, "\n");
}

void Session::join_ranks() {
  comm::Peers& peers = *options_.peers;
  const auto open = [&peers](int rank, comm::Notifier& notifier) {
    return peers.control(rank).open(hash_text("agreement"), ControlLinks::depth, notifier);
  };
  agreement_ = std::make_unique<Agreement>(
      Agreement::Options{peers.rank(), peers.ranks(), open,
                         std::chrono::duration<double>(options_.hang_timeouts.peer_timeout)},
      Agreement::Callbacks{[this](std::uint64_t op, const LaunchEnd& end) { ended(op, end); },
                           [this](std::uint64_t op, bool on_all_ranks) { invalidated(op, on_all_ranks); },
                           [this](const Error& error, std::optional<int> lost) { on_rank_failure(error, lost); },
                           [&peers](int rank) { return peers.name(rank); }});
  heartbeat_ =
      std::make_unique<Heartbeat>(*options_.peers, options_.hang_timeouts,
                                  Heartbeat::Callbacks{[this](bool waits, double most) { return state(waits, most); },
                                                       [this](const HangDiagnosis& diagnosis) { on_hang(diagnosis); }});
  std::lock_guard lock(mutex_);
  left_ranks_ = false;
}

void Session::leave_ranks() {
  {
    std::lock_guard lock(mutex_);
    left_ranks_ = true;
  }
  heartbeat_.reset();
  std::unique_lock lock(mutex_);
  over_.wait(lock, [&] { return in_agreement_ == 0; });
  lock.unlock();
  agreement_.reset();
  plans_of_program_.clear();
  lock.lock();  // until now the agreement may have reported the failure
  invalidated_.clear();
  failure_.reset();
  data_failure_.reset();
  failed_ticket_ = 0;
  aborted_ = false;
  flight_recorded_ = false;
}

std::vector<Exchange> Session::exchanges(const Plan& plan) const {
  if (!options_.on_plan) return exchanges_of(plan);
  Plan told = plan;
  options_.on_plan(told);
  return exchanges_of(told);
}

// Keeps the agreement alive while a thread of the program uses it.
class Session::AgreementGuard {
 public:
  explicit AgreementGuard(Session& session) : session_(session) {
    std::lock_guard lock(session_.mutex_);
    agreement_ = session_.agreement_.get();
    ++session_.in_agreement_;
  }
  ~AgreementGuard() {
    std::lock_guard lock(session_.mutex_);
    --session_.in_agreement_;
    session_.over_.notify_all();
  }
  AgreementGuard(const AgreementGuard&) = delete;
  AgreementGuard& operator=(const AgreementGuard&) = delete;
  explicit operator bool() const { return agreement_ != nullptr; }
  // An exception from the call is a failure that is reported to the program.
  template <class Call> auto call(Call call) const {
    try {
      return call(*agreement_);
    } catch (const Error&) {
      session_.failure_reported_ = true;
      throw;
    }
  }
  Agreement* operator->() const { return agreement_; }

 private:
  Session& session_;
  Agreement* agreement_ = nullptr;
};

void Session::require_joined() const {
  std::lock_guard lock(mutex_);
  require_open();
  require(ErrorKind::peer, !left_ranks_,
          "this world has left the other ranks and has not joined them again: reset it, or restart the job");
}

std::uint64_t Session::begin_op(const OpDescription& op) {
  ++ops_;
  const AgreementGuard agreement(*this);
  require_joined();
  if (!agreement) return 0;
  return agreement.call([&](Agreement& all) { return all.begin(op); });
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
  const AgreementGuard agreement(*this);
  if (!agreement) return;
  const ScopedCount awaiting(awaiting_threads_);
  agreement.call([&](Agreement& all) { all.await_begun(op, options_.while_waiting); });
}

std::variant<std::uint64_t, Refusal> Session::ask_op(const OpDescription& op) {
  ++ops_;
  const AgreementGuard agreement(*this);
  require_joined();
  if (!agreement) return std::uint64_t{0};
  const ScopedCount awaiting(awaiting_threads_);
  return agreement.call([&](Agreement& all) { return all.ask(op, options_.while_waiting); });
}

Launch Session::launch_remote(std::uint64_t op) {
  ++ops_;
  auto record = std::make_shared<LaunchRecord>();
  record->session = this;
  record->op = op;
  record->remote_only = record->ended = true;
  const AgreementGuard agreement(*this);
  {
    std::unique_lock lock(mutex_);
    require_open();
    throw_failure(lock);
    std::erase_if(launches_, [](const auto& other) { return other->remote_only && other->over; });
    record->index = ++launched_;
    record->ticket = next_ticket_++;
    record->over = !agreement;
    launches_.push_back(record);
  }
  if (agreement) agreement->end(op);
  return {std::move(record), std::make_shared<Launch::DeviceValues>()};
}
// Garbage results are not sent to other ranks until all have poisoned their parts (poison_launches).
void Session::invalidate(std::uint64_t op) {
  if (const AgreementGuard agreement(*this); agreement) agreement->invalidate(op);
}
void Session::fail_ranks(const Error& error) {
  if (const AgreementGuard agreement(*this); agreement) agreement->fail(error);
}
std::optional<std::pair<int, int>> Session::differing_ranks(std::uint64_t op) {
  const AgreementGuard agreement(*this);
  const auto found = agreement ? agreement->mismatch() : std::nullopt;
  if (!found || found->op != op) return std::nullopt;
  return std::pair(found->ranks[0], found->ranks[1]);
}

namespace {

// Text to append to the error of a broken link: the wait or call of this rank. The error of a hang contains it already.
std::string wait_text_of(int rank, const Error& error, const RankState& state) {
  if (error.kind != ErrorKind::peer) return {};
  if (state.waits.empty())
    return state.current_call.empty() ? "" : cat("\n  rank ", rank, " was inside ", state.current_call);
  const RankWait& wait = state.waits.front();
  return cat("\n  rank ", rank, " waited for ", wait.rank == RankWait::others ? "the others" : cat("rank ", wait.rank),
             ": ", wait.what);
}

// The error of a broken link names the peer but not the cause; the first error of all ranks may name it.
Error with_cause(const Error& here, const Error& first) {
  const std::string text = here.what();
  if (here.kind != ErrorKind::peer || text.find(first.what()) != text.npos) return here;
  return {first.kind, cat(first.what(), "\n  here: ", text), first.where.empty() ? here.where : first.where};
}

}  // namespace

// The error of a launch that ended here after the session was aborted. Its own error, if any, follows the first error
// of all ranks.
Error Session::abort_error(const LaunchRecord& record) const {
  const std::string first = failure_->what(), here = record.error ? record.error->what() : first;
  const std::string more = here.find(first) == here.npos ? cat("\n  here: ", here) : wait_text_;
  return {failure_->kind, cat("launch ", record.ticket, ": ", first, more), failure_->where};
}

// Running launches are abandoned, because the progress of the other ranks is unknown, and end here with this error;
// launches that have ended here have failed on another rank.
void Session::on_rank_failure(const Error& error, std::optional<int> lost) {
  const RankState before = state(true, 0.2);
  record_flight(error, before);
  {
    std::lock_guard lock(mutex_);
    wait_text_ = wait_text_of(options_.peers->rank(), error, before);
    aborted_ = true;
    abort_launches(error);  // the first of all ranks
    for (auto& record : launches_) {
      if (record->over || !record->ended) continue;
      if (!record->error)
        record->error = Error(error.kind, cat("launch ", record->ticket, ": ", error.what(), wait_text_), error.where);
      else record->error = with_cause(*record->error, error);
      record->over = true;
    }
    over_.notify_all();
  }
  options_.peers->cancel_waits(error.what(), lost);
}

}  // namespace karez::runtime
