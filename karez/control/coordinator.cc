// Compares and counts messages by op and by round.
#include "karez/control/coordinator.h"

#include <algorithm>
#include <cmath>

#include "karez/base/text.h"
#include "karez/runtime/current_error.h"

namespace karez::control {
namespace {

// Returns the name of the first input that differs.
std::string differing_input(const InputHashes& a, const InputHashes& b) {
  const auto at = static_cast<std::size_t>(std::mismatch(a.values.begin(), a.values.end(), b.values.begin()).first -
                                           a.values.begin());
  return at + 1 < InputHashes::capacity
             ? cat("arg", at)
             : cat("arg", at, " or a later one, or a number that the program sets between calls");
}

ControlMessage make_refusal(std::uint64_t op, std::uint32_t round, const Refusal& refusal) {
  ControlMessage out;
  out.kind = ControlMessage::Kind::refused;
  out.op = op;
  out.round = round;
  out.reason = refusal.reason;
  std::copy(refusal.ranks, refusal.ranks + 2, out.ranks);
  out.text = refusal.text;
  return out;
}

}  // namespace

Coordinator::Outcome Coordinator::take(int rank, const ControlMessage& message, Clock::time_point now) {
  last_message_at_ = now;
  switch (message.kind) {
    case ControlMessage::Kind::begun: return take_begun(rank, message);
    case ControlMessage::Kind::ended: return take_ended(rank, message);
    case ControlMessage::Kind::requested: return take_requested(rank, message, now);
    case ControlMessage::Kind::withdrawn: return take_withdrawn(rank, message);
    case ControlMessage::Kind::invalidated: return take_invalidated(message);
    default: return {};
  }
}

Coordinator::Outcome Coordinator::take_begun(int rank, const ControlMessage& message) {
  Outcome out;
  Op& op = ops_[message.op];
  if (!op.begun_as) {
    op.begun_as = Request{rank, message.hash, message.text};
    op.inputs = message.inputs;
    // A round that was refused before keeps its answer for the ranks that have not requested yet: they must not learn
    // of an op that another rank began after that answer.
    for (auto& [index, round] : op.rounds)
      if (!round.refusal) refuse(message.op, round, index, {Refusal::Reason::other, {-1, rank}, message.text}, out);
  }
  const Request& first = *op.begun_as;
  const int low = std::min(rank, first.rank), high = std::max(rank, first.rank);
  if (first.hash != message.hash || first.what != message.text) {
    const bool swap = rank < first.rank;
    out.mismatch.emplace(Error(ErrorKind::peer, cat("the ranks do not run the same program: rank ", low, " reaches ",
                                                    swap ? message.text : first.what, ", but rank ", high, " reaches ",
                                                    swap ? first.what : message.text)),
                         OpMismatch{message.op, {low, high}});
    return out;
  }
  if (op.inputs != message.inputs) {
    out.mismatch.emplace(
        Error(ErrorKind::peer,
              cat(first.what, ": ranks ", low, " and ", high,
                  " pass different arguments: ", differing_input(op.inputs, message.inputs),
                  "; an array must be complete on every rank, unless ", "local(array) marks it as this rank's part")),
        OpMismatch{message.op, {low, high}});
    return out;
  }
  op.sum += message.sum;
  op.awaited |= message.awaited;
  if (++op.begun < ranks_) return out;
  if (op.sum != 0) {
    out.mismatch.emplace(
        Error(ErrorKind::peer, cat(first.what, " do not match: two ranks disagree about the messages between them")),
        OpMismatch{message.op, {-1, 0}});
    return out;
  }
  if (op.awaited) out.begun = message.op;
  last_op_ = std::move(op.begun_as->what);
  if (op.awaited) ops_.erase(message.op);
  return out;
}

// Refuses the requests of this round. A request of the round that arrives later is refused on its arrival.
void Coordinator::refuse(std::uint64_t number, Round& round, std::uint32_t index, const Refusal& refusal,
                         Outcome& out) {
  round.refusal = refusal;
  for (int rank : round.waiting_ranks) {
    Refusal answer = refusal;
    answer.ranks[0] = rank;
    out.answers.emplace_back(rank, make_refusal(number, index, answer));
    --pending_requests_;
  }
  round.waiting_ranks.clear();
}

Coordinator::Outcome Coordinator::take_requested(int rank, const ControlMessage& message, Clock::time_point now) {
  Outcome out;
  Op& op = ops_[message.op];
  const auto answer = [&](const Refusal& refusal, int other) {
    out.answers.emplace_back(rank,
                             make_refusal(message.op, message.round, {refusal.reason, {rank, other}, refusal.text}));
  };
  if (op.begun_as && !op.rounds.contains(message.round)) {
    answer({Refusal::Reason::other, {}, op.begun_as->what}, op.begun_as->rank);
    return out;
  }
  Round& round = op.rounds[message.round];
  if (round.requests++ == 0) round = {{rank, message.hash, message.text}, {}, {}, 1, false, now};
  if (round.first.hash != message.hash || round.first.what != message.text) {
    answer({Refusal::Reason::other, {}, round.first.what}, round.first.rank);
    if (!round.refusal)
      refuse(message.op, round, message.round, {Refusal::Reason::other, {-1, rank}, message.text}, out);
  } else if (round.refusal) {
    answer(*round.refusal, round.refusal->ranks[1]);
  } else {
    round.waiting_ranks.push_back(rank);
    ++pending_requests_;
  }
  if (round.requests < ranks_) return out;
  if (round.refusal) {
    op.rounds.erase(message.round);
    return out;
  }
  pending_requests_ -= ranks_;
  out.begun = message.op;
  last_op_ = std::move(round.first.what);
  op.rounds.clear();
  if (message.awaited) ops_.erase(message.op);
  return out;
}

// The other ranks continue to wait, and this rank may repeat the request.
Coordinator::Outcome Coordinator::take_withdrawn(int rank, const ControlMessage& message) {
  Outcome out;
  const auto op = ops_.find(message.op);
  if (op == ops_.end()) return out;  // all ranks had requested the op, so the answer is on its way
  const auto round = op->second.rounds.find(message.round);
  if (round == op->second.rounds.end()) return out;  // already answered
  if (std::erase(round->second.waiting_ranks, rank) == 0) return out;
  --pending_requests_;
  if (--round->second.requests == 0) op->second.rounds.erase(round);
  out.answers.emplace_back(rank,
                           make_refusal(message.op, message.round, {Refusal::Reason::withdrawn, {rank, rank}, {}}));
  return out;
}

Coordinator::Outcome Coordinator::take_ended(int rank, const ControlMessage& message) {
  Outcome out;
  Op& op = ops_[message.op];
  op.rank_time.resize(static_cast<std::size_t>(ranks_));
  op.rank_time[static_cast<std::size_t>(rank)] = message.rank_time;
  if (message.has_error && (op.failed_rank < 0 || rank < op.failed_rank))
    op.failed_rank = rank, op.end.error = message.failure();
  op.end.skipped |= message.skipped;
  op.end.has_written |= message.has_written;
  if (++op.ended < ranks_) return out;
  out.end = op.end;
  if (op.end.error)
    out.end.error =
        Error(op.end.error->kind, cat("rank ", op.failed_rank, ": ", op.end.error->what()), op.end.error->where);
  if (op.end.has_written && (op.end.error || op.end.skipped)) {
    const std::string reason =
        out.end.error ? out.end.error->what() : "a launch did not run on all ranks, because an earlier launch failed";
    out.torn = Error(out.end.error ? out.end.error->kind : ErrorKind::peer, cat(reason, torn_text()),
                     out.end.error ? out.end.error->where : "");
  }
  const bool all_work =
      std::none_of(op.rank_time.begin(), op.rank_time.end(), [](const RankTime& spent) { return spent.work == 0; });
  if (all_work) out.slow = straggler_detector_.launch(op.rank_time);
  ops_.erase(message.op);
  out.ended = message.op;
  return out;
}

Coordinator::Outcome Coordinator::take_invalidated(const ControlMessage& message) {
  Outcome out;
  const int reports = ++invalidated_[message.op];
  if (reports == 1) out.invalidated = {message.op, false};
  if (reports < ranks_) return out;
  invalidated_.erase(message.op);
  out.invalidated = {message.op, true};
  return out;
}

std::string Coordinator::missing_ranks_text(const Round& round, Clock::time_point now) const {
  std::vector<int> missing;
  for (int rank = 0; rank < ranks_; ++rank)
    if (std::find(round.waiting_ranks.begin(), round.waiting_ranks.end(), rank) == round.waiting_ranks.end())
      missing.push_back(rank);
  const std::size_t shown = std::min<std::size_t>(missing.size(), 8);
  const std::vector<int> first(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(shown));
  const double seconds =
      std::round(10 * std::chrono::duration<double>(now - std::max(round.since, last_message_at_)).count()) / 10;
  return cat(missing.size() == 1 ? "rank " : "ranks ", join(first, ", "),
             missing.size() > shown ? cat(" and ", missing.size() - shown, " more") : "",
             missing.size() == 1 ? " has" : " have", " not reached it for ", seconds, " s",
             last_op_.empty() ? std::string() : cat(", nor any other op after ", last_op_));
}

// Warns only about requests of the first unfinished op. The requests of later ops may wait because ranks are still busy
// with it.
Coordinator::Outcome Coordinator::check(Clock::time_point now) {
  Outcome out;
  for (auto at = ops_.begin(); at != ops_.end() && pending_requests_ > 0; ++at) {
    Op& op = at->second;
    const bool is_first = at == ops_.begin();
    for (auto& [index, round] : op.rounds) {
      if (!is_first || round.waiting_ranks.empty() || now - std::max(round.since, last_message_at_) < warn_after_)
        continue;
      if (!std::exchange(round.warned, true))
        out.warnings.push_back(cat(round.first.what, ": ", missing_ranks_text(round, now), "; other ranks wait"));
    }
  }
  return out;
}

}  // namespace karez::control
