// The coordinator of rank 0 compares and counts the ops of all ranks, without a thread, clock or link.
//
//   begun        all ranks begin the same op at one number. Two ranks that differ are a failure, which names both
//   ended        all ranks have ended the op
//   invalidated  a launch fails by its data on some rank. All ranks are notified, and each reports when its part of the
//                launch is poisoned. When all have reported, all are notified again: from then on ranks may exchange
//                the results of the launch, which are garbage
//   asked        a rank asks for an op before it begins, so that nothing is lost if another rank reaches a different op
//                at that number: then every rank that asked is refused, and the number is free for its next op.
//                Requests are compared by round, which is the number of times that the rank was refused at that op
//                number. So refusals depend on the ranks' programs alone, and not on which rank is faster
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "karez/runtime/control_message.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/straggler_detector.h"

namespace karez::runtime {

// Two ranks that began different things at one op; -1 and 0 if only a wrong sum is known.
struct OpMismatch {
  std::uint64_t op = 0;
  int ranks[2] = {0, 0};
};

class Coordinator {
 public:
  using Clock = std::chrono::steady_clock;

  // `warn_after`: how long a rank that asked waits for an idle rank before a warning.
  Coordinator(int ranks, std::chrono::duration<double> warn_after)
      : ranks_(ranks),
        warn_after_(warn_after),
        straggler_detector_(ranks) {}

  struct Outcome {
    std::optional<std::uint64_t> begun, ended;  // by all ranks; begun only if a rank waits for it
    LaunchEnd end;                              // how it ended on all ranks together
    std::optional<Error> torn;                  // set if it failed on some ranks and wrote variables on some
    // A launch that failed on some rank, and whether all ranks have poisoned it.
    std::optional<std::pair<std::uint64_t, bool>> invalidated;
    std::vector<std::pair<int, ControlMessage>> answers;  // to single ranks
    std::optional<std::pair<Error, OpMismatch>> mismatch;
    std::vector<SlowRank> slow;
    std::vector<std::string> warnings;
  };
  // A message from a rank: begun, ended, asked, withdrawn or invalidated.
  Outcome take(int rank, const ControlMessage& message, Clock::time_point now);
  // True if a request is unanswered. Then `check` must be called regularly; it warns of ranks that others have waited
  // for too long.
  bool has_pending_requests() const { return pending_requests_ > 0; }
  Outcome check(Clock::time_point now);

 private:
  struct Request {
    int rank = 0;
    std::uint64_t hash = 0;
    std::string what;
  };
  struct Round {
    Request first;
    std::optional<Refusal> refused;  // the answer to ranks that ask in this round
    std::vector<int> asking;         // ranks that wait for an answer
    int requested = 0;
    bool warned = false;
    Clock::time_point since;
  };
  struct Op {
    std::optional<Request> begun_as;  // by the first rank that began it
    InputHashes inputs;
    std::uint64_t sum = 0;
    int begun = 0, ended = 0;
    bool awaited = false;
    std::vector<RankTime> rank_time;        // by rank, as reported
    int failed = -1;                        // the smallest rank on which it failed; `end` has its error
    LaunchEnd end;                          // of all ranks so far
    std::map<std::uint32_t, Round> rounds;  // of requests, while no rank has begun it
  };

  Outcome take_begun(int rank, const ControlMessage& message);
  Outcome take_asked(int rank, const ControlMessage& message, Clock::time_point now);
  Outcome take_withdrawn(int rank, const ControlMessage& message);
  Outcome take_ended(int rank, const ControlMessage& message);
  Outcome take_invalidated(const ControlMessage& message);
  void refuse(std::uint64_t number, Round& round, std::uint32_t index, const Refusal& why, Outcome& out);
  std::string missing_ranks_text(const Round& round, Clock::time_point now) const;

  int ranks_;
  std::chrono::duration<double> warn_after_;
  StragglerDetector straggler_detector_;
  std::map<std::uint64_t, Op> ops_;           // ops that not all ranks have ended
  std::map<std::uint64_t, int> invalidated_;  // by failed launch: the number of ranks that have poisoned it
  std::string last_op_;                       // description of the last op that all ranks had begun
  int pending_requests_ = 0;                  // requests without an answer
  Clock::time_point last_message_at_;         // when the last message of any rank arrived
};

}  // namespace karez::runtime
