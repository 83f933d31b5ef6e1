// One rank's side of the agreement, and the thread that serves its links.
#include "karez/runtime/agreement.h"

#include <cmath>
#include <exception>

#include "karez/base/log.h"
#include "karez/base/text.h"
#include "karez/comm/time_slice.h"
#include "karez/runtime/current_error.h"

namespace karez::runtime {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds goodbye_timeout{10};  // for a rank that no longer receives
constexpr std::chrono::milliseconds cause_timeout{500}, check_period{100};

// A rank's failure as the other ranks receive it: as the failure of a peer, whatever its kind.
Error as_peer_failure(int rank, const Error& error) {
  if (error.kind == ErrorKind::peer || error.kind == ErrorKind::hang) return error;
  return {ErrorKind::peer, cat("rank ", rank, ": ", error.what()), error.where};
}

ControlMessage message_of(ControlMessage::Kind kind, std::uint64_t op) {
  ControlMessage out;
  out.kind = kind;
  out.op = op;
  return out;
}

ControlMessage message_of(ControlMessage::Kind kind, std::uint64_t number, const OpDescription& op) {
  ControlMessage out = message_of(kind, number);
  out.hash = op.hash;
  out.text = std::string(op.what.substr(0, ControlMessage::max_text));
  out.sum = op.sum;
  out.inputs = op.inputs;
  out.awaited = op.is_barrier;
  return out;
}

}  // namespace

Agreement::Agreement(const Options& options, Callbacks callbacks)
    : rank_(options.rank),
      ranks_(options.ranks),
      callbacks_(std::move(callbacks)),
      coordinator_(options.ranks, options.warn_after),
      goodbye_received_(static_cast<std::size_t>(options.ranks)),
      links_(options.rank, options.ranks, options.open, [this](int rank) {
        std::lock_guard lock(mutex_);
        return is_lost(rank);
      }) {
  thread_ = std::thread([this] { serve(); });
}

Agreement::~Agreement() {
  links_.send_to_all(message_of(ControlMessage::Kind::goodbye, 0));
  links_.flush(Clock::now() + goodbye_timeout);  // earlier messages must arrive
  stop_ = true;
  links_.wake();
  thread_.join();
}

void Agreement::throw_failure() const {
  if (failure_ != nullptr) throw Error(*failure_);
}

// A lost rank takes no more messages; after a failure the others have one second to take theirs. Call with the lock
// held.
bool Agreement::is_lost(int rank) const {
  return failure_ != nullptr && (rank == lost_ || Clock::now() > failed_at_ + std::chrono::seconds(1));
}

std::optional<OpMismatch> Agreement::mismatch() const {
  std::lock_guard lock(mutex_);
  return mismatch_;
}

// --- Ops of this rank

std::uint64_t Agreement::begin(const OpDescription& op) {
  ControlMessage message;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !asking_ || failure_ != nullptr; });  // a pending request decides this number
    message = message_of(ControlMessage::Kind::begun, next_++, op);
    round_ = 0;
    if (mismatch_ && mismatch_->op == message.op) return message.op;  // await_begun throws the mismatch
    throw_failure();
  }
  send_to_rank0(message);
  return message.op;
}

void Agreement::await_begun(std::uint64_t op, const std::function<void()>& while_waiting) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(50), [&] { return failure_ != nullptr || begun_ >= op; })) {
    if (!while_waiting) continue;
    lock.unlock();
    while_waiting();
    lock.lock();
  }
  throw_failure();
}

std::variant<std::uint64_t, Refusal> Agreement::ask(const OpDescription& op,
                                                    const std::function<void()>& while_waiting) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !asking_ || failure_ != nullptr; });
  throw_failure();
  asking_ = true;
  refusal_.reset();
  ControlMessage message = message_of(ControlMessage::Kind::requested, next_, op);
  message.round = round_;
  lock.unlock();
  send_to_rank0(message);
  std::exception_ptr thrown;
  lock.lock();
  while (!changed_.wait_for(lock, std::chrono::milliseconds(50),
                            [&] { return failure_ != nullptr || begun_ >= message.op || refusal_; })) {
    if (!while_waiting || thrown) continue;
    lock.unlock();
    try {
      while_waiting();
    } catch (...) {
      thrown = std::current_exception();
      message.kind = ControlMessage::Kind::withdrawn;
      send_to_rank0(message);  // rank 0 answers in any case, even if it decided before
    }
    lock.lock();
  }
  asking_ = false;
  const bool begun = begun_ >= message.op;
  next_ += begun ? 1 : 0;
  if (begun) round_ = 0;
  else if (refusal_ && refusal_->reason != Refusal::Reason::withdrawn) ++round_;
  changed_.notify_all();
  if (!thrown) throw_failure();
  const std::optional<Refusal> refusal = std::exchange(refusal_, std::nullopt);
  lock.unlock();
  if (thrown) try {
      std::rethrow_exception(thrown);
    } catch (...) {
      if (begun && !op.is_barrier) fail(runtime::current_error());  // the others run an op that this rank does not
      throw;
    }
  if (begun) return message.op;
  return *refusal;
}

void Agreement::invalidate(std::uint64_t op) {
  {
    std::lock_guard lock(mutex_);
    if (!invalidated_.insert(op).second) return;
  }
  send_to_rank0(message_of(ControlMessage::Kind::invalidated, op));
}

void Agreement::end(std::uint64_t op, const RankTime& spent, const LaunchEnd& end) {
  ControlMessage message = ControlMessage::of_end(op, end);
  message.rank_time = spent;
  send_to_rank0(message);
}

void Agreement::fail(const Error& error, std::optional<int> lost) {
  if (error.kind == ErrorKind::peer && !lost) return suspect(error);
  if (!fail_here(error, lost, {})) return;  // an earlier failure was reported to all ranks
  if (rank_ == 0) links_.send_to_all(ControlMessage::of_failure(as_peer_failure(0, error), lost));
  else links_.send(0, ControlMessage::of_failure(error, lost));
}

void Agreement::suspect(const Error& error) {
  {
    std::lock_guard lock(mutex_);
    if (failure_ != nullptr || suspicion_ != nullptr) return;
    suspicion_ = std::make_unique<Error>(error);
    suspected_at_ = Clock::now();
  }
  if (rank_ != 0) links_.send(0, ControlMessage::of_failure(error, {}));
  links_.wake();
}

void Agreement::send_to_rank0(const ControlMessage& message) {
  if (rank_ == 0) take(0, message);
  else links_.send(0, message);
}

bool Agreement::fail_here(const Error& error, std::optional<int> lost, const std::optional<OpMismatch>& mismatch) {
  {
    std::lock_guard lock(mutex_);
    if (failure_ != nullptr) return false;
    failure_ = std::make_unique<Error>(error);
    failed_at_ = Clock::now();
    lost_ = lost;
    mismatch_ = mismatch;
    changed_.notify_all();
  }
  callbacks_.failed(error, lost);
  return true;
}

// --- The serving thread

// The time of the next check, in case no message arrives until then.
std::optional<Clock::time_point> Agreement::next_check() const {
  std::lock_guard lock(mutex_);
  if (failure_ != nullptr) return std::nullopt;
  if (suspicion_ != nullptr) return suspected_at_ + cause_timeout;
  if (coordinator_.has_pending_requests()) return Clock::now() + check_period;
  return std::nullopt;
}

void Agreement::check() {
  std::optional<Error> fails;
  Coordinator::Outcome outcome;
  {
    std::lock_guard lock(mutex_);
    if (failure_ != nullptr) return;
    if (suspicion_ != nullptr && Clock::now() >= suspected_at_ + cause_timeout) fails = *suspicion_;
    else if (coordinator_.has_pending_requests()) outcome = coordinator_.check(Clock::now());
  }
  if (fails && fail_here(*fails, {}, {}) && rank_ == 0)
    links_.send_to_all(ControlMessage::of_failure(as_peer_failure(0, *fails), {}));
  act(outcome);
}

void Agreement::serve() {
  comm::request_short_time_slice();
  while (!stop_) {
    links_.wait(next_check());
    links_.take([this](int rank, const ControlMessage& message) { take(rank, message); },
                [this](int rank, const Error& failure) {
                  if (!goodbye_received_[static_cast<std::size_t>(rank)]) fail(failure, rank);
                });
    check();
  }
}

// --- Messages from other ranks; on rank 0 also its own

void Agreement::take(int rank, const ControlMessage& message) {
  if (message.kind == ControlMessage::Kind::failed) return take_failed(rank, message);
  if (message.kind == ControlMessage::Kind::goodbye) {
    goodbye_received_[static_cast<std::size_t>(rank)] = true;
    return;
  }
  if (rank_ == 0) {
    std::unique_lock lock(mutex_);
    const Coordinator::Outcome outcome = coordinator_.take(rank, message, Clock::now());
    const bool well = failure_ == nullptr;
    lock.unlock();
    if (well) act(outcome);
    return;
  }
  if (message.kind == ControlMessage::Kind::begun) all_begun(message.op);
  else if (message.kind == ControlMessage::Kind::ended) callbacks_.ended(message.op, message.end());
  else if (message.kind == ControlMessage::Kind::invalidated) callbacks_.invalidated(message.op, message.awaited);
  else if (message.kind == ControlMessage::Kind::refused) refused(message);
}

void Agreement::take_failed(int rank, const ControlMessage& message) {
  const Error told = message.failure(), error = rank_ == 0 ? as_peer_failure(rank, told) : told;
  std::optional<OpMismatch> mismatch;
  if (message.ranks[0] != message.ranks[1]) mismatch = {message.op, {message.ranks[0], message.ranks[1]}};
  const std::optional<int> lost =
      message.lost >= 0 && message.lost < ranks_ ? std::optional<int>(message.lost) : std::nullopt;
  if (rank_ == 0 && told.kind == ErrorKind::peer && !lost && !mismatch) return suspect(error);
  if (!fail_here(error, lost, mismatch) || rank_ != 0) return;
  links_.send_to_all(ControlMessage::of_failure(error, lost));
}

// On rank 0: sends the coordinator's decisions to the ranks concerned.
void Agreement::act(const Coordinator::Outcome& outcome) {
  if (outcome.mismatch) {
    const auto& [error, mismatch] = *outcome.mismatch;
    ControlMessage told = ControlMessage::of_failure(error, {});
    told.op = mismatch.op;
    std::copy(mismatch.ranks, mismatch.ranks + 2, told.ranks);
    if (fail_here(error, {}, mismatch)) links_.send_to_all(told);
    return;
  }
  for (const auto& [rank, message] : outcome.answers) {
    if (rank == 0) refused(message);
    else links_.send(rank, message);
  }
  if (outcome.begun) {
    all_begun(*outcome.begun);
    links_.send_to_all(message_of(ControlMessage::Kind::begun, *outcome.begun));
  }
  for (const std::string& warning : outcome.warnings) note(base::LogLevel::warning, warning);
  for (const SlowRank& slow : outcome.slow) {
    auto milliseconds = [](double seconds) { return cat(std::round(seconds * 1e4) / 10, " ms"); };
    note(base::LogLevel::warning, callbacks_.name(slow.rank), " is slow: its ", name_of(slow.phase), " took ",
         milliseconds(slow.seconds), " in each of the last ", StragglerDetector::consecutive_launches,
         " launches; the median of the other ranks is ", milliseconds(slow.others));
  }
  if (outcome.invalidated) {
    const auto [op, on_all_ranks] = *outcome.invalidated;
    ControlMessage told = message_of(ControlMessage::Kind::invalidated, op);
    told.awaited = on_all_ranks;
    links_.send_to_all(told);
    callbacks_.invalidated(op, on_all_ranks);
  }
  if (outcome.torn && fail_here(*outcome.torn, {}, {}))
    links_.send_to_all(ControlMessage::of_failure(*outcome.torn, {}));
  if (!outcome.ended || outcome.torn) return;
  links_.send_to_all(ControlMessage::of_end(*outcome.ended, outcome.end));
  callbacks_.ended(*outcome.ended, outcome.end);
}

void Agreement::all_begun(std::uint64_t op) {
  std::lock_guard lock(mutex_);
  begun_ = std::max(begun_, op);
  changed_.notify_all();
}

void Agreement::refused(const ControlMessage& message) {
  std::lock_guard lock(mutex_);
  if (!asking_ || message.op != next_ || message.round != round_) return;
  refusal_ = Refusal{message.reason, {message.ranks[0], message.ranks[1]}, message.text};
  changed_.notify_all();
}

}  // namespace karez::runtime
