// The interface through which a session agrees with the other ranks on ops, ends of launches and failures. The
// component `control` implements it. A session with one rank has no control.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "karez/base/error.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/rank_state.h"
#include "karez/runtime/rank_time.h"

namespace karez::runtime {

// Hashes of a call's inputs on one rank; 0 for an input that may differ between ranks. The last entry covers all
// further inputs.
struct InputHashes {
  static constexpr std::size_t capacity = 16;
  std::array<std::uint32_t, capacity> values = {};
  bool operator==(const InputHashes&) const = default;
};

// The description of an op that the ranks compare.
struct OpDescription {
  std::uint64_t hash = 0;
  std::string_view what = {};  // names the op in messages; is compared too
  std::uint64_t sum = 0;       // must add up to 0 over all ranks
  InputHashes inputs = {};
  // The op is over when all ranks have begun it (with `request`: when all ranks have requested it), and a thread waits
  // for that.
  bool is_barrier = false;
};

// How a launch ended, on one rank or on all of them.
struct LaunchEnd {
  std::optional<base::Error> error;  // the first error
  bool skipped = false;              // some acts ran no kernels, because another launch or another rank failed
  bool has_written = false;          // an act that writes a variable ran
};

// Why a requested op did not begin: rank `ranks[0]` requested it, but rank `ranks[1]` began or requested another op.
struct Refusal {
  enum class Reason : std::uint32_t {
    other,      // rank `ranks[1]` reached another op, which `text` names
    withdrawn,  // rank `ranks[0]` withdrew the request before it was answered
  };
  Reason reason = Reason::other;
  int ranks[2] = {0, 0};
  std::string text;
};

class Control {
 public:
  // Called by threads of the control, or by a thread that calls a function below, with no lock held.
  struct Callbacks {
    std::function<void(std::uint64_t op, const LaunchEnd& end)> ended;  // the op has ended on all ranks
    // The launch failed on some rank: this rank must poison its part of the launch and then call `invalidate`. When
    // every rank has done so, this function is called again with `on_all_ranks` true.
    std::function<void(std::uint64_t op, bool on_all_ranks)> invalidated;
    // Called once, with the first error of any rank; no op ends after it. `lost`: the rank that cannot continue, if
    // that is the cause.
    std::function<void(const Error& error, std::optional<int> lost)> failed;
    // Returns this rank's state. If `waits` is true, the state includes the current call and the waits; finding them
    // takes at most `max_seconds`.
    std::function<RankState(bool waits, double max_seconds)> state;
  };

  Control() = default;
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  virtual ~Control() = default;  // every op that began must have ended, or a failure must have occurred

  // Begins this rank's next op, which must be the same on all ranks, and returns its number. Throws the failure, if
  // there is one.
  virtual std::uint64_t begin(const OpDescription& op) = 0;
  // Waits until all ranks have begun the op; throws the failure, if there is one. `while_waiting` is called about
  // twenty times a second; an exception from it ends only the wait.
  virtual void await_begun(std::uint64_t op, const std::function<void()>& while_waiting) = 0;
  // Reports that the op has ended on this rank. For a launch, `spent` is the time that this rank has spent so far.
  virtual void end(std::uint64_t op, const RankTime& spent, const LaunchEnd& end) = 0;
  // Reports that the launch is poisoned on this rank, because it failed here or on another rank. A second call has no
  // effect.
  virtual void invalidate(std::uint64_t op) = 0;
  // Requests an op, and waits for the answer. If all ranks request the same op as their next one, the op has begun, and
  // its number is returned. If a rank reaches another op, the request is refused: no op has begun, and this rank's next
  // op gets the number that this op would have had. An exception from `while_waiting` ends the wait and withdraws the
  // request.
  virtual std::variant<std::uint64_t, Refusal> request(const OpDescription& op,
                                                       const std::function<void()>& while_waiting) = 0;
  virtual void fail(const Error& error) = 0;  // reports a failure of this rank to all ranks
  // If the failure is that two ranks began different ops under this number, returns the ranks, or {-1, 0} if the sum is
  // wrong and the ranks are not known. The result is the same on all ranks.
  virtual std::optional<std::pair<int, int>> differing_ranks(std::uint64_t op) const = 0;

  // Heartbeats detect ranks that hang. They run from the time when the session joins the other ranks until it leaves
  // them or ends.
  virtual void start_heartbeat() = 0;
  virtual void stop_heartbeat() = 0;
};

using MakeControl = std::function<std::unique_ptr<Control>(Control::Callbacks)>;

}  // namespace karez::runtime
