// Tests of the coordinator's decisions: which ops begin, which requests are refused and because of which rank, and that
// this does not depend on which rank is faster.
#include "karez/runtime/coordinator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "karez/base/text.h"

namespace karez::runtime {
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

// "0: rank 1 reaches a call" for each refused rank, in the order of ranks; "begun 3" if all have begun it.
std::string text_of(Coordinator::Outcome outcome) {
  std::stable_sort(outcome.answers.begin(), outcome.answers.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string out;
  for (const auto& [rank, note] : outcome.answers) {
    EXPECT_EQ(note.kind, ControlMessage::Kind::refused);
    EXPECT_EQ(note.ranks[0], rank);
    const std::string why = note.reason == Refusal::Reason::other ? cat("rank ", note.ranks[1], " reaches ", note.text)
                                                                  : cat("rank ", note.ranks[1], " withdrew");
    out += cat(out.empty() ? "" : "; ", rank, ": ", why);
  }
  if (outcome.invalidated)
    out += cat(out.empty() ? "" : "; ", "invalidated ", outcome.invalidated->first,
               outcome.invalidated->second ? " by all" : "");
  if (outcome.torn) out += cat(out.empty() ? "" : "; ", "torn: ", outcome.torn->what());
  if (outcome.ended) {
    const LaunchEnd& end = outcome.end;
    out +=
        cat(out.empty() ? "" : "; ", "ended ", *outcome.ended, end.error ? cat(": ", end.error->what()) : std::string(),
            end.skipped ? ", skipped" : "", end.wrote ? ", wrote" : "");
  }
  if (outcome.begun) out += cat(out.empty() ? "" : "; ", "begun ", *outcome.begun);
  if (outcome.mismatch) out += cat(out.empty() ? "" : "; ", outcome.mismatch->first.what());
  for (const std::string& warning : outcome.warnings) out += cat("warning: ", warning);
  return out;
}

class Rank0 : public Coordinator {
 public:
  explicit Rank0(int ranks) : Coordinator(ranks, std::chrono::seconds(30)) {}
  std::string hears(int rank, const ControlMessage& note, double second = 0) {
    return text_of(take(rank, note, at(second)));
  }
  std::string looks(double second) { return text_of(check(at(second))); }

 private:
  static Clock::time_point at(double second) {
    return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(second));
  }
};

TEST(Coordinator, AFailedLaunchIsReportedAtOnceAndAgainWhenAllRanksHavePoisonedIt) {
  Rank0 first(3);
  EXPECT_EQ(first.hears(2, message(ControlMessage::Kind::invalidated, 5, "")), "invalidated 5");
  EXPECT_EQ(first.hears(0, message(ControlMessage::Kind::invalidated, 5, "")), "");
  EXPECT_EQ(first.hears(1, message(ControlMessage::Kind::invalidated, 6, "")), "invalidated 6")
      << "another launch meanwhile";
  EXPECT_EQ(first.hears(1, message(ControlMessage::Kind::invalidated, 5, "")), "invalidated 5 by all");
}

ControlMessage ended(std::uint64_t op, const LaunchEnd& end) { return ControlMessage::of_end(op, end); }
LaunchEnd failed(const char* why, bool wrote = false) {
  return {Error(ErrorKind::data, why, "net.py:3"), false, wrote};
}

TEST(Coordinator, TheEndOfALaunchCombinesThoseOfAllRanks) {
  Rank0 first(3);
  for (int rank : {2, 0}) EXPECT_EQ(first.hears(rank, ended(1, {{}, false, true})), "");
  EXPECT_EQ(first.hears(1, ended(1, {{}, false, true})), "ended 1, wrote") << "a training step writes";
  EXPECT_EQ(first.hears(2, ended(2, failed("c"))), "");
  EXPECT_EQ(first.hears(1, ended(2, failed("b"))), "");
  EXPECT_EQ(first.hears(0, ended(2, {{}, true, false})), "ended 2: rank 1: b, skipped")
      << "the error of the smallest rank, in any order of arrival";
  EXPECT_EQ(first.hears(0, ended(3, {{}, true, false})), "");
  EXPECT_EQ(first.hears(1, ended(3, {})), "");
  EXPECT_EQ(first.hears(2, ended(3, {})), "ended 3, skipped");
}

TEST(Coordinator, ALaunchThatFailedOnOneRankAndWroteOnAnotherIsTorn) {
  Rank0 first(2);
  EXPECT_EQ(first.hears(0, ended(1, {{}, false, true})), "");
  EXPECT_EQ(first.hears(1, ended(1, failed("b"))).find("torn: rank 1: b; the launch had begun to write its variables"),
            0u);
  EXPECT_EQ(first.hears(0, ended(2, {{}, true, false})), "");
  EXPECT_EQ(first.hears(1, ended(2, {{}, false, true})).find("torn: a launch did not run on all ranks"), 0u);
  EXPECT_EQ(first.hears(0, ended(3, failed("a", true))), "");
  EXPECT_EQ(first.hears(1, ended(3, {{}, true, false})).find("torn: rank 0: a; "), 0u);
}

TEST(Coordinator, ARequestOfAllRanksBegins) {
  Rank0 first(3);
  EXPECT_EQ(first.hears(2, requested(1, "a read")), "");
  EXPECT_EQ(first.hears(0, requested(1, "a read")), "");
  EXPECT_TRUE(first.has_pending_requests());
  EXPECT_EQ(first.hears(1, requested(1, "a read")), "begun 1");
  EXPECT_FALSE(first.has_pending_requests());
}

TEST(Coordinator, ARequestOfOneRankIsRefusedWhetherTheOtherRankIsEarlierOrLater) {
  Rank0 first(2);
  EXPECT_EQ(first.hears(0, requested(1, "a read")), "");
  EXPECT_EQ(first.hears(1, begun(1, "a call")), "0: rank 1 reaches a call");
  EXPECT_EQ(first.hears(0, begun(1, "a call")), "");
  EXPECT_EQ(first.hears(1, begun(2, "a call")), "");
  EXPECT_EQ(first.hears(0, requested(2, "a read")), "0: rank 1 reaches a call");
  EXPECT_EQ(first.hears(0, requested(2, "another read", 1)), "0: rank 1 reaches a call");
  EXPECT_EQ(first.hears(0, begun(2, "a call")), "") << "and no failure";
  EXPECT_FALSE(first.has_pending_requests());
}

TEST(Coordinator, RanksThatAskForDifferentOpsAreEachToldAnothersOp) {
  Rank0 first(3);
  EXPECT_EQ(first.hears(0, requested(1, "x")), "");
  EXPECT_EQ(first.hears(1, requested(1, "y")), "0: rank 1 reaches y; 1: rank 0 reaches x");
  EXPECT_EQ(first.hears(2, requested(1, "x")), "2: rank 1 reaches y");
  for (int rank : {0, 1}) EXPECT_EQ(first.hears(rank, requested(1, "z", 1)), "");
  EXPECT_EQ(first.hears(2, requested(1, "z", 1)), "begun 1");
}

TEST(Coordinator, RanksThatDifferWithoutAskingFailTheWorld) {
  Rank0 first(2);
  first.hears(1, begun(1, "a call"));
  EXPECT_EQ(first.hears(0, begun(1, "another")),
            "the ranks do not run the same program: rank 0 reaches another, but rank 1 reaches a call");
}

TEST(Coordinator, TheSumsOfMatchingRanksAddUpToZero) {
  for (const std::uint64_t other : {7, 8}) {
    Rank0 first(2);
    ControlMessage mine = begun(1, "the links of 'step'"), theirs = mine;
    mine.sum = 7;
    theirs.sum = 0 - other;
    EXPECT_EQ(first.hears(0, mine), "");
    EXPECT_EQ(first.hears(1, theirs),
              other == 7 ? "" : "the links of 'step' do not match: two ranks disagree about the messages between them");
  }
}

TEST(Coordinator, TheHashOfARequestIsComparedToo) {
  Rank0 first(2);
  ControlMessage mine = requested(1, "a write"), other = mine;
  mine.hash = 1;
  other.hash = 2;
  first.hears(0, mine);
  EXPECT_EQ(first.hears(1, other), "0: rank 1 reaches a write; 1: rank 0 reaches a write");
}

TEST(Coordinator, OtherRanksWaitForAWithdrawnRequestToBeRepeated) {
  Rank0 first(2);
  first.hears(0, requested(1, "a read"));
  EXPECT_EQ(first.hears(0, message(ControlMessage::Kind::withdrawn, 1, "a read")), "0: rank 0 withdrew");
  EXPECT_FALSE(first.has_pending_requests());
  first.hears(1, requested(1, "a read"));
  EXPECT_EQ(first.hears(1, message(ControlMessage::Kind::withdrawn, 1, "a read")), "1: rank 1 withdrew");
  first.hears(0, requested(1, "a read"));
  EXPECT_EQ(first.hears(0, message(ControlMessage::Kind::withdrawn, 1, "a read")), "0: rank 0 withdrew");
  first.hears(1, requested(1, "a read"));
  EXPECT_EQ(first.hears(0, requested(1, "a read")), "begun 1");
  EXPECT_EQ(first.hears(0, message(ControlMessage::Kind::withdrawn, 1, "a read")), "") << "too late: all have begun it";
}

TEST(Coordinator, ARequestThatOneOfSeveralRanksWithdrawsRemainsForTheOthers) {
  Rank0 first(3);
  EXPECT_EQ(first.hears(0, requested(1, "a read")), "");
  EXPECT_EQ(first.hears(1, requested(1, "a read")), "");
  EXPECT_EQ(first.hears(0, message(ControlMessage::Kind::withdrawn, 1, "a read")), "0: rank 0 withdrew");
  EXPECT_TRUE(first.has_pending_requests());
  EXPECT_EQ(first.hears(2, requested(1, "a read")), "");
  EXPECT_EQ(first.hears(0, requested(1, "a read")), "begun 1");
}

TEST(Coordinator, AMissingRankIsReportedOnceNoMessageHasArrivedForTheTimeout) {
  Rank0 first(3);
  ControlMessage call = begun(1, "a call");
  for (int rank : {0, 1, 2}) first.hears(rank, call, 1);
  first.hears(0, requested(2, "a read"), 2);
  for (int rank : {0, 1}) first.hears(rank, message(ControlMessage::Kind::ended, 1, ""), 3);
  EXPECT_EQ(first.looks(100), "") << "an earlier op still runs on a rank";
  first.hears(2, message(ControlMessage::Kind::ended, 1, ""), 200);
  EXPECT_EQ(first.looks(229), "");
  EXPECT_EQ(
      first.looks(230),
      "warning: a read: ranks 1, 2 have not reached it for 30.0 s, nor any other op after a call; other ranks wait");
  EXPECT_TRUE(first.has_pending_requests());
  EXPECT_EQ(first.looks(320), "") << "once";
}

TEST(Coordinator, TheWarningNamesTheLastOpThatAllRanksRequested) {
  Rank0 first(2);
  ControlMessage save = requested(1, "a save");
  save.awaited = true;
  for (int rank : {0, 1}) first.hears(rank, save, 1);
  first.hears(1, requested(2, "a read"), 2);
  EXPECT_EQ(first.looks(40),
            "warning: a read: rank 0 has not reached it for 38.0 s, nor any other op after a save; other ranks wait");
}

// Runs programs of requests (one attempt each) and calls, with messages in a random order; returns the refusals of each
// rank.
std::string refused_in_order(const std::vector<std::vector<std::string>>& programs, std::uint64_t seed) {
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
  Rank0 first(ranks);
  for (int steps = 0; steps < 1000; ++steps) {
    std::vector<int> able;
    for (int rank = 0; rank < ranks; ++rank)
      if (const State& s = states[static_cast<std::size_t>(rank)];
          !s.waits && s.at < programs[static_cast<std::size_t>(rank)].size())
        able.push_back(rank);
    if (able.empty()) break;
    const int rank = able[random() % able.size()];
    State& s = states[static_cast<std::size_t>(rank)];
    const std::string& what = programs[static_cast<std::size_t>(rank)][s.at++];
    const bool call = what.starts_with("call");
    s.waits = !call;
    const Coordinator::Outcome outcome =
        first.take(rank, call ? begun(s.op, what) : requested(s.op, what, s.round), start);
    if (call) ++s.op, s.round = 0;
    EXPECT_FALSE(outcome.mismatch) << outcome.mismatch->first.what();
    for (const auto& [receiver, note] : outcome.answers) {
      State& told = states[static_cast<std::size_t>(receiver)];
      EXPECT_TRUE(told.waits);
      told.waits = false;
      ++told.round;
      told.log += cat("-", programs[static_cast<std::size_t>(receiver)][told.at - 1], " ");
    }
    for (int receiver = 0; outcome.begun && receiver < ranks; ++receiver) {
      State& told = states[static_cast<std::size_t>(receiver)];
      if (!std::exchange(told.waits, false)) continue;
      ++told.op;
      told.round = 0;
      told.log += cat("+", programs[static_cast<std::size_t>(receiver)][told.at - 1], " ");
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
      EXPECT_EQ(refused_in_order(all[i], seed), expected[i]) << i << ", seed " << seed;
}

}  // namespace
}  // namespace karez::runtime
