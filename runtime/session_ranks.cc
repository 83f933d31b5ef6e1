// A session as one of several ranks: ops that all do alike, launches that end for all, and links that are told apart.
#include <algorithm>

#include "base/log.h"
#include "comm/peers.h"
#include "runtime/agreement.h"
#include "runtime/heart.h"
#include "runtime/links.h"
#include "runtime/loaded.h"
#include "runtime/session.h"
#include "runtime/worker.h"

namespace karez::runtime {

// Launches of different plans run beside each other, in an order that is each rank's own: no two share a link. What tells theirs apart counts the
// plans of a program, which all ranks load in one order.
std::string Session::links_of(const Plan& plan) {
  require(plan.rank == options_.peers->rank(), "plan '", plan.name, "' is rank ", plan.rank, "'s, not rank ", options_.peers->rank(), "'s");
  return cat("program ", plan.program_hash, " ", linked_[plan.program_hash]++, "\n");
}

void Session::join_ranks() {
  agreement_ = std::make_unique<Agreement>(
      *options_.peers,
      Agreement::Tell{[this](std::uint64_t op) { ended(op); }, [this](const Error& error, std::optional<int> lost) { break_off(error, lost); }});
  heart_ = std::make_unique<Heart>(
      *options_.peers, options_.watch,
      Heart::Tell{[this](bool waits, double most) { return state(waits, most); }, [this](const WatchFinding& finding) { found(finding); }});
  std::lock_guard lock(mutex_);
  apart_ = false;
}

void Session::leave_ranks() {
  {
    std::lock_guard lock(mutex_);
    apart_ = true;
  }
  heart_.reset();
  agreement_.reset();
  linked_.clear();
  std::lock_guard lock(mutex_);  // the agreement may have told of the failure until now
  failure_.reset();
  failed_ticket_ = 0;
  broken_off_ = false;
  recorded_ = false;
}

std::vector<Exchange> Session::exchanges(const Plan& plan) const {
  if (!options_.plans) return exchanges_of(plan);
  Plan told = plan;
  options_.plans(told);
  return exchanges_of(told);
}

std::uint64_t Session::begin_op(std::uint64_t hash, const std::string& what, std::uint64_t sum) {
  ++ops_;
  require(ErrorKind::peer, !apart_, "this world has left its other ranks, and they have not come together again: reset it, or start the job anew");
  return agreement_ == nullptr ? 0 : agreement_->begin(hash, what, sum);
}
void Session::await_op(std::uint64_t op) {
  if (agreement_ == nullptr) return;
  struct Awaiting {
    std::atomic<int>& count;
    ~Awaiting() { --count; }
  } awaiting{awaiting_};
  ++awaiting_;
  agreement_->await_begun(op, options_.while_waiting);
}
// Hearts beat meanwhile, so that a rank that stops before it comes here is named; nobody can throw it any more.
void Session::end_world() {
  const std::uint64_t op = begin_op(0, "the end of its world");
  end_op(op);
  ++awaiting_;
  try {
    agreement_->await_begun(op);
  } catch (const Error& error) { note(base::LogLevel::warning, "at the end of its world: ", error.what()); }
  --awaiting_;
}

void Session::end_op(std::uint64_t op) {
  ++ops_;
  if (agreement_ != nullptr) agreement_->end(op);
}
std::optional<std::pair<int, int>> Session::differing_ranks(std::uint64_t op) const {
  const auto found = agreement_ == nullptr ? std::nullopt : agreement_->difference();
  if (!found || found->op != op) return std::nullopt;
  return std::pair(found->ranks[0], found->ranks[1]);
}

void Session::ended(std::uint64_t op) {
  std::lock_guard lock(mutex_);
  for (auto& record : launches_)
    if (record->op == op && record->ended) record->over = true;
  if (under_way() == 0) idle_since_ = ticks();
  over_.notify_all();
}

namespace {

// Behind the end of a peer: what this rank waited for, or did. A hang's text has it.
std::string waited_text(int rank, const Error& error, const RankState& state) {
  if (error.kind != ErrorKind::peer) return {};
  if (state.waits.empty()) return state.inside.empty() ? "" : cat("\n  rank ", rank, " was inside ", state.inside);
  const RankWait& wait = state.waits.front();
  return cat("\n  rank ", rank, " waited for ", wait.whom == RankWait::others ? "the others" : cat("rank ", wait.whom), ": ", wait.what);
}

// A link that broke here tells who ended, not why; what all ranks know as the first error may say more.
Error with_cause(const Error& here, const Error& first) {
  const std::string text = here.what();
  if (here.kind != ErrorKind::peer || text.find(first.what()) != text.npos) return here;
  return {first.kind, cat(first.what(), "\n  here: ", text), first.where.empty() ? here.where : first.where};
}

}  // namespace

// Of a launch that ended here after the session broke off. Its own error, if it had one, comes behind the first of all ranks.
Error Session::broken_off(const LaunchRecord& record) const {
  const std::string first = failure_->what(), here = record.error ? record.error->what() : first;
  const std::string more = here.find(first) == here.npos ? cat("\n  here: ", here) : waited_;
  return {failure_->kind, cat("launch ", record.ticket, ": ", first, more), failure_->where};
}

// What runs is abandoned, for nobody knows how far the other ranks have come, and ends here with this error; what ended here ended badly elsewhere.
void Session::break_off(const Error& error, std::optional<int> lost) {
  const RankState before = state(true, 0.2);
  record_flight(error, before);
  {
    std::lock_guard lock(mutex_);
    waited_ = waited_text(options_.peers->rank(), error, before);
    broken_off_ = true;
    std::uint64_t first = next_ticket_;
    for (auto& record : launches_) {
      if (record->over || record->loaded == nullptr) continue;
      first = std::min(first, record->ticket);
      if (!record->ended) continue;
      if (!record->error) record->error = Error(error.kind, cat("launch ", record->ticket, ": ", error.what(), waited_), error.where);
      else record->error = with_cause(*record->error, error);
      record->over = true;
    }
    failure_ = error;                                                                        // the first of all ranks
    failed_ticket_ = failed_ticket_ == 0 ? first - 1 : std::min(failed_ticket_, first - 1);  // what has not begun does not begin
    if (!workers_.empty() && !stopping_) {
      breaking_ = std::make_unique<Breaking>();
      breaking_->error = error;
      for (const auto& [number, loaded] : loaded_) breaking_->plans.push_back(loaded);
      breaking_->plans.insert(breaking_->plans.end(), leaving_.begin(), leaving_.end());
      breaking_->mail.what = Mail::What::break_off;
      breaking_->mail.payload = breaking_.get();
      workers_[0]->box().post(&breaking_->mail);  // which knows of what plans launches are under way
    }
    over_.notify_all();
  }
  options_.peers->give_up(error.what(), lost);
}

}  // namespace karez::runtime
