// What the ranks of a world do alike: each of its ops by number, and how it ended for all of them. One rank's failure
// is every rank's.
//
// Every rank numbers its ops alike, because all run one program: a call, a read of what is not whole on every rank, a
// barrier. Notes about them go to rank 0, which compares, counts, and tells all (coordinator.h):
//
//   rank r -> 0   begun op, hash, what it is    op's first difference between two ranks is a failure that names both
//   rank r -> 0   ended op                      what it set going is over on that rank
//   rank r -> 0   asked op, hash, what it is    the same for an op that has not begun: a difference is an error of
//   those that asked, and no failure rank r -> 0   spoiled op                    the launch does not work here any
//   more: it failed, or rank 0 said so 0 -> all      spoiled op                    it failed on some rank; and again
//   when all ranks have said so rank r -> 0   failed, why                   so is a link to a rank that breaks before
//   that rank said bye 0 -> all      begun op, ended op            all ranks have; begun only where they wait for that
//   0 -> rank r   refused op, why               what it asked for does not begin
//   0 -> all      failed, why                   the first failure of any rank; nothing ends after it
//
// A launch is over for its waiters when it has ended on all ranks, so no rank takes a result of one that failed
// elsewhere. Notes go on the control connections (peers.h), behind no data.
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
  std::uint64_t sum = 0;  // adds up to 0 over all ranks
  InputHashes inputs = {};
  bool is_barrier = false;  // begin: it is over when all have begun it, as some thread awaits. ask: likewise, when
                            // all have asked for it
};

class Agreement {
 public:
  struct Callbacks {
    std::function<void(std::uint64_t op, const LaunchEnd& end)> ended;  // on all ranks, and how
    // A launch failed on some rank: this one is to poison its part, and then to call `spoil`. Later, by all: every rank
    // has.
    std::function<void(std::uint64_t op, bool on_all_ranks)> invalidated;
    // Once, some rank's first error; nothing ends after it. `lost`: a rank that cannot go on, where that is why.
    std::function<void(const Error& error, std::optional<int> lost)> failed;
    std::function<std::string(int rank)> name;  // as people call it
  };
  struct Options {
    int rank = 0, ranks = 1;
    ControlLinks::Open open;
    std::chrono::duration<double> warn_after{
        30};  // until a rank that does nothing while others ask for an op is named, by a warning
  };
  // All of `Tell` but the last are called on threads of its own or by the thread that calls `end`, with no lock held.
  Agreement(const Options& options, Callbacks callbacks);
  ~Agreement();  // says bye; every op that began has ended, or something failed
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  // This rank begins its next op, which is the others' too. Throws what has failed.
  std::uint64_t begin(const OpDescription& op);
  // On all ranks; throws what has failed. `meanwhile` is called some twenty times a second, and what it throws ends the
  // wait alone.
  void await_begun(std::uint64_t op, const std::function<void()>& while_waiting = {});
  void end(std::uint64_t op, const RankTime& spent = {},
           const LaunchEnd& end = {});  // here; of a launch with what this rank has spent so far
  void invalidate(std::uint64_t op);    // a launch that fails here, or was said to fail elsewhere, is poisoned here.
                                        // Once; again does nothing

  // Waits until all ranks have asked for the same op as their next one, which then has begun; or until it is known that
  // they will not: then nothing has, and this rank's next op has the number that this one would have had. What
  // `meanwhile` throws ends the wait, and the op with it.
  std::variant<std::uint64_t, Refusal> ask(const OpDescription& op, const std::function<void()>& while_waiting = {});

  // Here, for all. The others hear it as an error of kind peer, with this rank's number in front, unless it is a hang
  // or tells of a peer. A peer's end alone may be the end of a longer story: rank 0 is told, and its word awaited for
  // half a second; rank 0 waits as long for that peer's.
  void fail(const Error& error, std::optional<int> lost = {});

  // Where two ranks began something else at one op. From the failure on, the same on all.
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
                 const std::optional<OpMismatch>& mismatch);  // false: something had failed before
  void suspect(const Error& error);
  void throw_failure() const;
  bool is_lost(int rank) const;

  const int rank_, ranks_;
  Callbacks callbacks_;
  mutable std::mutex mutex_;  // guards what follows, but for the lines
  std::condition_variable changed_;
  std::uint64_t next_ = 1, begun_ = 0;   // begun_: the last op of which it is known that all ranks have begun it
  std::uint32_t round_ = 0;              // how often `next_` was refused
  std::set<std::uint64_t> invalidated_;  // what this rank has said
  bool asking_ = false;                  // a thread is in `ask`
  std::optional<Refusal> refusal_;       // the answer
  Coordinator coordinator_;              // rank 0's
  std::unique_ptr<Error> failure_;
  std::chrono::steady_clock::time_point failed_at_;
  std::optional<int> lost_;
  std::unique_ptr<Error> suspicion_;  // what fails here once rank 0 has said nothing
  std::chrono::steady_clock::time_point suspected_at_;
  std::optional<OpMismatch> mismatch_;
  std::atomic<bool> stop_{false};
  std::vector<bool> goodbye_received_;  // by rank: it said so; of the thread that serves
  ControlLinks links_;
  std::thread thread_;
};

}  // namespace karez::runtime
