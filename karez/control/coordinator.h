// The coordinator of rank 0 compares and counts the ops of all ranks. It has no thread, clock or link.
//
//   begun        All ranks must begin the same op under one number. If two ranks differ, that is a failure that names
//                both ranks.
//   ended        The op is over when all ranks have ended it.
//   invalidated  A launch has failed on some rank because of its data. The coordinator notifies all ranks, and each
//                rank reports when its part of the launch is poisoned. When all ranks have reported, the coordinator
//                notifies them again: from then on they may exchange the results of the launch, which are garbage.
//   requested    A rank requests an op before the op begins, so that nothing is lost if another rank reaches a
//                different op under that number. In that case all requests of the number are refused, and the number
//                is free for the rank's next op. Requests are compared by round: the number of times that the rank was
//                refused under that op number. So refusals depend only on the ranks' programs, not on which rank is
//                faster.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "karez/control/control_message.h"
#include "karez/control/namespace.h"
#include "karez/control/straggler_detector.h"

namespace karez::control {

// Two ranks that began different ops under one number; {-1, 0} if the sum is wrong and the ranks are not known.
struct OpMismatch {
  std::uint64_t op = 0;
  int ranks[2] = {0, 0};
};

class Coordinator {
 public:
  using Clock = std::chrono::steady_clock;

  // If a request is pending and no rank has sent a message for `warn_after`, a warning names the ranks that have not
  // requested the op.
  Coordinator(int ranks, std::chrono::duration<double> warn_after)
      : ranks_(ranks),
        warn_after_(warn_after),
        straggler_detector_(ranks) {}

  struct Outcome {
    std::optional<std::uint64_t> begun;  // the op that all ranks have begun; set only if a rank waits for that
    std::optional<std::uint64_t> ended;  // the op that all ranks have ended
    LaunchEnd end;                       // how the ended op ended, combined over all ranks
    std::optional<Error> torn;           // set if the op failed on some ranks and wrote variables on some
    // The launch that failed on some rank, and true if all ranks have poisoned it.
    std::optional<std::pair<std::uint64_t, bool>> invalidated;
    std::vector<std::pair<int, ControlMessage>> answers;  // answers to single ranks
    std::optional<std::pair<Error, OpMismatch>> mismatch;
    std::vector<SlowRank> slow;
    std::vector<std::string> warnings;
  };
  // Processes a message from a rank: begun, ended, requested, withdrawn or invalidated.
  Outcome take(int rank, const ControlMessage& message, Clock::time_point now);
  // True if a request is unanswered. Then `check` must be called regularly; it warns about ranks for which other ranks
  // have waited too long.
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
    std::optional<Refusal> refusal;  // the answer to requests of this round
    std::vector<int> waiting_ranks;  // ranks that wait for an answer
    int requests = 0;
    bool warned = false;
    Clock::time_point since;
  };
  struct Op {
    std::optional<Request> begun_as;  // the op as the first rank began it
    InputHashes inputs;
    std::uint64_t sum = 0;
    int begun = 0, ended = 0;
    bool awaited = false;
    std::vector<RankTime> rank_time;        // the reported times, by rank
    int failed_rank = -1;                   // the smallest rank on which the op failed; `end` has its error
    LaunchEnd end;                          // the end of the op, combined over the ranks that have ended it
    std::map<std::uint32_t, Round> rounds;  // rounds of requests; empty once a rank has begun the op
  };

  Outcome take_begun(int rank, const ControlMessage& message);
  Outcome take_requested(int rank, const ControlMessage& message, Clock::time_point now);
  Outcome take_withdrawn(int rank, const ControlMessage& message);
  Outcome take_ended(int rank, const ControlMessage& message);
  Outcome take_invalidated(const ControlMessage& message);
  void refuse(std::uint64_t number, Round& round, std::uint32_t index, const Refusal& refusal, Outcome& out);
  std::string missing_ranks_text(const Round& round, Clock::time_point now) const;

  int ranks_;
  std::chrono::duration<double> warn_after_;
  StragglerDetector straggler_detector_;
  std::map<std::uint64_t, Op> ops_;           // ops that not all ranks have ended
  std::map<std::uint64_t, int> invalidated_;  // by failed launch: the number of ranks that have poisoned it
  std::string last_op_;                       // description of the last op that all ranks had begun
  int pending_requests_ = 0;                  // requests without an answer
  Clock::time_point last_message_at_;         // the time when the last message of any rank arrived
};

}  // namespace karez::control
