// Tests that packings are optimal: compares them with brute force, exhaustive search and constructed packings.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "karez/solve/packing.h"
#include "karez/solve/test_packing_cases.h"

namespace karez::solve {
namespace {

TEST(Packing, ThePackingEqualsBruteForceOnSmallIntervals) {
  for (int seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    auto intervals = random_intervals(random, 1 + seed % 7, 8, 6, seed % 2 == 1);
    auto blocks = blocks_of(intervals);
    auto conflicts = conflicts_of(intervals);
    Packing p = pack(intervals);
    expect_valid(blocks, conflicts, p);
    ASSERT_EQ(p.peak, brute_force(blocks, conflicts));
    ASSERT_TRUE(p.optimal);
  }
}

TEST(Packing, ThePackingEqualsBruteForceOnSmallConflictGraphs) {
  for (int seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    int count = 1 + seed % 7;
    std::vector<Block> blocks;
    for (int i = 0; i < count; ++i)
      blocks.push_back({static_cast<long>(random() % 6), seed % 2 == 1 ? 1L << random() % 3 : 1});
    Pairs conflicts;
    for (int i = 0; i < count; ++i)
      for (int j = 0; j < i; ++j)
        if (random() % 2 == 0) conflicts.emplace_back(i, j);
    Packing p = pack(blocks, conflicts);
    expect_valid(blocks, conflicts, p);
    ASSERT_EQ(p.peak, brute_force(blocks, conflicts));
    ASSERT_TRUE(p.optimal);
  }
}

// The rectangles are cut from one rectangle, so no byte may be wasted.
TEST(Packing, ThePackingReachesTheBoundIfAllTimesAreFull) {
  for (int seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    const auto intervals = intervals_of(cut_rectangle(random, 40, 64, 4096));
    Packing p = pack(intervals);
    expect_valid(blocks_of(intervals), conflicts_of(intervals), p);
    EXPECT_EQ(p.lower_bound, 4096);
    EXPECT_EQ(p.peak, 4096);
  }
}

// Many of these problems need more than the maximum of live bytes, so that only the search can prove the bound.
TEST(Packing, ThePackingEqualsAnExhaustiveSearchOnMoreBlocks) {
  int raised_bounds = 0;
  for (int seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    const bool general = seed % 5 != 0;  // mostly general conflicts, whose peaks differ most from the first bound
    auto intervals = random_intervals(random, 8 + seed % 2, 7, 3 + static_cast<long>(random() % 10), seed % 2 == 0);
    auto blocks = blocks_of(intervals);
    auto conflicts = conflicts_of(intervals);
    if (general) {
      conflicts.clear();
      const unsigned density = 2 + random() % 5;
      for (int i = 0; i < static_cast<int>(blocks.size()); ++i)
        for (int j = 0; j < i; ++j)
          if (random() % 10 < density) conflicts.emplace_back(i, j);
    }
    const Packing p = general ? pack(blocks, conflicts) : pack(intervals),
                  greedy = pack(blocks, conflicts, {.search_work = 0});
    expect_valid(blocks, conflicts, p);
    ASSERT_EQ(p.peak, min_peak(blocks, conflicts, p.peak));
    ASSERT_TRUE(p.optimal);
    raised_bounds += p.lower_bound > greedy.lower_bound;
  }
  EXPECT_GE(raised_bounds, 10);
}

TEST(Packing, ThePackingFillsACapacityThatWasCutIntoManyBlocks) {
  int greedy_failures = 0;  // cases in which all greedy orders fail
  for (int seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    const auto intervals = intervals_of(cut_rectangle(random, 100, 100, 1024));
    greedy_failures += pack(intervals, {.search_work = 0}).peak > 1024;
    const Packing p = pack(intervals, {.capacity = 1024});
    expect_valid(blocks_of(intervals), conflicts_of(intervals), p);
    EXPECT_EQ(p.peak, 1024);
    EXPECT_TRUE(p.optimal);
  }
  EXPECT_GE(greedy_failures, 8);
}

// These cases were selected from thousands: if a bound lacks one of its reasons, their peaks are too high.
TEST(Packing, ProofsHaveAllTheirReasons) {
  for (int seed : {168, 384, 444, 448, 572, 652, 692, 1232}) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    const int count = 9 + static_cast<int>(random() % 4);
    random();
    const long max_size = 3 + static_cast<long>(random() % 12);
    const unsigned density = 2 + random() % 6;
    std::vector<Block> blocks;
    for (int i = 0; i < count; ++i) {
      const long size = 1 + static_cast<long>(random() % max_size);
      blocks.push_back({size, 1L << random() % 3});
    }
    Pairs conflicts;
    for (int i = 0; i < count; ++i)
      for (int j = 0; j < i; ++j)
        if (random() % 10 < density) conflicts.emplace_back(i, j);
    const Packing p = pack(blocks, conflicts, {.search_work = 20'000'000});
    expect_valid(blocks, conflicts, p);
    EXPECT_EQ(p.peak, min_peak(blocks, conflicts, p.peak));
    EXPECT_TRUE(p.optimal);
  }
}

// No fixed rank finds these packings with this work.
TEST(Packing, TheSearchRestartsWithFailedBlocksFirst) {
  for (auto [seed, count] : {std::pair(6, 150), std::pair(5, 200)}) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    const auto intervals = intervals_of(cut_rectangle(random, count, 100, 1024));
    EXPECT_EQ(pack(intervals, {.search_work = 60'000'000, .capacity = 1024}).peak, 1024);
  }
}

// The blocks are cut from one rectangle, and some of them are removed.
TEST(Packing, TheBoundNeverExceedsThePeakOfAnExistingPacking) {
  for (int seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    auto rectangles = cut_rectangle(random, 15 + seed % 30, 20, 40);
    std::erase_if(rectangles, [&](const Rectangle&) { return random() % 8 == 0; });
    const auto intervals = intervals_of(rectangles);
    const Packing p = pack(intervals, {.search_work = 3'000'000, .capacity = 40}),
                  general = pack(blocks_of(intervals), conflicts_of(intervals), {.search_work = 1'000'000});
    EXPECT_LE(p.lower_bound, 40);
    EXPECT_LE(general.lower_bound, 40);
    EXPECT_GE(general.peak, p.lower_bound);
  }
}

TEST(Packing, TheSearchProvesThatACapacityIsTooSmall) {  // blocks 0 and 1 conflict and need 5 bytes
  const std::vector<Block> blocks{{3}, {2}, {2}, {2}, {1}};
  const Pairs ring{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 0}};
  const Packing p = pack(blocks, ring, {.capacity = 4});
  expect_valid(blocks, ring, p);
  EXPECT_EQ(p.peak, brute_force(blocks, ring));
  EXPECT_TRUE(p.optimal);
  for (int seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    auto intervals = random_intervals(random, 9, 7, 7, false);
    const auto blocks = blocks_of(intervals);
    const auto conflicts = conflicts_of(intervals);
    const long best = min_peak(blocks, conflicts, pack(intervals, {.search_work = 0}).peak);
    const Packing below_optimum = pack(intervals, {.capacity = best - 1}),
                  at_optimum = pack(intervals, {.capacity = best});
    EXPECT_EQ(below_optimum.lower_bound, best);
    EXPECT_EQ(below_optimum.peak, best);
    EXPECT_EQ(at_optimum.peak, best);
  }
}

}  // namespace
}  // namespace karez::solve
