// The agreement: the protocol by which all ranks of a world begin, end, refuse and fail the same ops. A failure of one
// rank is a failure of all ranks.
//
// All ranks run one program, so they give equal numbers to their ops: calls, reads of values that are not whole on
// every rank, barriers. Each rank sends control messages about its ops to rank 0, which compares and counts them and
// notifies all ranks (coordinator.h). What a rank does about a message is decided by agreement_policy.h:
//
//   rank r -> 0   begun op, hash, text       the first difference between two ranks is a failure that names both
//   rank r -> 0   ended op                   the work of the op is over on rank r
//   rank r -> 0   requested op, hash, text   likewise for an op that has not begun: a difference is an error on the
//                                            ranks that requested the op, but not a failure
//   rank r -> 0   invalidated op             the launch is poisoned on rank r, because it failed on some rank
//   0 -> all      invalidated op             the launch failed on some rank; sent again when all have poisoned it
//   rank r -> 0   failed, error              also when the link to a rank breaks before that rank has sent goodbye
//   0 -> all      begun op, ended op         all ranks have begun or ended it; begun only if a rank waits for that
//   0 -> rank r   refused op, reason         the op that rank r requested does not begin
//   0 -> all      failed, error              the first failure of any rank; no op ends after it
//
// A launch is over for its waiters when it has ended on all ranks, so no rank takes a result of a launch that failed
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

// The functions are those of runtime::Control, which describes them.
class Agreement {
 public:
  // Called on the agreement's own thread or by the thread that calls `end`, with no lock held.
  struct Callbacks {
    std::function<void(std::uint64_t op, const LaunchEnd& end)> ended;
    std::function<void(std::uint64_t op, bool on_all_ranks)> invalidated;
    std::function<void(const Error& error, std::optional<int> lost)> failed;
  };
  struct Options {
    int rank = 0, ranks = 1;
    ControlLinks::Open open;
    // Time until a warning names a rank that does nothing while others request an op.
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

  // Reports a failure of this rank to all ranks. The others receive it as an error of kind peer with this rank's number
  // in front, unless it is a hang or is about a peer. A broken link to a peer may be only a consequence of an earlier
  // failure: it is reported to rank 0, whose answer is awaited for half a second; rank 0 waits as long for a report
  // from that peer.
  void fail(const Error& error, std::optional<int> lost = {});

  // The op at which two ranks began different things, if that is the failure. The same on all ranks.
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
  std::thread thread_;  // last: it uses the other members
};

}  // namespace karez::control
