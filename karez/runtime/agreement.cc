// One rank's side of the agreement, and the thread that serves its links.
#include "karez/runtime/agreement.h"

#include <cmath>
#include <exception>

#include "karez/base/log.h"
#include "karez/base/text.h"
#include "karez/comm/time_slice.h"
#include "karez/runtime/failure.h"

namespace karez::runtime {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds longest_goodbye{10};  // to a rank that takes nothing any more
constexpr std::chrono::milliseconds word_of_cause{500}, between_looks{100};

// A rank's own failure as the others hear it: a peer of theirs has failed, however that one did.
Error as_heard(int rank, const Error& error) {
  if (error.kind == ErrorKind::peer || error.kind == ErrorKind::hang) return error;
  return {ErrorKind::peer, cat("rank ", rank, ": ", error.what()), error.where};
}

Note note_of(Note::Kind kind, std::uint64_t op) {
  Note out;
  out.kind = kind;
  out.op = op;
  return out;
}

Note note_of(Note::Kind kind, std::uint64_t number, const OpDescription& op) {
  Note out = note_of(kind, number);
  out.hash = op.hash;
  out.text = std::string(op.what.substr(0, Note::most_text));
  out.sum = op.sum;
  out.inputs = op.inputs;
  out.awaited = op.sets_nothing;
  return out;
}

}  // namespace

Agreement::Agreement(const Place& place, Tell tell)
    : rank_(place.rank),
      ranks_(place.ranks),
      tell_(std::move(tell)),
      coordinator_(place.ranks, place.patience),
      bye_(static_cast<std::size_t>(place.ranks)),
      lines_(place.rank, place.ranks, place.open, [this](int rank) {
        std::lock_guard lock(mutex_);
        return hopeless(rank);
      }) {
  thread_ = std::thread([this] { serve(); });
}

Agreement::~Agreement() {
  lines_.send_to_all(note_of(Note::Kind::bye, 0));
  lines_.flush(Clock::now() + longest_goodbye);  // what was said is to arrive
  stop_ = true;
  lines_.wake();
  thread_.join();
}

void Agreement::throw_failure() const {
  if (failure_ != nullptr) throw Error(*failure_);
}

// A rank that is lost takes no more notes; after a failure the others have a second to take theirs. With the lock.
bool Agreement::hopeless(int rank) const {
  return failure_ != nullptr && (rank == lost_ || Clock::now() > failed_at_ + std::chrono::seconds(1));
}

std::optional<Difference> Agreement::difference() const {
  std::lock_guard lock(mutex_);
  return difference_;
}

// --- what this rank does
// --------------------------------------------------------------------------------------------------------

std::uint64_t Agreement::begin(const OpDescription& op) {
  Note note;
  {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return !asking_ || failure_ != nullptr; });  // whose number is not known before
    note = note_of(Note::Kind::begun, next_++, op);
    round_ = 0;
    if (difference_ && difference_->op == note.op) return note.op;  // whoever awaits it hears what two others began
    throw_failure();
  }
  to_first(note);
  return note.op;
}

void Agreement::await_begun(std::uint64_t op, const std::function<void()>& meanwhile) {
  std::unique_lock lock(mutex_);
  while (!moved_.wait_for(lock, std::chrono::milliseconds(50), [&] { return failure_ != nullptr || begun_ >= op; })) {
    if (!meanwhile) continue;
    lock.unlock();
    meanwhile();
    lock.lock();
  }
  throw_failure();
}

std::variant<std::uint64_t, Refusal> Agreement::ask(const OpDescription& op, const std::function<void()>& meanwhile) {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return !asking_ || failure_ != nullptr; });
  throw_failure();
  asking_ = true;
  refusal_.reset();
  Note note = note_of(Note::Kind::asked, next_, op);
  note.round = round_;
  lock.unlock();
  to_first(note);
  std::exception_ptr thrown;
  lock.lock();
  while (!moved_.wait_for(lock, std::chrono::milliseconds(50),
                          [&] { return failure_ != nullptr || begun_ >= note.op || refusal_; })) {
    if (!meanwhile || thrown) continue;
    lock.unlock();
    try {
      meanwhile();
    } catch (...) {
      thrown = std::current_exception();
      note.kind = Note::Kind::withdrawn;
      to_first(note);  // which answers as it decided, whatever comes first
    }
    lock.lock();
  }
  asking_ = false;
  const bool begun = begun_ >= note.op;
  next_ += begun ? 1 : 0;
  if (begun) round_ = 0;
  else if (refusal_ && refusal_->why != Refusal::Why::withdrawn) ++round_;
  moved_.notify_all();
  if (!thrown) throw_failure();
  const std::optional<Refusal> refusal = std::exchange(refusal_, std::nullopt);
  lock.unlock();
  if (thrown) try {
      std::rethrow_exception(thrown);
    } catch (...) {
      if (begun && !op.sets_nothing) fail(runtime::thrown());  // the others go on to what this rank does not do
      throw;
    }
  if (begun) return note.op;
  return *refusal;
}

void Agreement::spoil(std::uint64_t op) {
  {
    std::lock_guard lock(mutex_);
    if (!spoiled_.insert(op).second) return;
  }
  to_first(note_of(Note::Kind::spoiled, op));
}

void Agreement::end(std::uint64_t op, const Spent& spent, const LaunchEnd& end) {
  Note note = Note::of_end(op, end);
  note.spent = spent;
  to_first(note);
}

void Agreement::fail(const Error& error, std::optional<int> lost) {
  if (error.kind == ErrorKind::peer && !lost) return suspect(error);
  if (!fail_here(error, lost, {})) return;  // which all hear of
  if (rank_ == 0) lines_.send_to_all(Note::of_failure(as_heard(0, error), lost));
  else lines_.send(0, Note::of_failure(error, lost));
}

void Agreement::suspect(const Error& error) {
  {
    std::lock_guard lock(mutex_);
    if (failure_ != nullptr || suspicion_ != nullptr) return;
    suspicion_ = std::make_unique<Error>(error);
    suspected_at_ = Clock::now();
  }
  if (rank_ != 0) lines_.send(0, Note::of_failure(error, {}));
  lines_.wake();
}

void Agreement::to_first(const Note& note) {
  if (rank_ == 0) take(0, note);
  else lines_.send(0, note);
}

bool Agreement::fail_here(const Error& error, std::optional<int> lost, const std::optional<Difference>& difference) {
  {
    std::lock_guard lock(mutex_);
    if (failure_ != nullptr) return false;
    failure_ = std::make_unique<Error>(error);
    failed_at_ = Clock::now();
    lost_ = lost;
    difference_ = difference;
    moved_.notify_all();
  }
  tell_.failed(error, lost);
  return true;
}

// --- the thread that serves
// -------------------------------------------------------------------------------------------------------

// When there is something to do although nothing comes.
std::optional<Clock::time_point> Agreement::next_look() const {
  std::lock_guard lock(mutex_);
  if (failure_ != nullptr) return std::nullopt;
  if (suspicion_ != nullptr) return suspected_at_ + word_of_cause;
  if (coordinator_.somebody_asks()) return Clock::now() + between_looks;
  return std::nullopt;
}

void Agreement::look() {
  std::optional<Error> fails;
  Coordinator::Outcome outcome;
  {
    std::lock_guard lock(mutex_);
    if (failure_ != nullptr) return;
    if (suspicion_ != nullptr && Clock::now() >= suspected_at_ + word_of_cause) fails = *suspicion_;
    else if (coordinator_.somebody_asks()) outcome = coordinator_.look(Clock::now());
  }
  if (fails && fail_here(*fails, {}, {}) && rank_ == 0) lines_.send_to_all(Note::of_failure(as_heard(0, *fails), {}));
  act(outcome);
}

void Agreement::serve() {
  comm::request_short_time_slice();
  while (!stop_) {
    lines_.wait(next_look());
    lines_.take([this](int rank, const Note& note) { take(rank, note); },
                [this](int rank, const Error& failure) {
                  if (!bye_[static_cast<std::size_t>(rank)]) fail(failure, rank);
                });
    look();
  }
}

// --- what others say, and at rank 0 what this one says too
// --------------------------------------------------------------------------

void Agreement::take(int rank, const Note& note) {
  if (note.kind == Note::Kind::failed) return take_failed(rank, note);
  if (note.kind == Note::Kind::bye) {
    bye_[static_cast<std::size_t>(rank)] = true;
    return;
  }
  if (rank_ == 0) {
    std::unique_lock lock(mutex_);
    const Coordinator::Outcome outcome = coordinator_.take(rank, note, Clock::now());
    const bool well = failure_ == nullptr;
    lock.unlock();
    if (well) act(outcome);
    return;
  }
  if (note.kind == Note::Kind::begun) all_begun(note.op);
  else if (note.kind == Note::Kind::ended) tell_.ended(note.op, note.end());
  else if (note.kind == Note::Kind::spoiled) tell_.spoiled(note.op, note.awaited);
  else if (note.kind == Note::Kind::refused) refused(note);
}

void Agreement::take_failed(int rank, const Note& note) {
  const Error told = note.failure(), error = rank_ == 0 ? as_heard(rank, told) : told;
  std::optional<Difference> difference;
  if (note.ranks[0] != note.ranks[1]) difference = {note.op, {note.ranks[0], note.ranks[1]}};
  const std::optional<int> lost = note.lost >= 0 && note.lost < ranks_ ? std::optional<int>(note.lost) : std::nullopt;
  if (rank_ == 0 && told.kind == ErrorKind::peer && !lost && !difference) return suspect(error);
  if (!fail_here(error, lost, difference) || rank_ != 0) return;
  lines_.send_to_all(Note::of_failure(error, lost));
}

// At rank 0: tells the ranks that are to hear it.
void Agreement::act(const Coordinator::Outcome& outcome) {
  if (outcome.wrong) {
    const auto& [error, difference] = *outcome.wrong;
    Note told = Note::of_failure(error, {});
    told.op = difference.op;
    std::copy(difference.ranks, difference.ranks + 2, told.ranks);
    if (fail_here(error, {}, difference)) lines_.send_to_all(told);
    return;
  }
  for (const auto& [rank, note] : outcome.answers) {
    if (rank == 0) refused(note);
    else lines_.send(rank, note);
  }
  if (outcome.begun) {
    all_begun(*outcome.begun);
    lines_.send_to_all(note_of(Note::Kind::begun, *outcome.begun));
  }
  for (const std::string& warning : outcome.warnings) note(base::LogLevel::warning, warning);
  for (const SlowRank& slow : outcome.slow) {
    auto milliseconds = [](double seconds) { return cat(std::round(seconds * 1e4) / 10, " ms"); };
    note(base::LogLevel::warning, tell_.name(slow.rank), " is slow: its ", name_of(slow.phase), " took ",
         milliseconds(slow.seconds), " in each of the last ", Pace::in_a_row, " launches, those of the others ",
         milliseconds(slow.others));
  }
  if (outcome.spoiled) {
    const auto [op, by_all] = *outcome.spoiled;
    Note told = note_of(Note::Kind::spoiled, op);
    told.awaited = by_all;
    lines_.send_to_all(told);
    tell_.spoiled(op, by_all);
  }
  if (outcome.torn && fail_here(*outcome.torn, {}, {})) lines_.send_to_all(Note::of_failure(*outcome.torn, {}));
  if (!outcome.ended || outcome.torn) return;
  lines_.send_to_all(Note::of_end(*outcome.ended, outcome.end));
  tell_.ended(*outcome.ended, outcome.end);
}

void Agreement::all_begun(std::uint64_t op) {
  std::lock_guard lock(mutex_);
  begun_ = std::max(begun_, op);
  moved_.notify_all();
}

void Agreement::refused(const Note& note) {
  std::lock_guard lock(mutex_);
  if (!asking_ || note.op != next_ || note.round != round_) return;
  refusal_ = Refusal{note.why, {note.ranks[0], note.ranks[1]}, note.text};
  moved_.notify_all();
}

}  // namespace karez::runtime
