// Runs the thread that serves the links, executes the policy's decisions, and implements the waits of the program's
// threads.
#include "karez/control/agreement.h"

#include <exception>
#include <utility>

#include "karez/base/log.h"
#include "karez/comm/time_slice.h"
#include "karez/runtime/current_error.h"

namespace karez::control {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds goodbye_timeout{10};  // time limit for a rank that no longer receives

template <class... Functions> struct Overloaded : Functions... { using Functions::operator()...; };
template <class... Functions> Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace

Agreement::Agreement(const Options& options, Callbacks callbacks)
    : rank_(options.rank),
      callbacks_(std::move(callbacks)),
      policy_(options.rank, options.ranks, options.warn_after, options.name),
      links_(options.rank, options.ranks, options.open, [this](int rank) {
        std::lock_guard lock(mutex_);
        return policy_.is_lost(rank, Clock::now());
      }) {
  thread_ = std::thread([this] { serve(); });
}

Agreement::~Agreement() {
  ControlMessage goodbye;
  goodbye.kind = ControlMessage::Kind::goodbye;
  links_.send_to_all(goodbye);
  links_.flush(Clock::now() + goodbye_timeout);  // so that earlier messages arrive too
  stop_ = true;
  links_.wake();
  thread_.join();
}

std::optional<OpMismatch> Agreement::mismatch() const {
  std::lock_guard lock(mutex_);
  return policy_.mismatch();
}

// --- Decisions

// `decide` is called with the lock held; its decision is executed without the lock.
template <class Decide> void Agreement::decide(Decide decide) {
  std::unique_lock lock(mutex_);
  const Decision decision = decide();
  if (decision.changed) changed_.notify_all();
  lock.unlock();
  execute(decision);
}

void Agreement::execute(const Decision& decision) {
  for (const AgreementPolicy::Action& action : decision.actions)
    std::visit(
        Overloaded{[&](const AgreementPolicy::Send& send) {
                     if (send.rank == AgreementPolicy::Send::all) links_.send_to_all(send.message);
                     else links_.send(send.rank, send.message);
                   },
                   [&](const AgreementPolicy::ReportEnd& report) { callbacks_.ended(report.op, report.end); },
                   [&](const AgreementPolicy::ReportInvalid& report) {
                     callbacks_.invalidated(report.op, report.on_all_ranks);
                   },
                   [&](const AgreementPolicy::ReportFailure& report) { callbacks_.failed(report.error, report.lost); },
                   [&](const AgreementPolicy::Warn& warning) { note(base::LogLevel::warning, warning.text); }},
        action);
  if (decision.check_due) links_.wake();
}

void Agreement::send_to_rank0(const ControlMessage& message) {
  if (rank_ == 0) decide([&] { return policy_.take(0, message, Clock::now()); });
  else links_.send(0, message);
}

// --- Ops of this rank

std::uint64_t Agreement::begin(const OpDescription& op) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return policy_.may_begin(); });
  const AgreementPolicy::BegunOp begun = policy_.begin(op);
  lock.unlock();
  if (begun.message) send_to_rank0(*begun.message);
  return begun.op;
}

void Agreement::await_begun(std::uint64_t op, const std::function<void()>& while_waiting) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(50),
                            [&] { return policy_.failure() || policy_.has_begun(op); })) {
    if (!while_waiting) continue;
    lock.unlock();
    while_waiting();
    lock.lock();
  }
  policy_.throw_failure();
}

std::variant<std::uint64_t, Refusal> Agreement::request(const OpDescription& op,
                                                        const std::function<void()>& while_waiting) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return policy_.may_begin(); });
  ControlMessage message = policy_.request(op);
  lock.unlock();
  send_to_rank0(message);
  std::exception_ptr thrown;
  lock.lock();
  while (!changed_.wait_for(lock, std::chrono::milliseconds(50), [&] { return policy_.is_answered(message); })) {
    if (!while_waiting || thrown) continue;
    lock.unlock();
    try {
      while_waiting();
    } catch (...) {
      thrown = std::current_exception();
      message.kind = ControlMessage::Kind::withdrawn;
      send_to_rank0(message);  // rank 0 answers in any case, even if it has already decided
    }
    lock.lock();
  }
  const std::optional<Refusal> refusal = policy_.end_request(message);
  const bool begun = policy_.has_begun(message.op);
  changed_.notify_all();
  if (!thrown) policy_.throw_failure();
  lock.unlock();
  if (thrown) try {
      std::rethrow_exception(thrown);
    } catch (...) {
      if (begun && !op.is_barrier) fail(runtime::current_error());  // the others run an op that this rank does not run
      throw;
    }
  if (begun) return message.op;
  return *refusal;
}

void Agreement::invalidate(std::uint64_t op) {
  std::unique_lock lock(mutex_);
  const std::optional<ControlMessage> message = policy_.invalidate(op);
  lock.unlock();
  if (message) send_to_rank0(*message);
}

void Agreement::end(std::uint64_t op, const RankTime& spent, const LaunchEnd& end) {
  send_to_rank0(AgreementPolicy::end(op, spent, end));
}

void Agreement::fail(const Error& error, std::optional<int> lost) {
  decide([&] { return policy_.fail(error, lost, Clock::now()); });
}

// --- The serving thread

void Agreement::serve() {
  comm::request_short_time_slice();
  while (!stop_) {
    std::unique_lock lock(mutex_);
    const std::optional<Clock::time_point> next_check = policy_.next_check(Clock::now());
    lock.unlock();
    links_.wait(next_check);
    links_.take(
        [this](int rank, const ControlMessage& message) {
          decide([&] { return policy_.take(rank, message, Clock::now()); });
        },
        [this](int rank, const Error& failure) {
          decide([&] { return policy_.on_broken_link(rank, failure, Clock::now()); });
        });
    decide([&] { return policy_.check(Clock::now()); });
  }
}

}  // namespace karez::control
