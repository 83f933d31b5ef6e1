// Implements the agreement policy. Its state is the number of the next op, the pending request and the first failure.
#include "karez/control/agreement_policy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "karez/base/text.h"

namespace karez::control {
namespace {

constexpr std::chrono::milliseconds cause_timeout{500}, check_period{100};

// Returns a rank's failure as the other ranks receive it: an error of kind peer that names the rank. Errors of kind
// peer or hang stay unchanged.
Error as_peer_failure(int rank, const Error& error) {
  if (error.kind == ErrorKind::peer || error.kind == ErrorKind::hang) return error;
  return {ErrorKind::peer, cat("rank ", rank, ": ", error.what()), error.where};
}

ControlMessage make_message(ControlMessage::Kind kind, std::uint64_t op) {
  ControlMessage out;
  out.kind = kind;
  out.op = op;
  return out;
}

ControlMessage make_message(ControlMessage::Kind kind, std::uint64_t number, const OpDescription& op) {
  ControlMessage out = make_message(kind, number);
  out.hash = op.hash;
  out.text = std::string(op.what.substr(0, ControlMessage::max_text));
  out.sum = op.sum;
  out.inputs = op.inputs;
  out.awaited = op.is_barrier;
  return out;
}

}  // namespace

AgreementPolicy::AgreementPolicy(int rank, int ranks, std::chrono::duration<double> warn_after,
                                 std::function<std::string(int)> name)
    : rank_(rank),
      ranks_(ranks),
      name_(std::move(name)),
      coordinator_(ranks, warn_after),
      goodbye_received_(static_cast<std::size_t>(ranks)) {}

void AgreementPolicy::throw_failure() const {
  if (failure_) throw Error(*failure_);
}

bool AgreementPolicy::is_lost(int rank, Clock::time_point now) const {
  return failure_ && (rank == lost_ || now > failed_at_ + std::chrono::seconds(1));
}

// --- Ops of this rank

AgreementPolicy::BegunOp AgreementPolicy::begin(const OpDescription& op) {
  BegunOp out{next_++, {}};
  round_ = 0;
  if (mismatch_ && mismatch_->op == out.op) return out;  // await_begun throws the mismatch
  throw_failure();
  out.message = make_message(ControlMessage::Kind::begun, out.op, op);
  return out;
}

std::optional<ControlMessage> AgreementPolicy::invalidate(std::uint64_t op) {
  if (!invalidated_.insert(op).second) return std::nullopt;
  return make_message(ControlMessage::Kind::invalidated, op);
}

ControlMessage AgreementPolicy::end(std::uint64_t op, const RankTime& spent, const LaunchEnd& end) {
  ControlMessage out = ControlMessage::of_end(op, end);
  out.rank_time = spent;
  return out;
}

ControlMessage AgreementPolicy::request(const OpDescription& op) {
  throw_failure();
  requesting_ = true;
  refusal_.reset();
  ControlMessage out = make_message(ControlMessage::Kind::requested, next_, op);
  out.round = round_;
  return out;
}

std::optional<Refusal> AgreementPolicy::end_request(const ControlMessage& request) {
  requesting_ = false;
  std::optional<Refusal> refusal = std::exchange(refusal_, std::nullopt);
  if (has_begun(request.op)) {
    ++next_;
    round_ = 0;
    return std::nullopt;
  }
  if (refusal && refusal->reason != Refusal::Reason::withdrawn) ++round_;
  return refusal;
}

// --- Failures

// Returns false if there was an earlier failure.
bool AgreementPolicy::set_failure(const Error& error, std::optional<int> lost,
                                  const std::optional<OpMismatch>& mismatch, Clock::time_point now, Decision& out) {
  if (failure_) return false;
  failure_ = error;
  failed_at_ = now;
  lost_ = lost;
  mismatch_ = mismatch;
  out.changed = true;
  out.actions.push_back(ReportFailure{error, lost});
  return true;
}

AgreementPolicy::Decision AgreementPolicy::fail(const Error& error, std::optional<int> lost, Clock::time_point now) {
  if (error.kind == ErrorKind::peer && !lost) return suspect(error, now);
  Decision out;
  if (!set_failure(error, lost, {}, now, out)) return out;  // the earlier failure has been reported to all ranks
  if (rank_ == 0) out.actions.push_back(Send{Send::all, ControlMessage::of_failure(as_peer_failure(0, error), lost)});
  else out.actions.push_back(Send{0, ControlMessage::of_failure(error, lost)});
  return out;
}

AgreementPolicy::Decision AgreementPolicy::suspect(const Error& error, Clock::time_point now) {
  Decision out;
  if (failure_ || suspicion_) return out;
  suspicion_ = error;
  suspected_at_ = now;
  if (rank_ != 0) out.actions.push_back(Send{0, ControlMessage::of_failure(error, {})});
  out.check_due = true;
  return out;
}

AgreementPolicy::Decision AgreementPolicy::on_broken_link(int rank, const Error& error, Clock::time_point now) {
  if (goodbye_received_[static_cast<std::size_t>(rank)]) return {};
  return fail(error, rank, now);
}

std::optional<AgreementPolicy::Clock::time_point> AgreementPolicy::next_check(Clock::time_point now) const {
  if (failure_) return std::nullopt;
  if (suspicion_) return suspected_at_ + cause_timeout;
  if (coordinator_.has_pending_requests()) return now + check_period;
  return std::nullopt;
}

AgreementPolicy::Decision AgreementPolicy::check(Clock::time_point now) {
  Decision out;
  if (failure_) return out;
  if (suspicion_ && now >= suspected_at_ + cause_timeout) {
    set_failure(*suspicion_, {}, {}, now, out);
    if (rank_ == 0)
      out.actions.push_back(Send{Send::all, ControlMessage::of_failure(as_peer_failure(0, *suspicion_), {})});
  } else if (coordinator_.has_pending_requests()) {
    execute(coordinator_.check(now), now, out);
  }
  return out;
}

// --- Messages from other ranks; on rank 0 also its own

AgreementPolicy::Decision AgreementPolicy::take(int rank, const ControlMessage& message, Clock::time_point now) {
  Decision out;
  if (message.kind == ControlMessage::Kind::failed) return take_failed(rank, message, now);
  if (message.kind == ControlMessage::Kind::goodbye) {
    goodbye_received_[static_cast<std::size_t>(rank)] = true;
  } else if (rank_ == 0) {
    const Coordinator::Outcome outcome = coordinator_.take(rank, message, now);
    if (!failure_) execute(outcome, now, out);
  } else if (message.kind == ControlMessage::Kind::begun) {
    set_begun(message.op, out);
  } else if (message.kind == ControlMessage::Kind::ended) {
    out.actions.push_back(ReportEnd{message.op, message.end()});
  } else if (message.kind == ControlMessage::Kind::invalidated) {
    out.actions.push_back(ReportInvalid{message.op, message.awaited});
  } else if (message.kind == ControlMessage::Kind::refused) {
    take_refusal(message, out);
  }
  return out;
}

AgreementPolicy::Decision AgreementPolicy::take_failed(int rank, const ControlMessage& message, Clock::time_point now) {
  const Error reported = message.failure(), error = rank_ == 0 ? as_peer_failure(rank, reported) : reported;
  std::optional<OpMismatch> mismatch;
  if (message.ranks[0] != message.ranks[1]) mismatch = {message.op, {message.ranks[0], message.ranks[1]}};
  const std::optional<int> lost =
      message.lost >= 0 && message.lost < ranks_ ? std::optional<int>(message.lost) : std::nullopt;
  if (rank_ == 0 && reported.kind == ErrorKind::peer && !lost && !mismatch) return suspect(error, now);
  Decision out;
  if (set_failure(error, lost, mismatch, now, out) && rank_ == 0)
    out.actions.push_back(Send{Send::all, ControlMessage::of_failure(error, lost)});
  return out;
}

// On rank 0: sends the coordinator's decisions to the ranks concerned.
void AgreementPolicy::execute(const Coordinator::Outcome& outcome, Clock::time_point now, Decision& out) {
  if (outcome.mismatch) {
    const auto& [error, mismatch] = *outcome.mismatch;
    if (!set_failure(error, {}, mismatch, now, out)) return;
    ControlMessage message = ControlMessage::of_failure(error, {});
    message.op = mismatch.op;
    std::copy(mismatch.ranks, mismatch.ranks + 2, message.ranks);
    out.actions.push_back(Send{Send::all, std::move(message)});
    return;
  }
  for (const auto& [rank, message] : outcome.answers) {
    if (rank == 0) take_refusal(message, out);
    else out.actions.push_back(Send{rank, message});
  }
  if (outcome.begun) {
    set_begun(*outcome.begun, out);
    out.actions.push_back(Send{Send::all, make_message(ControlMessage::Kind::begun, *outcome.begun)});
  }
  for (const std::string& warning : outcome.warnings) out.actions.push_back(Warn{warning});
  for (const SlowRank& slow : outcome.slow) {
    auto milliseconds = [](double seconds) { return cat(std::round(seconds * 1e4) / 10, " ms"); };
    out.actions.push_back(
        Warn{cat(name_(slow.rank), " is slow: its ", name_of(slow.phase), " took ", milliseconds(slow.seconds),
                 " on average in the last ", StragglerDetector::consecutive_launches,
                 " launches; the median of the other ranks is ", milliseconds(slow.others_median))});
  }
  if (outcome.invalidated) {
    const auto [op, on_all_ranks] = *outcome.invalidated;
    ControlMessage message = make_message(ControlMessage::Kind::invalidated, op);
    message.awaited = on_all_ranks;
    out.actions.push_back(Send{Send::all, std::move(message)});
    out.actions.push_back(ReportInvalid{op, on_all_ranks});
  }
  if (outcome.torn && set_failure(*outcome.torn, {}, {}, now, out))
    out.actions.push_back(Send{Send::all, ControlMessage::of_failure(*outcome.torn, {})});
  if (!outcome.ended || outcome.torn) return;
  out.actions.push_back(Send{Send::all, ControlMessage::of_end(*outcome.ended, outcome.end)});
  out.actions.push_back(ReportEnd{*outcome.ended, outcome.end});
}

void AgreementPolicy::set_begun(std::uint64_t op, Decision& out) {
  begun_ = std::max(begun_, op);
  out.changed = true;
}

void AgreementPolicy::take_refusal(const ControlMessage& message, Decision& out) {
  if (!requesting_ || message.op != next_ || message.round != round_) return;
  refusal_ = Refusal{message.reason, {message.ranks[0], message.ranks[1]}, message.text};
  out.changed = true;
}

}  // namespace karez::control
