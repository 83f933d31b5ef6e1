// Tests of packings without overlaps: greedy packings, limits of the search, tolerance, units and errors.
#include "karez/solve/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "karez/base/error.h"
#include "karez/base/test_golden.h"
#include "karez/solve/test_packing_cases.h"

namespace karez::solve {
namespace {

TEST(Packing, BlocksInConflictNeverOverlapForAnyAmountOfWork) {
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    auto intervals = random_intervals(random, 80, 60, 1000, seed % 2 == 1);
    auto conflicts = conflicts_of(intervals);
    Packing greedy = pack(intervals, {.search_work = 0}), searched = pack(intervals, {.search_work = 200'000});
    expect_valid(blocks_of(intervals), conflicts, greedy);
    expect_valid(blocks_of(intervals), conflicts, searched);
    ASSERT_LE(searched.peak, greedy.peak);
    ASSERT_EQ(pack(intervals, {.search_work = 200'000}).offset, searched.offset);
    expect_valid(blocks_of(intervals), conflicts, pack(blocks_of(intervals), conflicts, {.search_work = 200'000}));
  }
}

TEST(Packing, TheGreedyPackingIsNotWorseThanFirstFit) {
  auto first_fit = [](const std::vector<Interval>& blocks, auto sooner) {
    std::vector<std::size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return sooner(blocks[a], blocks[b]); });
    std::vector<long> offset(blocks.size(), 0);
    long peak = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Interval& b = blocks[order[i]];
      for (std::size_t j = 0; j < i;) {  // move up until no placed block overlaps
        const Interval& w = blocks[order[j]];
        const long position = offset[order[i]], placed_offset = offset[order[j]];
        const bool overlaps = b.begin < w.end && w.begin < b.end && position < placed_offset + w.size &&
                              placed_offset < position + b.size;
        if (overlaps) offset[order[i]] = placed_offset + w.size;
        j = overlaps ? 0 : j + 1;
      }
      peak = std::max(peak, offset[order[i]] + b.size);
    }
    return peak;
  };
  int better = 0;
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    const auto blocks = random_intervals(random, 60, 40, 1000, false);
    const long by_size = first_fit(blocks, [](const Interval& a, const Interval& b) {
      return std::pair(a.size, a.end - a.begin) > std::pair(b.size, b.end - b.begin);
    });
    const long by_life = first_fit(blocks, [](const Interval& a, const Interval& b) {
      return std::pair(a.end - a.begin, a.size) > std::pair(b.end - b.begin, b.size);
    });
    const long peak = pack(blocks, {.search_work = 0}).peak;
    EXPECT_LE(peak, std::min(by_size, by_life));
    better += peak < std::min(by_size, by_life);
  }
  EXPECT_GE(better, 5);
}

TEST(Packing, TheGreedyPackingUsesGapsThatFitExactly) {
  const std::vector<Interval> blocks{{5, 8, 6}, {0, 4, 6}, {2, 6, 6}};
  EXPECT_EQ(pack(blocks, {.search_work = 0}).peak, brute_force(blocks_of(blocks), conflicts_of(blocks)));
}

TEST(Packing, WithoutASearchTheBoundIsTheMaximumOfLiveBytes) {
  for (int seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const auto blocks = random_intervals(random, 12, 10, 50, false);
    long max_live = 0;
    for (long t = 0; t < 20; ++t) {
      long live = 0;
      for (const Interval& b : blocks) live += b.begin <= t && t < b.end ? b.size : 0;
      max_live = std::max(max_live, live);
    }
    EXPECT_EQ(pack(blocks, {.search_work = 0}).lower_bound, max_live) << "seed " << seed;
  }
}

// Backward step i reads the result of forward step i, and each step has short-lived scratch.
TEST(Packing, TheActivationsOfATrainingStepAreNested) {
  std::vector<Interval> intervals;
  std::mt19937 random(5);
  constexpr long layers = 100;
  for (long i = 0; i < layers; ++i) {
    intervals.push_back({i, 2 * layers - i, 64 * (1 + static_cast<long>(random() % 100)), 64});
    intervals.push_back({i, i + 2, 64 * (1 + static_cast<long>(random() % 300)), 64});
    intervals.push_back({2 * layers - i - 1, 2 * layers - i + 1, 64 * (1 + static_cast<long>(random() % 300)), 64});
  }
  Packing p = pack(intervals, {.search_work = 5'000'000});
  expect_valid(blocks_of(intervals), conflicts_of(intervals), p);
  EXPECT_LE(p.peak, 1.01 * static_cast<double>(p.lower_bound));
}

TEST(Packing, TheSearchStopsAtASufficientCapacity) {
  std::vector<Interval> intervals{{0, 2, 3}, {1, 3, 5}, {2, 4, 3}};
  Packing p = pack(intervals, {.search_work = 1'000'000, .capacity = 100});
  EXPECT_LE(p.peak, 100);
  EXPECT_EQ(p.lower_bound, 8);
}

TEST(Packing, NoSearchRunsWithinTheTolerance) {
  int within_share = 0, unchanged = 0, above_small_tolerance = 0;
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    std::vector<Interval> intervals;
    for (int i = 0; i < 60; ++i) {
      const long begin = static_cast<long>(random() % 40);
      intervals.push_back({begin, begin + 1 + static_cast<long>(random() % 12), 1 + static_cast<long>(random() % 100)});
    }
    const Packing greedy = pack(intervals, {.search_work = 0}), best = pack(intervals, {.search_work = 300'000});
    const Packing zero_tolerance = pack(intervals, {.search_work = 300'000, .tolerance = 0}),
                  small_tolerance = pack(intervals, {.search_work = 300'000, .tolerance = 3}),
                  large_tolerance = pack(intervals, {.search_work = 300'000, .tolerance = 1000});
    const long share = best.lower_bound / 100;
    ASSERT_EQ(zero_tolerance.offset, best.offset);
    ASSERT_LE(small_tolerance.peak, std::max(best.peak, best.lower_bound + 3));
    ASSERT_LE(large_tolerance.peak, std::max(best.peak, best.lower_bound + share))
        << "the tolerance is at most a hundredth of the bound";
    if (greedy.peak > best.lower_bound + share) continue;
    ASSERT_LE(large_tolerance.peak - large_tolerance.lower_bound, share);
    ASSERT_EQ(large_tolerance.optimal, large_tolerance.peak == large_tolerance.lower_bound);
    within_share += large_tolerance.peak > best.peak, unchanged += small_tolerance.peak == best.peak,
        above_small_tolerance += large_tolerance.peak > best.lower_bound + 3;
  }
  EXPECT_GT(within_share, 10);
  EXPECT_GT(unchanged, 10);
  EXPECT_GT(above_small_tolerance, 5);
}

TEST(Packing, LargerUnitsGiveTheSamePacking) {
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    auto intervals = random_intervals(random, 30, 20, 60, false);
    const Packing greedy = pack(intervals, {.search_work = 0}), small = pack(intervals, {.search_work = 100'000}),
                  at_optimum = pack(intervals, {.search_work = 100'000, .capacity = small.lower_bound + 2});
    for (Interval& v : intervals) v.size *= 64, v.align = 64;
    auto expect_same = [](const Packing& one, const Packing& scaled) {
      ASSERT_EQ(one.peak * 64, scaled.peak);
      ASSERT_EQ(one.lower_bound * 64, scaled.lower_bound);
      for (std::size_t b = 0; b < one.offset.size(); ++b) ASSERT_EQ(one.offset[b] * 64, scaled.offset[b]);
    };
    expect_same(greedy, pack(intervals, {.search_work = 0}));
    expect_same(small, pack(intervals, {.search_work = 100'000}));
    expect_same(at_optimum, pack(intervals, {.search_work = 100'000, .capacity = 64 * (small.lower_bound + 2)}));
  }
}

TEST(Packing, TheLargestBlockIsABoundIfThereAreTooManyBlocksForCliques) {
  std::vector<Block> blocks(20'001, {1});
  blocks[7].size = 9;
  const Packing p = pack(blocks, Pairs{});
  EXPECT_EQ(p.lower_bound, 9);
  EXPECT_TRUE(p.optimal);
}

// The pinned numbers are sums of peaks of greedy orders, short searches and restarts, for lifetimes, random conflicts
// and blocks cut from one rectangle.
TEST(Packing, PeaksDoNotExceedThePinnedNumbers) {
  long greedy_lifetimes = 0, conflicts = 0, short_searches = 0, bounds = 0;
  for (int seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const auto intervals = random_intervals(random, 60, 40, 1000, seed % 2 == 1);
    const auto blocks = blocks_of(intervals);
    Pairs random_conflicts;
    for (int i = 0; i < 60; ++i)
      for (int j = 0; j < i; ++j)
        if (random() % 4 == 0) random_conflicts.emplace_back(i, j), random_conflicts.emplace_back(j, i);
    greedy_lifetimes += pack(intervals, {.search_work = 0}).peak;
    const Packing general = pack(blocks, random_conflicts, {.search_work = 0});
    conflicts += general.peak, bounds += general.lower_bound;
    short_searches +=
        pack(intervals, {.search_work = 60'000}).peak + pack(blocks, random_conflicts, {.search_work = 60'000}).peak;
  }
  int filled = 0;
  for (int seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed / 2);
    const auto blocks = intervals_of(cut_rectangle(random, seed % 2 == 0 ? 200 : 240, 100, 1024));
    filled += pack(blocks, {.search_work = 5'000'000, .capacity = 1024}).peak == 1024;
  }
  EXPECT_TRUE(pinned_at_least(filled, 17));
  EXPECT_TRUE(pinned_at_most(greedy_lifetimes, 1'063'970));
  EXPECT_TRUE(pinned_at_most(conflicts, 294'990));
  EXPECT_TRUE(pinned_at_most(short_searches, 1'358'960));
  EXPECT_TRUE(pinned_at_least(bounds, 198'016));
}

TEST(Packing, AnEmptyProblemAndEmptyBlocksAreAccepted) {
  EXPECT_EQ(pack(std::vector<Interval>{}).peak, 0);
  Packing p = pack(std::vector<Interval>{{0, 5, 0}, {3, 3, 7}, {0, 9, 4}});
  EXPECT_EQ(p.peak, 4);
  EXPECT_TRUE(p.optimal);
}

TEST(Packing, WithoutASearchEmptyBlocksNeedNoBytes) {
  const PackLimits greedy{.search_work = 0};
  for (const Packing& without_blocks :
       {pack(std::span<const Interval>(), greedy), pack(std::span<const Block>(), {}, greedy)}) {
    EXPECT_EQ(without_blocks.peak, 0);
    EXPECT_TRUE(without_blocks.optimal);
  }
  const Interval empty[] = {{0, 4, 0}, {2, 2, 8}};
  const Packing packed = pack(empty, greedy);
  EXPECT_EQ(packed.peak, 0);
  EXPECT_EQ(packed.offset, (std::vector<long>{0, 0}));
}

TEST(Packing, InvalidBlocksAreErrors) {
  EXPECT_THROW(pack(std::vector<Interval>{{0, 1, -1}}), Error);
  EXPECT_THROW(pack(std::vector<Interval>{{0, 1, 1, 0}}), Error);
  EXPECT_THROW(pack(std::vector<Block>{{1}}, Pairs{{0, 1}}), Error);
}

}  // namespace
}  // namespace karez::solve
