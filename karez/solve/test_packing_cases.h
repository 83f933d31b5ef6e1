// For tests: random and constructed packing problems, and the check of a packing.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "karez/solve/namespace.h"
#include "karez/solve/packing.h"
#include "karez/solve/test_packing.h"

namespace karez::solve {

inline Pairs conflicts_of(const std::vector<Interval>& intervals) {
  Pairs pairs;
  for (int i = 0; i < static_cast<int>(intervals.size()); ++i)
    for (int j = 0; j < i; ++j) {
      const Interval &a = intervals[i], &b = intervals[j];
      if (std::max(a.begin, b.begin) < std::min(a.end, b.end)) pairs.emplace_back(i, j);
    }
  return pairs;
}

inline std::vector<Block> blocks_of(const std::vector<Interval>& intervals) {
  std::vector<Block> blocks;
  for (const Interval& v : intervals) blocks.push_back({v.size, v.align});
  return blocks;
}

inline void expect_valid(const std::vector<Block>& blocks, const Pairs& conflicts, const Packing& p) {
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
    bool are_disjoint = p.offset[a] + blocks[a].size <= p.offset[b] || p.offset[b] + blocks[b].size <= p.offset[a];
    ASSERT_TRUE(are_disjoint || blocks[a].size == 0 || blocks[b].size == 0)
        << "blocks " << a << " and " << b << " must not overlap";
  }
}

struct Rectangle {
  long from, to, low, high;
};

// Cuts one rectangle into `count` rectangles, which are blocks that fill a capacity without a gap.
inline std::vector<Rectangle> cut_rectangle(std::mt19937& random, std::size_t count, long time, long capacity) {
  std::vector<Rectangle> rectangles{{0, time, 0, capacity}};
  while (rectangles.size() < count) {
    Rectangle &a = rectangles[random() % rectangles.size()], b = a;
    if (random() % 2 == 0 && a.to - a.from > 1)
      a.to = b.from = a.from + 1 + static_cast<long>(random() % (a.to - a.from - 1));
    else if (a.high - a.low > 1) a.high = b.low = a.low + 1 + static_cast<long>(random() % (a.high - a.low - 1));
    else continue;
    rectangles.push_back(b);
  }
  return rectangles;
}

inline std::vector<Interval> intervals_of(const std::vector<Rectangle>& rectangles) {
  std::vector<Interval> out;
  for (const Rectangle& a : rectangles) out.push_back({a.from, a.to, a.high - a.low});
  return out;
}

inline std::vector<Interval> random_intervals(std::mt19937& random, int count, long time, long size, bool aligned) {
  std::vector<Interval> out;
  for (int i = 0; i < count; ++i) {
    long a = static_cast<long>(random() % time), b = static_cast<long>(random() % time);
    out.push_back(
        {std::min(a, b), std::max(a, b) + 1, 1 + static_cast<long>(random() % size), aligned ? 1L << random() % 3 : 1});
  }
  return out;
}

}  // namespace karez::solve
