// Packings never overlap, equal brute force on small cases and reach the bound on nested lifetimes.
#include "solve/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/error.h"

namespace karez::solve {
namespace {
using Pairs = std::vector<std::pair<int, int>>;

Pairs conflicts_of(const std::vector<Interval>& intervals) {
  Pairs pairs;
  for (int i = 0; i < static_cast<int>(intervals.size()); ++i)
    for (int j = 0; j < i; ++j) {
      const Interval &a = intervals[i], &b = intervals[j];
      if (std::max(a.begin, b.begin) < std::min(a.end, b.end)) pairs.emplace_back(i, j);
    }
  return pairs;
}

std::vector<Block> blocks_of(const std::vector<Interval>& intervals) {
  std::vector<Block> blocks;
  for (const Interval& v : intervals) blocks.push_back({v.size, v.align});
  return blocks;
}

void expect_valid(const std::vector<Block>& blocks, const Pairs& conflicts, const Packing& p) {
  ASSERT_EQ(p.offset.size(), blocks.size());
  long peak = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    ASSERT_GE(p.offset[b], 0);
    ASSERT_EQ(p.offset[b] % blocks[b].align, 0);
    if (blocks[b].size > 0) peak = std::max(peak, p.offset[b] + blocks[b].size);
  }
  ASSERT_EQ(p.peak, peak);
  ASSERT_LE(p.lower_bound, p.peak);
  ASSERT_EQ(p.optimal, p.lower_bound == p.peak);
  for (auto [a, b] : conflicts) {
    bool apart = p.offset[a] + blocks[a].size <= p.offset[b] || p.offset[b] + blocks[b].size <= p.offset[a];
    ASSERT_TRUE(apart || blocks[a].size == 0 || blocks[b].size == 0) << a << " and " << b;
  }
}

// In order of their offsets each block of a best packing can be pushed down onto those before it: so some order of pushing is best.
long brute_force(const std::vector<Block>& blocks, const Pairs& conflicts) {
  std::vector<int> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<char>> conflict(blocks.size(), std::vector<char>(blocks.size(), 0));
  for (auto [a, b] : conflicts) conflict[a][b] = conflict[b][a] = 1;
  long best = std::numeric_limits<long>::max();
  do {
    std::vector<long> top(blocks.size(), 0);
    long peak = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      long at = 0;
      for (std::size_t j = 0; j < i; ++j)
        if (conflict[order[i]][order[j]]) at = std::max(at, top[order[j]]);
      top[order[i]] = round_up(at, blocks[order[i]].align) + blocks[order[i]].size;
      peak = std::max(peak, top[order[i]]);
    }
    best = std::min(best, peak);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

std::vector<Interval> random_intervals(std::mt19937& random, int count, long time, long size, bool aligned) {
  std::vector<Interval> out;
  for (int i = 0; i < count; ++i) {
    long a = static_cast<long>(random() % time), b = static_cast<long>(random() % time);
    out.push_back({std::min(a, b), std::max(a, b) + 1, 1 + static_cast<long>(random() % size), aligned ? 1L << random() % 3 : 1});
  }
  return out;
}

TEST(Packing, EqualsBruteForceOnSmallIntervals) {
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

TEST(Packing, EqualsBruteForceOnSmallConflictGraphs) {
  for (int seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    int count = 1 + seed % 7;
    std::vector<Block> blocks;
    for (int i = 0; i < count; ++i) blocks.push_back({static_cast<long>(random() % 6), seed % 2 == 1 ? 1L << random() % 3 : 1});
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

TEST(Packing, NeverOverlapsWhateverTheWork) {
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

TEST(Packing, ReachesTheBoundWhereAllSectionsAreFull) {  // rectangles cut from one rectangle: no byte may be lost
  for (int seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    struct Area {
      long from, to, low, high;
    };
    std::vector<Area> areas{{0, 64, 0, 4096}};
    while (areas.size() < 40) {
      std::size_t i = random() % areas.size();
      Area a = areas[i], b = a;
      if (random() % 2 == 0 && a.to - a.from > 1) areas[i].to = b.from = a.from + 1 + static_cast<long>(random() % (a.to - a.from - 1));
      else if (a.high - a.low > 1) areas[i].high = b.low = a.low + 1 + static_cast<long>(random() % (a.high - a.low - 1));
      else continue;
      areas.push_back(b);
    }
    std::vector<Interval> intervals;
    for (const Area& a : areas) intervals.push_back({a.from, a.to, a.high - a.low});
    Packing p = pack(intervals);
    expect_valid(blocks_of(intervals), conflicts_of(intervals), p);
    EXPECT_EQ(p.lower_bound, 4096);
    EXPECT_EQ(p.peak, 4096);
  }
}

TEST(Packing, NestsTheActivationsOfATrainingStep) {  // forward i makes what backward i reads, between them short-lived scratch
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

TEST(Packing, StopsAtACapacityThatIsGoodEnough) {
  std::vector<Interval> intervals{{0, 2, 3}, {1, 3, 5}, {2, 4, 3}};
  Packing p = pack(intervals, {.search_work = 1'000'000, .capacity = 100});
  EXPECT_LE(p.peak, 100);
  EXPECT_EQ(p.lower_bound, 8);
}

TEST(Packing, TakesNothingAndEmptyBlocks) {
  EXPECT_EQ(pack(std::vector<Interval>{}).peak, 0);
  Packing p = pack(std::vector<Interval>{{0, 5, 0}, {3, 3, 7}, {0, 9, 4}});
  EXPECT_EQ(p.peak, 4);
  EXPECT_TRUE(p.optimal);
}

TEST(Packing, RefusesWhatIsNotABlock) {
  EXPECT_THROW(pack(std::vector<Interval>{{0, 1, -1}}), Error);
  EXPECT_THROW(pack(std::vector<Interval>{{0, 1, 1, 0}}), Error);
  EXPECT_THROW(pack(std::vector<Block>{{1}}, Pairs{{0, 1}}), Error);
}

}  // namespace
}  // namespace karez::solve
