// Tests of plans that share an arena: their launches run in order, and the arena is as large as the largest plan needs.
#include <gtest/gtest.h>

#include <random>

#include "karez/base/test_error.h"
#include "karez/data/array_source.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"

namespace karez::runtime {
namespace {

Feeds ones() { return {{"x", {data::array_source(HostArray::of<float>({4}, {1, 1, 1, 1})), 0}}}; }

// Launches random plans in random order with delayed acts, and returns the number of wrong results. `ordered`: true if
// the session orders launches that share the arena.
int count_wrong_results(bool ordered, unsigned seed, int workers) {
  KernelTable table(test_kernels());
  Session session({.workers = workers,
                   .poison = true,
                   .delays = {.max_microseconds = 50, .seed = seed},
                   .order_arena_plans = ordered},
                  table);
  std::vector<RandomGraph> graphs;
  std::vector<int> plans;
  for (unsigned i = 0; i < 4; ++i) plans.push_back(session.load(graphs.emplace_back(4 * seed + i, workers).s.plan));
  std::mt19937 draw(seed);
  int wrong_results = 0;
  for (int round = 0; round < 10; ++round) {
    std::vector<std::pair<std::size_t, Launch>> launches;
    for (int i = 0; i < 4; ++i) {
      const std::size_t index = draw() % plans.size();
      launches.emplace_back(index, session.launch(plans[index], ones()));
    }
    for (const auto& [index, launch] : launches)
      for (const auto& [name, value] : graphs[index].expected)
        wrong_results += launch.output(name).data<float>()[3] != value;
  }
  return wrong_results;
}

TEST(SharedArena, ResultsAreCorrectUnderRandomDelays) {
  for (unsigned seed = 0; seed < 12; ++seed)
    for (int workers : {1, 2, 4})
      EXPECT_EQ(count_wrong_results(true, seed, workers), 0) << "seed " << seed << ", " << workers << " workers";
}

TEST(SharedArena, WrongResultsOfUnorderedLaunchesAreDetected) {
  int detected = 0;
  for (unsigned seed = 0; seed < 12; ++seed) detected += count_wrong_results(false, seed, 2) > 0;
  EXPECT_GE(detected, 6);
}

// A plan with a register of `bytes` bytes and a constant of `constant` bytes on one device.
Plan plan_of(std::int64_t bytes, std::int64_t constant) {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b");
  s.start(a);
  s.edge(a, {b}, 1, bytes);
  s.done(b);
  s.block(BlockKind::constant, 0, constant, "", "");
  return s.plan;
}

TEST(SharedArena, TheArenaIsAsLargeAsItsLargestPlanAndShrinksWhenThatPlanIsUnloaded) {
  KernelTable table(test_kernels());
  Session session({}, table);
  std::vector<int> plans;
  for (std::int64_t i = 1; i <= 64; ++i) plans.push_back(session.load(plan_of(i << 16, 64)));
  auto arena_bytes = [&] { return session.arena_bytes().at("0.0"); };
  EXPECT_EQ(arena_bytes(), 64 << 16);
  EXPECT_EQ(session.counters().peak_bytes.at("0.0"), (64 << 16) + 64 * 64) << "each plan has its own constants";
  for (int plan : plans) session.launch(plan).wait();
  session.unload(plans.back());
  session.launch(plans[0]).wait();
  EXPECT_EQ(session.plans(), 63);
  EXPECT_EQ(arena_bytes(), 63 << 16);
  session.reload();
  EXPECT_EQ(arena_bytes(), 0);
}

}  // namespace
}  // namespace karez::runtime
