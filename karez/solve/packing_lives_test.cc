// Packings by times: nothing overlaps that some clock does not tell apart, and little is wasted.
#include "karez/solve/packing_lives.h"

#include <gtest/gtest.h>

#include <random>

#include "karez/base/test_golden.h"

namespace karez::solve {
namespace {

// Whether a time and a time of the next round are in use by both.
bool meet(const Life& a, const Life& b, int times) {
  auto now = [](const Life& l, int t) { return l.begin <= t && t < l.end; };
  auto next = [](const Life& l, int t) { return t < l.again; };
  for (int t = 0; t < times; ++t)
    if ((now(a, t) && now(b, t)) || (now(a, t) && next(b, t)) || (next(a, t) && now(b, t))) return true;
  return false;
}

struct Problem {
  std::vector<Block> blocks;
  std::vector<Clock> clocks;
  std::vector<int> clock_of;
};

Problem random_problem(std::mt19937& random, std::size_t count, std::size_t clocks, int times) {
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Problem p;
  for (std::size_t b = 0; b < count; ++b) {
    p.blocks.push_back({1 + below(20), below(4) == 0 ? 4 : 1});
    p.clock_of.push_back(below(static_cast<int>(clocks)));
  }
  for (std::size_t c = 0; c < clocks; ++c) {
    Clock clock{times, {}};
    for (std::size_t b = 0; b < count; ++b) {
      const int begin = below(times), end = begin + 1 + below(times - begin);
      clock.lives.push_back({begin, end, below(3) == 0 ? below(end + 1) : 0});
    }
    p.clocks.push_back(std::move(clock));
  }
  return p;
}

bool overlap(const Problem& p, const LivesPacking& packed, std::size_t a, std::size_t b) {
  return packed.offset[a] < packed.offset[b] + p.blocks[b].size &&
         packed.offset[b] < packed.offset[a] + p.blocks[a].size;
}

TEST(PackingLives, WhatMeetsByEveryClockNeverOverlaps) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const Problem p = random_problem(random, 2 + random() % 40, 1 + random() % 3, 12);
    const LivesPacking packed = pack(p.blocks, p.clocks, p.clock_of);
    for (std::size_t a = 0; a < p.blocks.size(); ++a) {
      ASSERT_EQ(packed.offset[a] % p.blocks[a].align, 0);
      ASSERT_LE(packed.offset[a] + p.blocks[a].size, packed.peak);
      for (std::size_t b = 0; b < a; ++b) {
        if (!overlap(p, packed, a, b)) continue;
        bool apart = false;
        for (int clock : {p.clock_of[a], p.clock_of[b]})
          apart |= !meet(p.clocks[static_cast<std::size_t>(clock)].lives[a],
                         p.clocks[static_cast<std::size_t>(clock)].lives[b], 12);
        ASSERT_TRUE(apart) << a << " " << b << " round " << round;
      }
    }
  }
}

// Sums of peaks, and of stretches looked at, that these orders are known to come to.
TEST(PackingLives, WastesNoMoreThanItsOrdersAreKnownTo) {
  std::mt19937 random(4);
  long peaks = 0, first = 0;
  std::int64_t work = 0, least = 0;
  for (int round = 0; round < 60; ++round) {
    const Problem p = random_problem(random, 100, 1 + random() % 2, 40);
    const LivesPacking packed = pack(p.blocks, p.clocks, p.clock_of),
                       given = pack(p.blocks, p.clocks, p.clock_of, {.enough = packed.peak, .work_a_block = 0});
    EXPECT_LE(packed.peak, given.peak);
    peaks += packed.peak, work += packed.work, first += given.peak, least += given.work;
    EXPECT_EQ(pack(p.blocks, p.clocks, p.clock_of, {.enough = packed.peak}).peak, packed.peak);
    EXPECT_EQ(pack(p.blocks, p.clocks, p.clock_of, {.enough = given.peak}).work, given.work)
        << "what is enough is not sought again";
  }
  EXPECT_TRUE(pinned_at_most(peaks, 27'758));
  EXPECT_TRUE(pinned_at_most(first, 31'074));
  EXPECT_TRUE(pinned_at_most(work, 1'333'117));
  EXPECT_TRUE(pinned_at_most(least, 212'763));
}

// forward i makes what backward i reads, between them scratch: nothing is lost.
TEST(PackingLives, NestsTheActivationsOfATrainingStep) {
  Problem p;
  p.clocks.push_back({80, {}});
  for (int i = 0; i < 40; ++i) {
    p.blocks.push_back({64}), p.clocks[0].lives.push_back({i, 80 - i, 0});
    p.blocks.push_back({256}), p.clocks[0].lives.push_back({i, i + 1, 0});
  }
  p.clock_of.assign(p.blocks.size(), 0);
  EXPECT_EQ(pack(p.blocks, p.clocks, p.clock_of).peak, 40 * 64 + 256);
}

// Of a chain of layers, gradients that stay lie in what activations leave: four times the layers is four times the
// work, give or take.
TEST(PackingLives, WorkGrowsWithBlocks) {
  auto work = [](int layers) {
    Problem p;
    p.clocks.push_back({4 * layers + 1, {}});
    auto add = [&](long size, Life life) { p.blocks.push_back({size}), p.clocks[0].lives.push_back(life); };
    for (int i = 0; i < layers; ++i) add(5000, {2 * i, 2 * i + 1, 0}), add(4096, {2 * i + 1, 4 * layers - 2 * i, 0});
    for (int i = layers; i-- > 0;)
      add(64, {4 * layers - 2 * i, 4 * layers, 2 * i}), add(5000, {4 * layers - 2 * i, 4 * layers - 2 * i + 1, 0});
    p.clock_of.assign(p.blocks.size(), 0);
    return static_cast<double>(pack(p.blocks, p.clocks, p.clock_of, {.enough = 1'000'000'000}).work);
  };
  const double once = work(500), more = work(2000);
  EXPECT_LT(more / once, 6.5) << once << " and " << more;
}

TEST(PackingLives, RefusesLivesOutsideOfTheirTimes) {
  const std::vector<Block> blocks = {{8}};
  const std::vector<int> first = {0};
  auto with = [&](Life life) { return pack(blocks, std::vector<Clock>{{4, {life}}}, first); };
  EXPECT_EQ(with({1, 4, 1}).peak, 8);
  for (Life life : {Life{2, 1, 0}, Life{-1, 1, 0}, Life{0, 5, 0}, Life{0, 1, 5}})
    EXPECT_THROW(with(life), std::exception);
  EXPECT_THROW(pack(blocks, std::vector<Clock>{{4, {}}}, first), std::exception);
  EXPECT_THROW(pack(blocks, std::vector<Clock>{}, first), std::exception);
  EXPECT_EQ(pack(std::vector<Block>{}, std::vector<Clock>{}, std::vector<int>{}).peak, 0);
}

}  // namespace
}  // namespace karez::solve
