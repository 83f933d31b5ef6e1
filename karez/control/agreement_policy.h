// The agreement policy decides how one rank handles its own ops and the messages of other ranks. On rank 0 it also uses
// a coordinator to decide for all ranks. It has no thread, clock or socket: its caller passes events and the time to
// it, and executes the actions that it returns.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "karez/base/error.h"
#include "karez/control/control_message.h"
#include "karez/control/coordinator.h"
#include "karez/control/namespace.h"
#include "karez/runtime/control.h"

namespace karez::control {

class AgreementPolicy {
 public:
  using Clock = std::chrono::steady_clock;

  struct Send {
    static constexpr int all = -1;  // sends to all other ranks
    int rank = all;
    ControlMessage message;
  };
  struct ReportEnd {  // reports to this rank's session that the op has ended on all ranks
    std::uint64_t op = 0;
    LaunchEnd end;
  };
  struct ReportInvalid {  // reports that the launch failed on some rank, or is poisoned on all ranks
    std::uint64_t op = 0;
    bool on_all_ranks = false;
  };
  struct ReportFailure {  // reports the first failure; `lost` is the rank that cannot continue, if known
    Error error;
    std::optional<int> lost;
  };
  struct Warn {
    std::string text;
  };
  using Action = std::variant<Send, ReportEnd, ReportInvalid, ReportFailure, Warn>;
  struct Decision {
    std::vector<Action> actions;  // in the order of their execution
    bool changed = false;         // a condition that threads of the program wait for may have become true
    bool check_due = false;       // `next_check` may now return an earlier time
  };

  // If a request is pending and no rank has sent a message for `warn_after`, a warning names the ranks that have not
  // requested the op. `name` returns a rank's name for messages.
  AgreementPolicy(int rank, int ranks, std::chrono::duration<double> warn_after,
                  std::function<std::string(int rank)> name);

  // --- Ops of this rank. The caller sends the returned messages to rank 0; on rank 0 it passes them to `take`.

  // False while a request is pending, because its answer decides the number of the next op.
  bool may_begin() const { return !requesting_ || failure_; }
  struct BegunOp {
    std::uint64_t op = 0;
    std::optional<ControlMessage> message;
  };
  // Throws the failure, if there is one. But if the failure is that the ranks differ at this op, returns the number of
  // the op without a message.
  BegunOp begin(const OpDescription& op);
  bool has_begun(std::uint64_t op) const { return begun_ >= op; }  // all ranks have begun the op, according to rank 0
  std::optional<ControlMessage> invalidate(std::uint64_t op);      // nullopt if this op was reported before
  static ControlMessage end(std::uint64_t op, const RankTime& spent, const LaunchEnd& end);

  // To request an op, call `request`, pass messages to `take` until `is_answered`, then call `end_request`. `request`
  // throws the failure, if there is one.
  ControlMessage request(const OpDescription& op);
  bool is_answered(const ControlMessage& request) const { return failure_ || has_begun(request.op) || refusal_; }
  // Returns the refusal, or nullopt if the op has begun or a failure ended the request.
  std::optional<Refusal> end_request(const ControlMessage& request);

  // --- Events

  Decision fail(const Error& error, std::optional<int> lost, Clock::time_point now);  // this rank has failed
  Decision take(int rank, const ControlMessage& message, Clock::time_point now);      // from this or another rank
  Decision on_broken_link(int rank, const Error& error, Clock::time_point now);
  // Call `check` at the time that `next_check` returns, if no event occurs before.
  std::optional<Clock::time_point> next_check(Clock::time_point now) const;
  Decision check(Clock::time_point now);

  const std::optional<Error>& failure() const { return failure_; }
  void throw_failure() const;  // throws the failure, if there is one
  // True if messages to the rank may be dropped. After a failure this holds at once for the lost rank, and after one
  // second for every other rank.
  bool is_lost(int rank, Clock::time_point now) const;
  const std::optional<OpMismatch>& mismatch() const { return mismatch_; }

 private:
  bool set_failure(const Error& error, std::optional<int> lost, const std::optional<OpMismatch>& mismatch,
                   Clock::time_point now, Decision& out);
  Decision suspect(const Error& error, Clock::time_point now);
  Decision take_failed(int rank, const ControlMessage& message, Clock::time_point now);
  void execute(const Coordinator::Outcome& outcome, Clock::time_point now, Decision& out);
  void set_begun(std::uint64_t op, Decision& out);
  void take_refusal(const ControlMessage& message, Decision& out);

  const int rank_, ranks_;
  std::function<std::string(int)> name_;
  std::uint64_t next_ = 1, begun_ = 0;   // begun_: the last op that all ranks are known to have begun
  std::uint32_t round_ = 0;              // the number of times that `next_` was refused
  std::set<std::uint64_t> invalidated_;  // ops that this rank has reported as poisoned
  bool requesting_ = false;              // a request is pending
  std::optional<Refusal> refusal_;       // the answer to that request
  Coordinator coordinator_;              // used on rank 0 only
  std::vector<bool> goodbye_received_;   // by rank
  std::optional<Error> failure_;
  Clock::time_point failed_at_;
  std::optional<int> lost_;
  std::optional<Error> suspicion_;  // becomes the failure if rank 0 does not report another one in time
  Clock::time_point suspected_at_;
  std::optional<OpMismatch> mismatch_;
};

}  // namespace karez::control
