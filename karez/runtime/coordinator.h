// What rank 0 decides about the ops of a world, from what every rank says of each: no thread, no clock, no link.
//
//   begun   all ranks begin the same at one number. Two that differ are a failure of all, which names both
//   ended   all ranks have ended it
//   spoiled a launch fails by its data on some rank. All ranks are told, and each says so when its part of the launch
//   is poisoned, too; then all hear
//           that: from there on ranks may send each other what such a launch makes, which is garbage
//   asked   a rank asks for an op before it begins, so that no harm is done where another rank comes to something else
//   at that number: then every rank
//           that asked is refused, and the number is free for what it does next. Requests are compared by round, which
//           is how often the rank was refused at that number: what is refused so depends on the ranks' programs alone,
//           and not on which of them is faster
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

// Where two ranks began something else at one op: those two; -1 and 0 where all that is known is their sum.
struct OpMismatch {
  std::uint64_t op = 0;
  int ranks[2] = {0, 0};
};

class Coordinator {
 public:
  using Clock = std::chrono::steady_clock;

  // `patience`: how long a rank that asked waits for one that does nothing.
  Coordinator(int ranks, std::chrono::duration<double> warn_after)
      : ranks_(ranks),
        warn_after_(warn_after),
        straggler_detector_(ranks) {}

  struct Outcome {
    std::optional<std::uint64_t> begun, ended;  // by all ranks; begun: where they wait for that
    LaunchEnd end;                              // how, on all ranks together
    std::optional<Error> torn;                  // it failed on some and wrote variables on some
    std::optional<std::pair<std::uint64_t, bool>>
        invalidated;  // a launch that failed on some rank, and whether all have said so
    std::vector<std::pair<int, ControlMessage>> answers;  // to single ranks
    std::optional<std::pair<Error, OpMismatch>> mismatch;
    std::vector<SlowRank> slow;
    std::vector<std::string> warnings;
  };
  // What a rank says: a note that is begun, ended, asked, withdrawn or spoiled.
  Outcome take(int rank, const ControlMessage& message, Clock::time_point now);
  // Asked for and not answered: when to call `look`, which warns of ranks that others have waited for too long.
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
    std::optional<Refusal> refused;  // of ranks that ask in it
    std::vector<int> asking;         // ranks that wait for an answer
    int asked = 0;
    bool warned = false;
    Clock::time_point since;
  };
  struct Op {
    std::optional<Request> begun_as;  // by the first rank that began it
    InputHashes inputs;
    std::uint64_t sum = 0;
    int begun = 0, ended = 0;
    bool awaited = false;
    std::vector<RankTime> rank_time;        // by rank, of those that said so
    int failed = -1;                        // the smallest rank on which it failed, whose error is
    LaunchEnd end;                          // this one's
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
  std::map<std::uint64_t, Op> ops_;           // those not ended by all
  std::map<std::uint64_t, int> invalidated_;  // by launch that failed: how many ranks have said so
  std::string last_op_;                       // what the last op was that all ranks had begun
  int pending_requests_ = 0;                  // requests without an answer
  Clock::time_point last_message_at_;         // when any rank last said anything
};

}  // namespace karez::runtime
