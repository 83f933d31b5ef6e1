// Tests that compare the critical cycle, which is found by cycle ratios, with the simulator, which runs act by act.
#include "karez/report/critical_cycle.h"

#include <gtest/gtest.h>

#include "karez/base/philox.h"
#include "karez/base/text.h"
#include "karez/report/origin.h"
#include "karez/runtime/simulator.h"
#include "karez/runtime/test_plans.h"

namespace karez::report {
namespace {

double makespan(const Plan& plan, const ById<ActorId, double>& seconds) {
  SimulationOptions options;
  options.duration = [&](ActorId a, std::int64_t) { return seconds[a]; };
  return simulate(plan, options).makespan;
}

TEST(CriticalCycle, TheIntervalOfRandomPlansEqualsTheSimulatedTime) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const int workers = 1 + static_cast<int>(seed % 3);
    const Plan plan = RandomGraph(seed, workers).s.plan;
    ById<ActorId, double> seconds;
    for (ActorId a : plan.actors.ids())
      seconds.push_back(philox_word(seed, 1, static_cast<std::uint64_t>(a.index)) % 100);
    const double expected = makespan(plan, seconds);
    EXPECT_NEAR(critical_cycle(plan, seconds, false).cycle.interval, expected, 1e-9 * expected) << "seed " << seed;
    EXPECT_LE(critical_cycle(plan, seconds, true).cycle.interval, expected * (1 + 1e-9)) << "seed " << seed;
  }
}

// Two devices on two workers run two all_reduces, one after the other. The second device is late for each.
const char* pair = R"(
plan "pair" world 1 rank 0 hash 0
device 0: 0 0 "cpu"
device 1: 0 1 "cpu"
stream 0: "compute" device 0 worker 0
stream 1: "compute" device 1 worker 1
stream 2: "comm" device 0 worker 0
stream 3: "comm" device 1 worker 1
register r0: session -> a0
register r1: session -> a1
register r2: a0 -> a2
register r3: a1 -> a3
register r4: a2 -> a4
register r5: a3 -> a5
register r6: a4 -> session
register r7: a5 -> session
register r8: a0 -> a6
register r9: a1 -> a7
register r10: a6 -> session
register r11: a7 -> session
actor a0: compute "first" stream 0 in r0 out r2, r8
actor a1: compute "first" stream 1 in r1 out r3, r9
actor a2: collective "all_reduce %1" stream 2 in r2 out r4
  collective "all_reduce" "sum" by "direct" communicator 0 turn 0 in none f32[1] out none f32[1]
actor a3: collective "all_reduce %1" stream 3 in r3 out r5
  collective "all_reduce" "sum" by "direct" communicator 0 turn 0 in none f32[1] out none f32[1]
actor a4: compute "last" stream 0 in r4 out r6
actor a5: compute "last" stream 1 in r5 out r7
actor a6: collective "all_reduce %2" stream 2 in r8 out r10
  collective "all_reduce" "sum" by "direct" communicator 0 turn 1 in none f32[1] out none f32[1]
actor a7: collective "all_reduce %2" stream 3 in r9 out r11
  collective "all_reduce" "sum" by "direct" communicator 0 turn 1 in none f32[1] out none f32[1]
communicator 0: chunk 64 members 0 0 "cpu", 0 1 "cpu" sequence "all_reduce %1", "all_reduce %2"
)";

std::string path_of(const CriticalCycle& critical) {
  return join(critical.cycle.steps, " ", [&](const SlotCycle::Step& step) {
    return join(critical.actors[static_cast<std::size_t>(step.actor)], "+", [](ActorId a) { return cat("a", a); });
  });
}

TEST(CriticalCycle, CollectivesBeginInTurnWithTheirLastMember) {
  const Plan plan = parse_plan(pair);
  const ById<ActorId, double> seconds = {1, 5, 10, 10, 0, 0, 20, 20};
  const CriticalCycle critical = critical_cycle(plan, seconds, false);
  EXPECT_DOUBLE_EQ(critical.cycle.interval, 5 + 10 + 20);
  EXPECT_DOUBLE_EQ(makespan(plan, seconds), 5 + 10 + 20);
  const std::string path = path_of(critical);
  EXPECT_NE(path.find("a2+a3 a6+a7"), std::string::npos) << path;
  EXPECT_EQ(path.find("a0"), std::string::npos) << path;
}

TEST(CriticalCycle, AWorkerStartsItsMemberBetweenTwoActs) {
  const Plan plan = parse_plan(pair);
  const ById<ActorId, double> seconds = {1,  5, 1, 1,
                                         50, 3, 1, 1};  // a6 is ready at 1, but its turn comes while worker 0 runs a4
  EXPECT_DOUBLE_EQ(critical_cycle(plan, seconds, false).cycle.interval, makespan(plan, seconds));
}

TEST(CriticalCycle, OverlappingLaunchesAreLimitedByTheSlowestPartAlone) {
  const Plan plan = parse_plan(R"(
plan "chain" world 1 rank 0 hash 0
device 0: 0 0 "cpu"
stream 0: "compute" device 0 worker 0
stream 1: "compute" device 0 worker 1
register r0: session -> a0
register r1: a0 -> a1 slots 2
register r2: a1 -> session
actor a0: compute "first" stream 0 in r0 out r1
actor a1: compute "second" stream 1 in r1 out r2
)");
  EXPECT_DOUBLE_EQ(critical_cycle(plan, {3, 4}, false).cycle.interval, 7);
  EXPECT_DOUBLE_EQ(critical_cycle(plan, {3, 4}, true).cycle.interval, 4);
}

TEST(Origin, AnOriginHasAnOpALineAndAModule) {
  auto text = [](std::string_view where) {
    const Origin o = origin_of(where);
    return cat(o.op, "|", o.line, "|", o.module);
  };
  EXPECT_EQ(text("matmul at net.cc:12 (fc1)"), "matmul|net.cc:12|fc1");
  EXPECT_EQ(text("add at net.cc:4"), "add|net.cc:4|");
  EXPECT_EQ(text("matmul at net.cc:12 (block.fc1.grad)"), "matmul|net.cc:12|block.fc1");
  EXPECT_EQ(text("relu_grad at my (own) net.cc:12 (grad)"), "relu_grad|my (own) net.cc:12|");
  EXPECT_EQ(text("variable n0"), "variable n0||");
  EXPECT_EQ(text("net.cc:12"), "|net.cc:12|");
  EXPECT_EQ(text(""), "||");
}

}  // namespace
}  // namespace karez::report
