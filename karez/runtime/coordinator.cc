// Comparing and counting, op by op and round by round.
#include "karez/runtime/coordinator.h"

#include <algorithm>
#include <cmath>

#include "karez/base/text.h"
#include "karez/runtime/failure.h"

namespace karez::runtime {
namespace {

// The first that differs.
std::string name_of_input(const InputHashes& a, const InputHashes& b) {
  const auto at = static_cast<std::size_t>(std::mismatch(a.of.begin(), a.of.end(), b.of.begin()).first - a.of.begin());
  return at + 1 < InputHashes::places
             ? cat("arg", at)
             : cat("arg", at, " or a later one, or a number that the program sets between calls");
}

Note refusal_of(std::uint64_t op, std::uint32_t round, const Refusal& refusal) {
  Note out;
  out.kind = Note::Kind::refused;
  out.op = op;
  out.round = round;
  out.why = refusal.why;
  std::copy(refusal.ranks, refusal.ranks + 2, out.ranks);
  out.text = refusal.text;
  return out;
}

}  // namespace

Coordinator::Outcome Coordinator::take(int rank, const Note& note, Clock::time_point now) {
  moved_at_ = now;
  switch (note.kind) {
    case Note::Kind::begun: return take_begun(rank, note);
    case Note::Kind::ended: return take_ended(rank, note);
    case Note::Kind::asked: return take_asked(rank, note, now);
    case Note::Kind::withdrawn: return take_withdrawn(rank, note);
    case Note::Kind::spoiled: return take_spoiled(note);
    default: return {};
  }
}

Coordinator::Outcome Coordinator::take_begun(int rank, const Note& note) {
  Outcome out;
  Op& op = ops_[note.op];
  if (!op.begun_as) {
    op.begun_as = Request{rank, note.hash, note.text};
    op.inputs = note.inputs;
    for (auto& [index, round] : op.rounds)
      refuse(note.op, round, index, {Refusal::Why::other, {-1, rank}, note.text}, out);
    op.rounds.clear();
  }
  const Request& first = *op.begun_as;
  const int low = std::min(rank, first.rank), high = std::max(rank, first.rank);
  if (first.hash != note.hash || first.what != note.text) {
    const bool swap = rank < first.rank;
    out.wrong.emplace(Error(ErrorKind::peer, cat("the ranks do not run the same program: rank ", low, " comes to ",
                                                 swap ? note.text : first.what, ", where rank ", high, " comes to ",
                                                 swap ? first.what : note.text)),
                      Difference{note.op, {low, high}});
    return out;
  }
  if (op.inputs != note.inputs) {
    out.wrong.emplace(Error(ErrorKind::peer,
                            cat(first.what, ": ranks ", low, " and ", high, " give it different arguments: ",
                                name_of_input(op.inputs, note.inputs), "; an array is the whole on every rank, unless ",
                                "local(array) says that it is this rank's part")),
                      Difference{note.op, {low, high}});
    return out;
  }
  op.sum += note.sum;
  op.awaited |= note.awaited;
  if (++op.begun < ranks_) return out;
  if (op.sum != 0) {
    out.wrong.emplace(
        Error(ErrorKind::peer,
              cat(first.what, " do not fit together: two ranks disagree about what they send each other")),
        Difference{note.op, {-1, 0}});
    return out;
  }
  if (op.awaited) out.begun = note.op;
  before_ = std::move(op.begun_as->what);
  if (op.awaited) ops_.erase(note.op);
  return out;
}

// All ranks that wait in this round; one that comes to it later is told then.
void Coordinator::refuse(std::uint64_t number, Round& round, std::uint32_t index, const Refusal& why, Outcome& out) {
  round.refused = why;
  for (int rank : round.asking) {
    Refusal to = why;
    to.ranks[0] = rank;
    out.answers.emplace_back(rank, refusal_of(number, index, to));
    --asking_;
  }
  round.asking.clear();
}

Coordinator::Outcome Coordinator::take_asked(int rank, const Note& note, Clock::time_point now) {
  Outcome out;
  Op& op = ops_[note.op];
  if (op.begun_as) {
    out.answers.emplace_back(
        rank, refusal_of(note.op, note.round, {Refusal::Why::other, {rank, op.begun_as->rank}, op.begun_as->what}));
    return out;
  }
  Round& round = op.rounds[note.round];
  if (round.asked++ == 0) round = {{rank, note.hash, note.text}, {}, {}, 1, false, now};
  const auto answer = [&](const Refusal& why, int other) {
    out.answers.emplace_back(rank, refusal_of(note.op, note.round, {why.why, {rank, other}, why.text}));
  };
  if (round.first.hash != note.hash || round.first.what != note.text) {
    answer({Refusal::Why::other, {}, round.first.what}, round.first.rank);
    if (!round.refused) refuse(note.op, round, note.round, {Refusal::Why::other, {-1, rank}, note.text}, out);
  } else if (round.refused) {
    answer(*round.refused, round.refused->ranks[1]);
  } else {
    round.asking.push_back(rank);
    ++asking_;
  }
  if (round.asked < ranks_) return out;
  if (round.refused) {
    op.rounds.erase(note.round);
    return out;
  }
  asking_ -= ranks_;
  out.begun = note.op;
  before_ = std::move(round.first.what);
  op.rounds.clear();
  if (note.awaited) ops_.erase(note.op);
  return out;
}

// The others go on waiting, and this rank may ask again.
Coordinator::Outcome Coordinator::take_withdrawn(int rank, const Note& note) {
  Outcome out;
  const auto op = ops_.find(note.op);
  if (op == ops_.end()) return out;  // all had asked for it, as the rank will hear
  const auto round = op->second.rounds.find(note.round);
  if (round == op->second.rounds.end()) return out;  // answered likewise
  if (std::erase(round->second.asking, rank) == 0) return out;
  --asking_;
  if (--round->second.asked == 0) op->second.rounds.erase(round);
  out.answers.emplace_back(rank, refusal_of(note.op, note.round, {Refusal::Why::withdrawn, {rank, rank}, {}}));
  return out;
}

Coordinator::Outcome Coordinator::take_ended(int rank, const Note& note) {
  Outcome out;
  Op& op = ops_[note.op];
  op.spent.resize(static_cast<std::size_t>(ranks_));
  op.spent[static_cast<std::size_t>(rank)] = note.spent;
  if (note.has_error && (op.failed < 0 || rank < op.failed)) op.failed = rank, op.end.error = note.failure();
  op.end.skipped |= note.skipped;
  op.end.wrote |= note.wrote;
  if (++op.ended < ranks_) return out;
  out.end = op.end;
  if (op.end.error)
    out.end.error = Error(op.end.error->kind, cat("rank ", op.failed, ": ", op.end.error->what()), op.end.error->where);
  if (op.end.wrote && (op.end.error || op.end.skipped)) {
    const std::string why =
        out.end.error ? out.end.error->what() : "a launch did not run on all ranks, because one before it failed";
    out.torn = Error(out.end.error ? out.end.error->kind : ErrorKind::peer, cat(why, torn_text()),
                     out.end.error ? out.end.error->where : "");
  }
  const bool all_work =
      std::none_of(op.spent.begin(), op.spent.end(), [](const Spent& spent) { return spent.work == 0; });
  if (all_work) out.slow = pace_.launch(op.spent);
  ops_.erase(note.op);
  out.ended = note.op;
  return out;
}

Coordinator::Outcome Coordinator::take_spoiled(const Note& note) {
  Outcome out;
  const int said = ++spoiled_[note.op];
  if (said == 1) out.spoiled = {note.op, false};
  if (said < ranks_) return out;
  spoiled_.erase(note.op);
  out.spoiled = {note.op, true};
  return out;
}

std::string Coordinator::late(const Round& round, Clock::time_point now) const {
  std::vector<int> missing;
  for (int rank = 0; rank < ranks_; ++rank)
    if (std::find(round.asking.begin(), round.asking.end(), rank) == round.asking.end()) missing.push_back(rank);
  const std::size_t shown = std::min<std::size_t>(missing.size(), 8);
  const std::vector<int> first(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(shown));
  const double seconds =
      std::round(10 * std::chrono::duration<double>(now - std::max(round.since, moved_at_)).count()) / 10;
  return cat(missing.size() == 1 ? "rank " : "ranks ", join(first, ", "),
             missing.size() > shown ? cat(" and ", missing.size() - shown, " more") : "",
             missing.size() == 1 ? " has" : " have", " not come to it for ", seconds, " s",
             before_.empty() ? std::string() : cat(", nor to anything else after ", before_));
}

// While an earlier op runs, ranks may be busy with it.
Coordinator::Outcome Coordinator::look(Clock::time_point now) {
  Outcome out;
  for (auto at = ops_.begin(); at != ops_.end() && asking_ > 0; ++at) {
    Op& op = at->second;
    const bool first = at == ops_.begin();
    for (auto& [index, round] : op.rounds) {
      if (!first || round.asking.empty() || now - std::max(round.since, moved_at_) < patience_) continue;
      if (!std::exchange(round.warned, true))
        out.warnings.push_back(cat(round.first.what, ": ", late(round, now), ", and others wait"));
    }
  }
  return out;
}

}  // namespace karez::runtime
