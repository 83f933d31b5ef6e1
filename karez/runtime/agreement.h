// Agreement: the protocol by which all ranks of a world begin, end, refuse and fail the same ops. A failure of one rank
// is a failure of all ranks.
//
// All ranks run one program, so they number their ops alike: a call, a read of a value that is not whole on every rank,
// a barrier. Each rank sends control messages about its ops to rank 0, which compares and counts them and notifies all
// ranks (coordinator.h):
//
//   rank r -> 0   begun op, hash, text   the first difference between two ranks is a failure that names both
//   rank r -> 0   ended op               the work of the op is over on rank r
//   rank r -> 0   asked op, hash, text   likewise for an op that has not begun: a difference is an error on the ranks
//                                        that asked, but no failure
//   rank r -> 0   invalidated op         the launch is poisoned on rank r: it failed there, or rank 0 reported it
//   0 -> all      invalidated op         the launch failed on some rank; sent again when all ranks have poisoned it
//   rank r -> 0   failed, why            also when the link to a rank breaks before that rank has sent goodbye
//   0 -> all      begun op, ended op     all ranks have begun or ended it; begun only if a rank waits for it
//   0 -> rank r   refused op, why        the op that rank r asked for does not begin
//   0 -> all      failed, why            the first failure of any rank; no op ends after it
//
// A launch is over for its waiters when it has ended on all ranks, so no rank takes a result of a launch that failed
// on another rank. Control messages use the control connections (peers.h), where no data delays them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "karez/base/error.h"
#include "karez/runtime/control_links.h"
#include "karez/runtime/control_message.h"
#include "karez/runtime/coordinator.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// An op as the ranks compare it.
struct OpDescription {
  std::uint64_t hash = 0;
  std::string_view what;
  std::uint64_t sum = 0;  // must add up to 0 over all ranks
  InputHashes inputs = {};
  // The op is over when all ranks have begun it, which some thread awaits, or (with `ask`) when all have asked for
  // it.
  bool is_barrier = false;
};

class Agreement {
 public:
  struct Callbacks {
    std::function<void(std::uint64_t op, const LaunchEnd& end)> ended;  // the op has ended on all ranks, in this way
    // The launch failed on some rank: this rank must poison its part and then call `invalidate`. Called again with
    // `on_all_ranks` when every rank has done so.
    std::function<void(std::uint64_t op, bool on_all_ranks)> invalidated;
    // Called once, with the first error of any rank; no op ends after it. `lost`: the rank that cannot continue, if
    // that is the cause.
    std::function<void(const Error& error, std::optional<int> lost)> failed;
    std::function<std::string(int rank)> name;  // the rank's name in messages
  };
  struct Options {
    int rank = 0, ranks = 1;
    ControlLinks::Open open;
    // Seconds until a warning names a rank that does nothing while others ask for an op.
    std::chrono::duration<double> warn_after{30};
  };
  // All callbacks but the last are called on the agreement's own thread or by the thread that calls `end`, with no lock
  // held.
  Agreement(const Options& options, Callbacks callbacks);
  ~Agreement();  // sends goodbye; every op that began must have ended, or a failure must have occurred
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  // This rank begins its next op, which must be the next op of all ranks. Throws the failure, if there is one.
  std::uint64_t begin(const OpDescription& op);
  // Waits until all ranks have begun the op; throws the failure, if there is one. `while_waiting` is called some twenty
  // times a second; an exception from it ends only the wait.
  void await_begun(std::uint64_t op, const std::function<void()>& while_waiting = {});
  // The op has ended on this rank; for a launch, with the time that this rank has spent so far.
  void end(std::uint64_t op, const RankTime& spent = {}, const LaunchEnd& end = {});
  // The launch is poisoned on this rank, because it failed here or on another rank. A second call has no effect.
  void invalidate(std::uint64_t op);

  // Waits until all ranks have asked for the same op as their next one, which then has begun, or until it is known that
  // they will not. In that case no op has begun, and this rank's next op gets the number that this one would have had.
  // An exception from `while_waiting` ends the wait and withdraws the op.
  std::variant<std::uint64_t, Refusal> ask(const OpDescription& op, const std::function<void()>& while_waiting = {});

  // Reports a failure of this rank to all ranks. The others receive it as an error of kind peer with this rank's number
  // in front, unless it is a hang or is about a peer. A broken link to a peer may be only a consequence of an earlier
  // failure: it is reported to rank 0, whose answer is awaited for half a second; rank 0 waits as long for a report
  // from that peer.
  void fail(const Error& error, std::optional<int> lost = {});

  // The op at which two ranks began different things, if that is the failure. The same on all ranks.
  std::optional<OpMismatch> mismatch() const;

 private:
  void serve();
  std::optional<std::chrono::steady_clock::time_point> next_check() const;
  void check();
  void take(int rank, const ControlMessage& message);
  void take_failed(int rank, const ControlMessage& message);
  void act(const Coordinator::Outcome& outcome);
  void all_begun(std::uint64_t op);
  void refused(const ControlMessage& message);
  void send_to_rank0(const ControlMessage& message);
  bool fail_here(const Error& error, std::optional<int> lost,
                 const std::optional<OpMismatch>& mismatch);  // false: there was an earlier failure
  void suspect(const Error& error);
  void throw_failure() const;
  bool is_lost(int rank) const;

  const int rank_, ranks_;
  Callbacks callbacks_;
  mutable std::mutex mutex_;  // guards the members below, except for the links
  std::condition_variable changed_;
  std::uint64_t next_ = 1, begun_ = 0;   // begun_: the last op that all ranks are known to have begun
  std::uint32_t round_ = 0;              // the number of times that `next_` was refused
  std::set<std::uint64_t> invalidated_;  // ops that this rank has reported as poisoned
  bool asking_ = false;                  // a thread is in `ask`
  std::optional<Refusal> refusal_;       // the answer to that request
  Coordinator coordinator_;              // used on rank 0 only
  std::unique_ptr<Error> failure_;
  std::chrono::steady_clock::time_point failed_at_;
  std::optional<int> lost_;
  std::unique_ptr<Error> suspicion_;  // becomes the failure if rank 0 does not report one in time
  std::chrono::steady_clock::time_point suspected_at_;
  std::optional<OpMismatch> mismatch_;
  std::atomic<bool> stop_{false};
  std::vector<bool> goodbye_received_;  // by rank; used by the serving thread only
  ControlLinks links_;
  std::thread thread_;
};

}  // namespace karez::runtime
