// The agreement: the protocol by which all ranks of a world begin, end, refuse and fail the same ops. A failure of one
// rank is a failure of all ranks.
//
// All ranks run the same program, so they number their ops in the same way. An op is a call, a barrier, or a read of a
// value that is not complete on every rank. Each rank sends control messages about its ops to rank 0, which compares
// and counts them and notifies all ranks (coordinator.h). agreement_policy.h decides what a rank does when it receives
// a message. These are the messages:
//
//   rank r -> 0   begun op, hash, text       rank r begins the op; a difference between two ranks is a failure that
//                                            names both ranks
//   rank r -> 0   ended op                   the work of the op is over on rank r
//   rank r -> 0   requested op, hash, text   rank r requests an op that has not begun; a difference is an error on the
//                                            ranks that requested the op, but not a failure
//   rank r -> 0   invalidated op             the launch is poisoned on rank r, because it failed on some rank
//   0 -> all      invalidated op             the launch failed on some rank; sent again when all ranks have poisoned it
//   rank r -> 0   failed, error              rank r failed, or its link to a rank broke before that rank sent goodbye
//   0 -> all      begun op                   all ranks have begun the op; sent only if a rank waits for that
//   0 -> all      ended op                   all ranks have ended the op
//   0 -> rank r   refused op, reason         the op that rank r requested does not begin
//   0 -> all      failed, error              the first failure of any rank; no op ends after it
//
// A wait for a launch returns when the launch has ended on all ranks, so no rank uses a result of a launch that failed
// on another rank. Control messages use the control connections (peers.h), where no data delays them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include "karez/base/error.h"
#include "karez/control/agreement_policy.h"
#include "karez/control/control_links.h"
#include "karez/control/control_message.h"
#include "karez/control/coordinator.h"
#include "karez/control/namespace.h"
#include "karez/runtime/control.h"

namespace karez::control {

// The functions have the meaning that karez/runtime/control.h describes for runtime::Control.
class Agreement {
 public:
  // Called on the agreement's thread, or on a thread that calls a function below, with no lock held.
  struct Callbacks {
    std::function<void(std::uint64_t op, const LaunchEnd& end)> ended;
    std::function<void(std::uint64_t op, bool on_all_ranks)> invalidated;
    std::function<void(const Error& error, std::optional<int> lost)> failed;
  };
  struct Options {
    int rank = 0, ranks = 1;
    ControlLinks::Open open;
    // If a request is pending and no rank has sent a message for this long, a warning names the ranks that have not
    // requested the op.
    std::chrono::duration<double> warn_after{30};
    std::function<std::string(int rank)> name;  // the rank's name in messages
  };
  Agreement(const Options& options, Callbacks callbacks);
  ~Agreement();  // sends goodbye; every op that began must have ended, or a failure must have occurred
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  std::uint64_t begin(const OpDescription& op);
  void await_begun(std::uint64_t op, const std::function<void()>& while_waiting = {});
  void end(std::uint64_t op, const RankTime& spent = {}, const LaunchEnd& end = {});
  void invalidate(std::uint64_t op);
  std::variant<std::uint64_t, Refusal> request(const OpDescription& op,
                                               const std::function<void()>& while_waiting = {});

  // Reports a failure of this rank to all ranks. The other ranks receive it as an error of kind peer whose text begins
  // with this rank's number; errors of kind peer or hang are passed on unchanged. An error of kind peer without `lost`
  // is a broken link, which may be the consequence of an earlier failure. It becomes the failure only if no rank
  // reports another one within half a second.
  void fail(const Error& error, std::optional<int> lost = {});

  // If the failure is that two ranks began different ops under one number, returns that op. The result is the same on
  // all ranks.
  std::optional<OpMismatch> mismatch() const;

 private:
  using Decision = AgreementPolicy::Decision;
  void serve();
  void send_to_rank0(const ControlMessage& message);
  template <class Decide> void decide(Decide decide);
  void execute(const Decision& decision);

  const int rank_;
  const Callbacks callbacks_;
  mutable std::mutex mutex_;  // guards the policy
  std::condition_variable changed_;
  AgreementPolicy policy_;
  std::atomic<bool> stop_{false};
  ControlLinks links_;
  std::thread thread_;  // last, because the thread uses the other members
};

}  // namespace karez::control
