// Tests of the coordinator's decisions: which ops begin, which requests are refused, and which rank is named as the
// reason. The decisions must not depend on which rank is faster.
#include "karez/control/coordinator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "karez/base/text.h"

namespace karez::control {
namespace {

using Clock = Coordinator::Clock;
constexpr Clock::time_point start{};

ControlMessage message(ControlMessage::Kind kind, std::uint64_t op, std::string what, std::uint32_t round = 0) {
  ControlMessage out;
  out.kind = kind;
  out.op = op;
  out.round = round;
  out.text = std::move(what);
  return out;
}
ControlMessage requested(std::uint64_t op, std::string what, std::uint32_t round = 0) {
  return message(ControlMessage::Kind::requested, op, std::move(what), round);
}
ControlMessage begun(std::uint64_t op, std::string what) {
  return message(ControlMessage::Kind::begun, op, std::move(what));
}

// Formats an outcome: "0: rank 1 reaches a call" for each refused rank, in the order of ranks; "begun 3" if all ranks
// have begun the op.
std::string format_outcome(Coordinator::Outcome outcome) {
  std::stable_sort(outcome.answers.begin(), outcome.answers.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string out;
  for (const auto& [rank, answer] : outcome.answers) {
    EXPECT_EQ(answer.kind, ControlMessage::Kind::refused);
    EXPECT_EQ(answer.ranks[0], rank);
    const bool withdrawn = answer.reason == Refusal::Reason::withdrawn;
    out += cat(out.empty() ? "" : "; ", rank, ": rank ", answer.ranks[1],
               withdrawn ? " withdrew" : cat(" reaches ", answer.text));
  }
  if (outcome.invalidated)
    out += cat(out.empty() ? "" : "; ", "invalidated ", outcome.invalidated->first,
               outcome.invalidated->second ? " by all" : "");
  if (outcome.torn) out += cat(out.empty() ? "" : "; ", "torn: ", outcome.torn->what());
  if (outcome.ended) {
    const LaunchEnd& end = outcome.end;
    out +=
        cat(out.empty() ? "" : "; ", "ended ", *outcome.ended, end.error ? cat(": ", end.error->what()) : std::string(),
            end.skipped ? ", skipped" : "", end.has_written ? ", wrote" : "");
  }
  if (outcome.begun) out += cat(out.empty() ? "" : "; ", "begun ", *outcome.begun);
  if (outcome.mismatch) out += cat(out.empty() ? "" : "; ", outcome.mismatch->first.what());
  for (const std::string& warning : outcome.warnings) out += cat("warning: ", warning);
  return out;
}

class Rank0 : public Coordinator {
 public:
  explicit Rank0(int ranks) : Coordinator(ranks, std::chrono::seconds(30)) {}
  std::string take_text(int rank, const ControlMessage& message, double second = 0) {
    return format_outcome(take(rank, message, at(second)));
  }
  std::string check_text(double second) { return format_outcome(check(at(second))); }

 private:
  static Clock::time_point at(double second) {
    return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(second));
  }
};

TEST(Coordinator, AFailedLaunchIsReportedAtOnceAndAgainWhenAllRanksHavePoisonedIt) {
  Rank0 rank0(3);
  EXPECT_EQ(rank0.take_text(2, message(ControlMessage::Kind::invalidated, 5, "")), "invalidated 5");
  EXPECT_EQ(rank0.take_text(0, message(ControlMessage::Kind::invalidated, 5, "")), "");
  EXPECT_EQ(rank0.take_text(1, message(ControlMessage::Kind::invalidated, 6, "")), "invalidated 6")
      << "a report of another launch in between";
  EXPECT_EQ(rank0.take_text(1, message(ControlMessage::Kind::invalidated, 5, "")), "invalidated 5 by all");
}

ControlMessage ended(std::uint64_t op, const LaunchEnd& end) { return ControlMessage::of_end(op, end); }
LaunchEnd failed(const char* text, bool has_written = false) {
  return {Error(ErrorKind::data, text, "net.py:3"), false, has_written};
}

TEST(Coordinator, TheEndOfALaunchCombinesTheEndsOnAllRanks) {
  Rank0 rank0(3);
  for (int rank : {2, 0}) EXPECT_EQ(rank0.take_text(rank, ended(1, {{}, false, true})), "");
  EXPECT_EQ(rank0.take_text(1, ended(1, {{}, false, true})), "ended 1, wrote") << "a training step writes variables";
  EXPECT_EQ(rank0.take_text(2, ended(2, failed("c"))), "");
  EXPECT_EQ(rank0.take_text(1, ended(2, failed("b"))), "");
  EXPECT_EQ(rank0.take_text(0, ended(2, {{}, true, false})), "ended 2: rank 1: b, skipped")
      << "expected the error of the smallest rank that failed, although rank 2 reported first";
  EXPECT_EQ(rank0.take_text(0, ended(3, {{}, true, false})), "");
  EXPECT_EQ(rank0.take_text(1, ended(3, {})), "");
  EXPECT_EQ(rank0.take_text(2, ended(3, {})), "ended 3, skipped");
}

TEST(Coordinator, ALaunchThatFailedOnOneRankAndWroteOnAnotherIsTorn) {
  Rank0 rank0(2);
  EXPECT_EQ(rank0.take_text(0, ended(1, {{}, false, true})), "");
  EXPECT_EQ(
      rank0.take_text(1, ended(1, failed("b"))).find("torn: rank 1: b; the launch had begun to write its variables"),
      0u);
  EXPECT_EQ(rank0.take_text(0, ended(2, {{}, true, false})), "");
  EXPECT_EQ(rank0.take_text(1, ended(2, {{}, false, true})).find("torn: a launch did not run on all ranks"), 0u);
  EXPECT_EQ(rank0.take_text(0, ended(3, failed("a", true))), "");
  EXPECT_EQ(rank0.take_text(1, ended(3, {{}, true, false})).find("torn: rank 0: a; "), 0u);
}

TEST(Coordinator, AnOpThatAllRanksRequestBegins) {
  Rank0 rank0(3);
  EXPECT_EQ(rank0.take_text(2, requested(1, "a read")), "");
  EXPECT_EQ(rank0.take_text(0, requested(1, "a read")), "");
  EXPECT_TRUE(rank0.has_pending_requests());
  EXPECT_EQ(rank0.take_text(1, requested(1, "a read")), "begun 1");
  EXPECT_FALSE(rank0.has_pending_requests());
}

TEST(Coordinator, ARequestOfOneRankIsRefusedWhetherTheOtherRankIsEarlierOrLater) {
  Rank0 rank0(2);
  EXPECT_EQ(rank0.take_text(0, requested(1, "a read")), "");
  EXPECT_EQ(rank0.take_text(1, begun(1, "a call")), "0: rank 1 reaches a call");
  EXPECT_EQ(rank0.take_text(0, begun(1, "a call")), "");
  EXPECT_EQ(rank0.take_text(1, begun(2, "a call")), "");
  EXPECT_EQ(rank0.take_text(0, requested(2, "a read")), "0: rank 1 reaches a call");
  EXPECT_EQ(rank0.take_text(0, requested(2, "another read", 1)), "0: rank 1 reaches a call");
  EXPECT_EQ(rank0.take_text(0, begun(2, "a call")), "") << "the refused request must not cause a failure";
  EXPECT_FALSE(rank0.has_pending_requests());
}

TEST(Coordinator, RanksThatRequestDifferentOpsAreRefusedWithTheOpOfAnotherRank) {
  Rank0 rank0(3);
  EXPECT_EQ(rank0.take_text(0, requested(1, "x")), "");
  EXPECT_EQ(rank0.take_text(1, requested(1, "y")), "0: rank 1 reaches y; 1: rank 0 reaches x");
  EXPECT_EQ(rank0.take_text(2, requested(1, "x")), "2: rank 1 reaches y");
  for (int rank : {0, 1}) EXPECT_EQ(rank0.take_text(rank, requested(1, "z", 1)), "");
  EXPECT_EQ(rank0.take_text(2, requested(1, "z", 1)), "begun 1");
}

TEST(Coordinator, RanksThatBeginDifferentOpsFailTheWorld) {
  Rank0 rank0(2);
  rank0.take_text(1, begun(1, "a call"));
  EXPECT_EQ(rank0.take_text(0, begun(1, "another")),
            "the ranks do not run the same program: rank 0 reaches another, but rank 1 reaches a call");
}

TEST(Coordinator, TheSumsOfAllRanksMustAddUpToZero) {
  for (const std::uint64_t other : {7, 8}) {
    Rank0 rank0(2);
    ControlMessage own_message = begun(1, "the links of 'step'"), other_message = own_message;
    own_message.sum = 7;
    other_message.sum = 0 - other;
    EXPECT_EQ(rank0.take_text(0, own_message), "");
    EXPECT_EQ(rank0.take_text(1, other_message),
              other == 7 ? "" : "the links of 'step' do not match: two ranks disagree about the messages between them");
  }
}

TEST(Coordinator, ALateRequestGetsTheAnswerOfItsRound) {
  Rank0 rank0(3);
  EXPECT_EQ(rank0.take_text(0, requested(2, "element 4")), "");
  EXPECT_EQ(rank0.take_text(1, requested(2, "the end")), "0: rank 1 reaches the end; 1: rank 0 reaches element 4");
  EXPECT_EQ(rank0.take_text(0, begun(2, "a call")), "");
  EXPECT_EQ(rank0.take_text(2, requested(2, "element 4")), "2: rank 1 reaches the end")
      << "rank 0 began the call because of this answer";
  EXPECT_EQ(rank0.take_text(1, requested(2, "a read", 1)), "1: rank 0 reaches a call");
}

TEST(Coordinator, RequestsWithDifferentHashesAreRefused) {
  Rank0 rank0(2);
  ControlMessage own_message = requested(1, "a write"), other_message = own_message;
  own_message.hash = 1;
  other_message.hash = 2;
  rank0.take_text(0, own_message);
  EXPECT_EQ(rank0.take_text(1, other_message), "0: rank 1 reaches a write; 1: rank 0 reaches a write");
}

TEST(Coordinator, OtherRanksWaitForAWithdrawnRequestToBeRepeated) {
  Rank0 rank0(2);
  rank0.take_text(0, requested(1, "a read"));
  EXPECT_EQ(rank0.take_text(0, message(ControlMessage::Kind::withdrawn, 1, "a read")), "0: rank 0 withdrew");
  EXPECT_FALSE(rank0.has_pending_requests());
  rank0.take_text(1, requested(1, "a read"));
  EXPECT_EQ(rank0.take_text(1, message(ControlMessage::Kind::withdrawn, 1, "a read")), "1: rank 1 withdrew");
  rank0.take_text(0, requested(1, "a read"));
  EXPECT_EQ(rank0.take_text(0, message(ControlMessage::Kind::withdrawn, 1, "a read")), "0: rank 0 withdrew");
  rank0.take_text(1, requested(1, "a read"));
  EXPECT_EQ(rank0.take_text(0, requested(1, "a read")), "begun 1");
  EXPECT_EQ(rank0.take_text(0, message(ControlMessage::Kind::withdrawn, 1, "a read")), "")
      << "too late: all ranks have begun the op";
}

TEST(Coordinator, ARequestThatOneRankWithdrawsRemainsPendingForTheOtherRanks) {
  Rank0 rank0(3);
  EXPECT_EQ(rank0.take_text(0, requested(1, "a read")), "");
  EXPECT_EQ(rank0.take_text(1, requested(1, "a read")), "");
  EXPECT_EQ(rank0.take_text(0, message(ControlMessage::Kind::withdrawn, 1, "a read")), "0: rank 0 withdrew");
  EXPECT_TRUE(rank0.has_pending_requests());
  EXPECT_EQ(rank0.take_text(2, requested(1, "a read")), "");
  EXPECT_EQ(rank0.take_text(0, requested(1, "a read")), "begun 1");
}

TEST(Coordinator, MissingRanksAreReportedOnceWhenNoMessageHasArrivedForTheTimeout) {
  Rank0 rank0(3);
  ControlMessage call = begun(1, "a call");
  for (int rank : {0, 1, 2}) rank0.take_text(rank, call, 1);
  rank0.take_text(0, requested(2, "a read"), 2);
  for (int rank : {0, 1}) rank0.take_text(rank, message(ControlMessage::Kind::ended, 1, ""), 3);
  EXPECT_EQ(rank0.check_text(100), "") << "an earlier op is still running on rank 2";
  rank0.take_text(2, message(ControlMessage::Kind::ended, 1, ""), 200);
  EXPECT_EQ(rank0.check_text(229), "");
  EXPECT_EQ(
      rank0.check_text(230),
      "warning: a read: ranks 1, 2 have not reached it for 30.0 s, nor any other op after a call; other ranks wait");
  EXPECT_TRUE(rank0.has_pending_requests());
  EXPECT_EQ(rank0.check_text(320), "") << "the warning must not be repeated";
}

TEST(Coordinator, TheWarningNamesTheLastOpThatAllRanksRequested) {
  Rank0 rank0(2);
  ControlMessage save = requested(1, "a save");
  save.awaited = true;
  for (int rank : {0, 1}) rank0.take_text(rank, save, 1);
  rank0.take_text(1, requested(2, "a read"), 2);
  EXPECT_EQ(rank0.check_text(40),
            "warning: a read: rank 0 has not reached it for 38.0 s, nor any other op after a save; other ranks wait");
}

// Runs a program of calls and requests on each rank, with the messages of the ranks in random order. A refused request
// is not repeated. Returns, for each rank, its requests that began ("+x") or were refused ("-x").
std::string run_programs(const std::vector<std::vector<std::string>>& programs, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const int ranks = static_cast<int>(programs.size());
  struct State {
    std::size_t at = 0;
    std::uint64_t op = 1;
    std::uint32_t round = 0;
    bool waits = false;
    std::string log;
  };
  std::vector<State> states(programs.size());
  Rank0 rank0(ranks);
  for (int steps = 0; steps < 1000; ++steps) {
    std::vector<int> ready_ranks;
    for (int rank = 0; rank < ranks; ++rank)
      if (const State& s = states[static_cast<std::size_t>(rank)];
          !s.waits && s.at < programs[static_cast<std::size_t>(rank)].size())
        ready_ranks.push_back(rank);
    if (ready_ranks.empty()) break;
    const int rank = ready_ranks[random() % ready_ranks.size()];
    State& s = states[static_cast<std::size_t>(rank)];
    const std::string& what = programs[static_cast<std::size_t>(rank)][s.at++];
    const bool call = what.starts_with("call");
    s.waits = !call;
    const Coordinator::Outcome outcome =
        rank0.take(rank, call ? begun(s.op, what) : requested(s.op, what, s.round), start);
    if (call) ++s.op, s.round = 0;
    EXPECT_FALSE(outcome.mismatch) << outcome.mismatch->first.what();
    for (const auto& [receiver, answer] : outcome.answers) {
      State& receiver_state = states[static_cast<std::size_t>(receiver)];
      EXPECT_TRUE(receiver_state.waits);
      receiver_state.waits = false;
      ++receiver_state.round;
      receiver_state.log += cat("-", programs[static_cast<std::size_t>(receiver)][receiver_state.at - 1], " ");
    }
    for (int receiver = 0; outcome.begun && receiver < ranks; ++receiver) {
      State& receiver_state = states[static_cast<std::size_t>(receiver)];
      if (!std::exchange(receiver_state.waits, false)) continue;
      ++receiver_state.op;
      receiver_state.round = 0;
      receiver_state.log += cat("+", programs[static_cast<std::size_t>(receiver)][receiver_state.at - 1], " ");
    }
  }
  std::string out;
  for (const State& s : states) out += cat(s.log, s.waits ? "waits" : "", "| ");
  return out;
}

TEST(Coordinator, RefusalsDoNotDependOnWhichRankIsFaster) {
  const std::vector<std::vector<std::vector<std::string>>> all = {
      {{"x", "call", "y"}, {"call", "y"}, {"x", "call", "y"}},
      {{"x", "x", "call"}, {"y", "x", "call"}, {"x", "x", "call"}},
      {{"x", "y", "z", "call"}, {"y", "x", "z", "call"}, {"call"}},
      {{"x", "x", "x", "call", "x", "call"}, {"call", "x", "call"}, {"y", "call", "x", "call"}},
      {{"call", "call", "x"}, {"x", "call", "call", "x"}, {"call", "y", "call", "x"}},
  };
  const std::vector<std::string> expected = {
      "-x +y | +y | -x +y | ",       "-x +x | -y +x | -x +x | ", "-x -y -z | -y -x -z | | ",
      "-x -x -x +x | +x | -y +x | ", "+x | -x +x | -y +x | ",
  };
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::uint64_t seed = 0; seed < 300; ++seed)
      EXPECT_EQ(run_programs(all[i], seed), expected[i]) << "programs " << i << ", seed " << seed;
}

}  // namespace
}  // namespace karez::control
