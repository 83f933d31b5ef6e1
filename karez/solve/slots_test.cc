// Tests of slot assignment: a pipeline gets the slots of the 1F1B schedule, and errors show the cycle that makes the
// requested interval impossible.
#include "karez/solve/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/error.h"
#include "karez/solve/test_tokens.h"

namespace karez::solve {
namespace {
using testing::HasSubstr;
constexpr double infinity = std::numeric_limits<double>::infinity();

SlotProblem::Register edge(int from, int to, std::int64_t bytes, int min_slots, int max_slots,
                           int initially_filled = 0) {
  SlotProblem::Register reg;
  reg.producer = from;
  reg.consumers.push_back({to});
  reg.bytes = bytes;
  reg.min_slots = min_slots;
  reg.max_slots = max_slots;
  reg.filled = initially_filled;
  return reg;
}

std::string error_of(auto call) {
  try {
    call();
  } catch (const Error& error) { return cat(name_of(error.kind), ": ", error.what()); }
  return "";
}

// The forward pass of stage i of p is actor i, the backward pass actor p + i; each stage has one stream. Register i
// holds the activations of stage i; registers between stages have two slots.
SlotProblem pipeline(int p, int acts, double forward, double backward) {
  SlotProblem out;
  for (int i = 0; i < 2 * p; ++i) out.actors.push_back({i < p ? forward : backward, acts});
  for (int i = 0; i < p; ++i) out.registers.push_back(edge(i, p + i, 1000, 1, 64));
  for (int i = 0; i + 1 < p; ++i) {
    out.registers.push_back(edge(i, i + 1, 10, 2, 2));
    out.registers.push_back(edge(p + i + 1, p + i, 10, 2, 2));
  }
  for (int i = 0; i < p; ++i) out.streams.push_back({{i, p + i}, {}});
  return out;
}
std::vector<int> backward_first(int p) {
  std::vector<int> priority(p, 1);
  priority.resize(2 * p, 0);
  return priority;
}
std::vector<int> one_f_one_b(const SlotProblem& problem, int p) {
  std::vector<int> slots;
  for (const auto& reg : problem.registers) slots.push_back(reg.min_slots);
  for (int i = 0; i < p; ++i) slots[i] = p - i;
  return slots;
}

TEST(Slots, APipelineStageNeedsOneSlotForItselfAndEachLaterStage) {
  for (int p = 2; p <= 8; ++p) {
    SlotProblem problem = pipeline(p, 1, 1, 2);
    SlotPlan plan = cheapest_slots(problem, 3);
    EXPECT_TRUE(plan.optimal);
    EXPECT_EQ(plan.slots, one_f_one_b(problem, p));
    EXPECT_EQ(TokenGame(problem, plan.slots, backward_first(p)).interval(), 3);
    // With exactly this many bytes as the limit, the search finds no assignment with a shorter interval, and running
    // the acts in 1F1B order gives the same interval.
    EXPECT_EQ(best_slots(problem, plan.bytes).slots, plan.slots);
    for (int i = 0; i < p; ++i) problem.streams[i] = {{}, {{i, 0}, {p + i, i + 1 - p}}};
    EXPECT_EQ(interval_of(problem, plan.slots).interval, 3);
    EXPECT_EQ(TokenGame(problem, plan.slots).interval(), 3);
  }
}

TEST(Slots, ThePipelineBubbleHasTheExpectedShare) {
  for (int p = 2; p <= 8; ++p)
    for (int m = 4; m <= 64; ++m) {
      SlotProblem problem = pipeline(p, m, 2, 4);
      double bubble = 1 - m * 6 / TokenGame(problem, one_f_one_b(problem, p), backward_first(p)).makespan(1);
      double expected = static_cast<double>(p - 1) / (m + p - 1);
      EXPECT_NEAR(bubble, expected, 0.05 * expected) << p << " stages, " << m << " micro-batches";
    }
}

TEST(Slots, WithOneSlotLessAPipelineHasTheIntervalOfItsSlowCycle) {
  for (int p = 2; p <= 8; ++p)
    for (int i = 0; i + 1 < p; ++i) {
      SCOPED_TRACE(cat("stage ", i, " of ", p));
      SlotProblem problem = pipeline(p, 1, 2, 4);
      auto slots = one_f_one_b(problem, p);
      --slots[i];
      SlotCycle cycle = interval_of(problem, slots);
      EXPECT_DOUBLE_EQ(cycle.interval, 6.0 * (p - i) / (p - i - 1));  // forward and back through the later stages
      EXPECT_EQ(cycle.tokens, p - i - 1);
      EXPECT_NEAR(TokenGame(problem, slots, backward_first(p)).interval(), cycle.interval, 1e-9);
      problem.registers[i].max_slots = p - i - 1;
      EXPECT_THAT(error_of([&] { cheapest_slots(problem, 6); }), HasSubstr(cat("-slots of register ", i, "-> ")));
    }
}

TEST(Slots, SlotsHideTheRoundTripOfALink) {
  SlotProblem p;
  p.actors = {{2}, {2}};
  p.registers = {edge(0, 1, 1, 1, 9)};
  p.registers[0].consumers[0].arrives = 3;
  p.registers[0].consumers[0].returns = 4;
  EXPECT_EQ(cheapest_slots(p, 2).slots, (std::vector<int>{6}));  // (2 + 3 + 2 + 4) / 2
  EXPECT_EQ(cheapest_slots(p, 4).slots, (std::vector<int>{3}));
}

TEST(Slots, AnUpdateMayReadTheSumOfAllMicroBatches) {
  // Four backward acts fill a sum that one update reads. The register of the weights, from the update back to the
  // backward actor, is filled at the start, and a backward actor holds its slot for four acts.
  SlotProblem p;
  p.actors = {{1, 4}, {2, 1}};
  p.registers = {edge(0, 1, 100, 1, 4), edge(1, 0, 10, 1, 4, 1)};
  p.registers[0].period = 4;
  p.registers[1].consumers[0].period = 4;
  EXPECT_EQ(interval_of(p, std::vector{1, 1}).interval, 6);
  EXPECT_EQ(best_slots(p, 1000).slots, (std::vector<int>{1, 1}));
  p.registers[1].filled = 2;  // weights are one launch old, so that the update overlaps with the next launch
  EXPECT_EQ(interval_of(p, std::vector{1, 2}).interval,
            6);  // the next sum has no slot while the update reads the current one
  SlotPlan plan = best_slots(p, 1000);
  EXPECT_EQ(plan.interval, 4);
  EXPECT_EQ(plan.slots, (std::vector<int>{2, 2}));
}

TEST(Slots, TheCriticalCycleIsPrinted) {
  SlotProblem p;
  p.actors = {{1, 2}, {3, 1}};
  p.registers = {edge(0, 1, 1, 1, 9)};
  p.registers[0].period = 2;
  SlotCycle cycle = interval_of(p, std::vector{1});
  EXPECT_EQ(print(cycle),
            "actor 0 -next act-> actor 0 act 1 -register 0-> actor 1 -slots of register 0-> actor 0: 5.0 seconds over "
            "1 token");
  EXPECT_FALSE(cycle.is_deadlock());
  p.streams = {{{0, 1}, {}}};
  cycle = interval_of(p, std::vector{9});
  EXPECT_EQ(print(cycle), "actor 0 -stream 0-> actor 1 -stream 0-> actor 0: 5.0 seconds over 1 token");
  EXPECT_EQ(print(interval_of({}, {})), "no cycle");
  cycle.steps = {{1, 2, SlotCycle::WaitKind::data, 3}, {4, 0, SlotCycle::WaitKind::actor, 4}};
  EXPECT_EQ(print(cycle), "actor 1 act 2 -register 3-> actor 4 -next act-> actor 1 act 2: 5.0 seconds over 1 token");
}

TEST(Slots, ADeadlockIsReportedWithItsCycle) {
  SlotProblem p;
  p.actors = {{1}, {1}, {1}};
  p.registers = {edge(0, 1, 1, 1, 2), edge(1, 2, 1, 1, 2), edge(2, 1, 1, 1, 2)};
  SlotCycle cycle = interval_of(p, std::vector{1, 1, 1});
  EXPECT_TRUE(cycle.is_deadlock());
  EXPECT_EQ(cycle.interval, infinity);
  const char* message =
      "hang: slots: the program is not live even with max_slots: actor 1 -register 1-> actor 2 -register 2-> actor 1: "
      "2.0 seconds over 0 tokens";
  EXPECT_EQ(error_of([&] { cheapest_slots(p, 9); }), message);
  EXPECT_EQ(error_of([&] { best_slots(p, 9); }), message);
  p.registers[2].filled = 1;
  EXPECT_EQ(error_of([&] {
              interval_of(p, std::vector{1, 1, 0});
            }),
            "user: slots: register 2 must have 1 to 32767 slots, got 0; 1 are filled before the first launch");
  EXPECT_EQ(interval_of(p, std::vector{1, 1, 1}).interval, 2);
}

TEST(Slots, AnOrderThatWaitsForLaterLaunchesIsADeadlock) {
  SlotProblem p;
  p.actors = {{1}, {1}};
  p.registers = {edge(0, 1, 1, 1, 3)};
  p.streams = {{{}, {{1, 2}, {0, 0}}}};  // the third act of actor 1 precedes the first act of actor 0
  SlotCycle cycle = interval_of(p, std::vector{3});
  EXPECT_TRUE(cycle.is_deadlock());
  EXPECT_EQ(print(cycle), "actor 0 -register 0-> actor 1 -stream 0-> actor 0: 2.0 seconds over -2 tokens");
  p.actors.push_back({1});
  p.registers.push_back(edge(1, 2, 1, 1, 9));
  p.streams[0].order = {{2, 2}, {0, 0}};  // the cycle passes three actors
  EXPECT_EQ(print(interval_of(p, std::vector{3, 9})),
            "actor 0 -register 0-> actor 1 -register 1-> actor 2 -stream 0-> actor 0: 3.0 seconds over -2 tokens");
  p.actors.pop_back();
  p.registers.pop_back();
  p.streams[0].order = {{0, 0}, {1, -2}};
  EXPECT_TRUE(interval_of(p, std::vector{2}).is_deadlock());  // a lag of two launches needs three slots
  EXPECT_EQ(interval_of(p, std::vector{3}).interval, 2);
}

TEST(Slots, AnIntervalMayBeZero) {
  SlotProblem p;
  p.actors = {{0}, {0}};
  p.registers = {edge(0, 1, 8, 1, 3)};
  EXPECT_EQ(cheapest_slots(p, 0).slots, (std::vector<int>{1}));
  EXPECT_EQ(best_slots(p, 8).interval, 0);
  p.actors[1].seconds = 1;
  EXPECT_EQ(
      error_of([&] { cheapest_slots(p, 0); }),
      "user: slots: no slots reach an interval of 0.0 seconds: actor 1 -next act-> actor 1: 1.0 seconds over 1 token");
}

TEST(Slots, ARegisterHasOneSlotByDefault) {
  SlotProblem problem;
  problem.actors = {{1, 1}, {2, 1}};
  SlotProblem::Register reg;
  reg.consumers.push_back({1});
  reg.bytes = 8;
  problem.registers = {reg};
  const SlotPlan plan = cheapest_slots(problem, infinity);
  EXPECT_EQ(plan.slots, std::vector<int>{1});
  EXPECT_EQ(plan.bytes, 8);
}

TEST(Slots, AProgramWithoutRegistersNeedsNoBytes) {
  SlotProblem p;
  EXPECT_TRUE(cheapest_slots(p, 0).optimal);
  EXPECT_EQ(best_slots(p, 0).interval, 0);
  p.actors = {{3}};
  SlotPlan plan = best_slots(p, 0);
  EXPECT_TRUE(plan.optimal && plan.slots.empty());
  EXPECT_EQ(plan.interval, 3);
}

TEST(Slots, ATooSmallCapIsAnErrorThatGivesTheMinimumBytes) {
  SlotProblem p;
  p.actors = {{1}, {1}};
  p.registers = {edge(0, 1, 100, 1, 4), edge(1, 0, 7, 1, 4, 2)};
  EXPECT_EQ(error_of([&] { best_slots(p, 113); }),
            "user: slots: the program is not live within 113 bytes: it needs 114");
  EXPECT_EQ(error_of([&] { best_slots(p, -5); }), "user: slots: the program is not live within -5 bytes: it needs 114");
  EXPECT_EQ(best_slots(p, 114).slots, (std::vector<int>{1, 2}));
  EXPECT_EQ(best_slots(p, std::numeric_limits<std::int64_t>::max()).slots, (std::vector<int>{2, 2}));
}

TEST(Slots, PlansMadeWithoutStepsAreGreedyAndHaveABound) {
  // Two slow paths, parallel to registers 0 and 1 and to registers 1 and 2: each pair needs three slots. The best
  // register for the additional slot is the most expensive one.
  SlotProblem p;
  p.actors = {{1}, {1}, {1}, {1}, {5}, {5}, {5}, {5}};
  p.registers = {edge(0, 1, 9, 1, 6), edge(1, 2, 10, 1, 6), edge(2, 3, 9, 1, 6)};
  for (auto [from, to] : {std::pair(0, 4), {4, 5}, {5, 2}, {1, 6}, {6, 7}, {7, 3}})
    p.registers.push_back(edge(from, to, 1, 2, 2));
  SlotPlan best = cheapest_slots(p, 5), greedy = cheapest_slots(p, 5, {.steps = 0});
  EXPECT_EQ(best.slots, (std::vector<int>{1, 2, 1, 2, 2, 2, 2, 2, 2}));
  EXPECT_TRUE(best.optimal);
  EXPECT_EQ(best.bytes, 50);
  EXPECT_EQ(greedy.slots, (std::vector<int>{2, 1, 2, 2, 2, 2, 2, 2, 2}));
  EXPECT_FALSE(greedy.optimal);
  EXPECT_EQ(greedy.bytes, 58);
  EXPECT_GE(greedy.bound, 40);
  EXPECT_LE(greedy.bound, 50);
  EXPECT_LE(greedy.interval, 5);
  SlotPlan capped = best_slots(p, 50), capped_greedy = best_slots(p, 50, {.steps = 0});
  EXPECT_EQ(capped.slots, best.slots);
  EXPECT_TRUE(capped.optimal);
  EXPECT_GT(capped_greedy.interval, 5);  // the greedy search finds no slots as fast, but does not claim that none exist
  EXPECT_FALSE(capped_greedy.optimal);
  EXPECT_LE(capped_greedy.min_interval, 5);
  EXPECT_LE(capped_greedy.bytes, 50);
}

TEST(Slots, RatesWithoutACommonDivisorAreExact) {
  // With 37, 41, 43 and 31 pieces per launch, covering rows are weak, and the registers of a slow cycle are tried one
  // after the other.
  SlotProblem p;
  p.actors = {{1, 31 * 37}, {1, 37 * 41}, {1, 41 * 43}, {1, 43 * 31}};
  const int pieces[] = {37, 41, 43, 31};
  for (int r = 0; r < 4; ++r) {
    p.registers.push_back(edge(r, (r + 1) % 4, 10 + r, r == 3 ? 8 : 1, r == 3 ? 9 : 2, r == 3 ? 8 : 0));
    p.registers[r].period = p.actors[r].acts / pieces[r];
    p.registers[r].consumers[0].period = p.actors[(r + 1) % 4].acts / pieces[r];
  }
  std::vector<int> best;
  std::int64_t min_bytes = 1'000'000;
  for (int v = 0; v < 16; ++v) {
    std::vector<int> slots{1 + v % 2, 1 + v / 2 % 2, 1 + v / 4 % 2, 8 + v / 8};
    std::int64_t bytes = 10 * slots[0] + 11 * slots[1] + 12 * slots[2] + 13 * slots[3];
    double interval = TokenGame(p, slots).interval();
    EXPECT_EQ(interval_of(p, slots).interval, interval);
    if (interval <= 41 * 43 && bytes < min_bytes) best = slots, min_bytes = bytes;
  }
  SlotPlan plan = cheapest_slots(p, 41 * 43);
  EXPECT_EQ(plan.slots, best);
  EXPECT_TRUE(plan.optimal);
}

TEST(Slots, InvalidProblemsAreErrors) {
  SlotProblem valid;
  valid.actors = {{1, 4}, {1, 2}};
  valid.registers = {edge(0, 1, 8, 1, 3)};
  valid.registers[0].period = 2;
  ASSERT_EQ(error_of([&] { cheapest_slots(valid, 10); }), "");
  auto error_after = [&](auto change) {
    SlotProblem p = valid;
    change(p);
    std::string text = error_of([&] { cheapest_slots(p, 10); });
    EXPECT_EQ(text, error_of([&] { best_slots(p, 10000); }));
    return text;
  };
  EXPECT_EQ(error_after([](auto& p) { p.actors[0].seconds = -1; }),
            "user: slots: the duration of actor 0 must be finite and at least 0, got -1.0 seconds");
  EXPECT_THAT(error_after([](auto& p) { p.actors[0].seconds = infinity; }), HasSubstr("got inf seconds"));
  EXPECT_THAT(error_after([](auto& p) { p.actors[0].seconds = 1e308; }),
              HasSubstr("the sum of all durations and delays in a launch is not finite"));
  EXPECT_THAT(error_after([](auto& p) { p.actors[1].acts = 0; }),
              HasSubstr("actor 1 must act at least once in a launch, got 0"));
  EXPECT_THAT(error_after([](auto& p) { p.actors[1].acts = 20'000; }),
              HasSubstr("a launch has 20004 acts; the limit is 20000"));
  EXPECT_THAT(error_after([](auto& p) { p.registers[0].producer = 2; }),
              HasSubstr("register 0 names producer 2, but the number of actors is 2"));
  EXPECT_THAT(error_after([](auto& p) { p.registers[0].consumers[0].actor = -1; }),
              HasSubstr("register 0 names consumer -1, but the number of actors is 2"));
  EXPECT_THAT(error_after([](auto& p) { p.registers[0].consumers.clear(); }), HasSubstr("register 0 has no consumer"));
  EXPECT_THAT(
      error_after([](auto& p) { p.registers[0].period = 3; }),
      HasSubstr("period 3 at producer 0, which acts 4 times a launch: the number of acts must be a multiple of the"));
  EXPECT_THAT(error_after([](auto& p) { p.registers[0].period = 1; }),
              HasSubstr("gets 4 pieces a launch from actor 0, but actor 1 reads 2"));
  EXPECT_THAT(
      error_after([](auto& p) { p.registers[0].consumers[0].arrives = -1; }),
      HasSubstr(
          "the delays of register 0 to actor 1 and back must be finite and at least 0, got -1.0 and 0.0 seconds"));
  EXPECT_THAT(error_after([](auto& p) { p.registers[0].bytes = -8; }),
              HasSubstr("the slots of register 0 must have at least 0 bytes, got -8"));
  EXPECT_THAT(error_after([](auto& p) { p.registers[0].bytes = std::int64_t{1} << 62; }),
              HasSubstr("size overflows 64 bits"));
  EXPECT_THAT(
      error_after([](auto& p) { p.registers[0].min_slots = 0; }),
      HasSubstr("the range of slots of register 0 must not be empty and must lie within 1 to 32767, got 0 to 3"));
  EXPECT_THAT(error_after([](auto& p) { p.registers[0].max_slots = 40'000; }),
              HasSubstr("must lie within 1 to 32767, got 1 to 40000"));
  EXPECT_THAT(error_after([](auto& p) { p.registers[0].filled = 4; }),
              HasSubstr("must begin with 0 to 3 filled slots, got 4"));
  EXPECT_THAT(error_after([](auto& p) { p.registers[0].filled = -1; }),
              HasSubstr("must begin with 0 to 3 filled slots, got -1"));
  EXPECT_THAT(error_after([](auto& p) { p.streams = {{{0, 0}, {}}}; }), HasSubstr("stream 0 lists actor 0 twice"));
  EXPECT_THAT(error_after([](auto& p) {
                p.streams = {{{7}, {}}};
              }),
              HasSubstr("stream 0 lists actor 7, but the number of actors is 2"));
  EXPECT_THAT(error_after([](auto& p) {
                p.streams = {{{0}, {{1, 0}, {1, 1}}}};
              }),
              HasSubstr("both actors and an order"));
  EXPECT_THAT(error_after([](auto& p) {
                p.streams = {{{}, {{1, 0}}}};
              }),
              HasSubstr("orders 1 acts of actor 1, which acts 2 times a launch"));
  EXPECT_THAT(error_after([](auto& p) {
                p.streams = {{{}, {{1, 0}, {1, 0}}}};
              }),
              HasSubstr("orders act 0 of actor 1 after act 0"));
  EXPECT_THAT(error_after([](auto& p) {
                p.streams = {{{}, {{1, 0}, {1, 2}}}};
              }),
              HasSubstr("orders act 2 of actor 1 after act 0"));
  EXPECT_THAT(error_after([](auto& p) {
                p.streams = {{{}, {{3, 0}}}};
              }),
              HasSubstr("orders actor 3, but the number of actors is 2"));
  EXPECT_THAT(error_after([](auto& p) { p.registers[0].min_slots = 4; }), HasSubstr("got 4 to 3"));
  EXPECT_THAT(error_after([](auto& p) { p.registers[0].consumers[0].returns = -1; }),
              HasSubstr("got 0.0 and -1.0 seconds"));
  for (std::int64_t large_act : {std::int64_t{1} << 40, -(std::int64_t{1} << 40)})
    EXPECT_THAT(error_after([&](auto& p) { p.streams = {{{}, {{1, large_act}}}}; }), HasSubstr("orders act "));
  valid.registers[0].filled = 2;
  EXPECT_EQ(error_of([&] { interval_of(valid, std::vector{1}); }),
            "user: slots: register 0 must have 2 to 32767 slots, got 1; 2 are filled before the first launch");
  EXPECT_NE(error_of([&] { interval_of(valid, std::vector{32768}); }), "");
  EXPECT_EQ(error_of([&] { interval_of(valid, std::vector{2}, {.acts = 6}); }), "") << "six acts";
  EXPECT_NE(error_of([&] { interval_of(valid, std::vector{2}, {.acts = 5}); }), "");
  EXPECT_EQ(error_of([&] { cheapest_slots(valid, -1); }),
            "user: slots: the interval must be at least 0, got -1.0 seconds");
  EXPECT_EQ(error_of([&] {
              interval_of(valid, std::vector{1, 1});
            }),
            "user: slots: expected a slot count for each register, 1 in total, got 2");
}

}  // namespace
}  // namespace karez::solve
