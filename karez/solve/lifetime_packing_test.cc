// Tests of packings by lifetimes: blocks overlap only if a timeline shows them disjoint, and little memory is wasted.
#include "karez/solve/lifetime_packing.h"

#include <gtest/gtest.h>

#include <random>

#include "karez/base/test_golden.h"

namespace karez::solve {
namespace {

// True if both blocks are in use at some time of this or the next round.
bool meet(const BlockLifetime& a, const BlockLifetime& b, int times) {
  auto now = [](const BlockLifetime& l, int t) { return l.begin <= t && t < l.end; };
  auto next = [](const BlockLifetime& l, int t) { return t < l.next_round_end; };
  for (int t = 0; t < times; ++t)
    if ((now(a, t) && now(b, t)) || (now(a, t) && next(b, t)) || (next(a, t) && now(b, t))) return true;
  return false;
}

struct Problem {
  std::vector<Block> blocks;
  std::vector<Timeline> timelines;
  std::vector<int> timeline_of;
};

Problem random_problem(std::mt19937& random, std::size_t count, std::size_t timelines, int times) {
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Problem p;
  for (std::size_t b = 0; b < count; ++b) {
    p.blocks.push_back({1 + below(20), below(4) == 0 ? 4 : 1});
    p.timeline_of.push_back(below(static_cast<int>(timelines)));
  }
  for (std::size_t c = 0; c < timelines; ++c) {
    Timeline timeline{times, {}};
    for (std::size_t b = 0; b < count; ++b) {
      const int begin = below(times), end = begin + 1 + below(times - begin);
      timeline.lifetimes.push_back({begin, end, below(3) == 0 ? below(end + 1) : 0});
    }
    p.timelines.push_back(std::move(timeline));
  }
  return p;
}

bool overlap(const Problem& p, const LifetimePacking& packed, std::size_t a, std::size_t b) {
  return packed.offset[a] < packed.offset[b] + p.blocks[b].size &&
         packed.offset[b] < packed.offset[a] + p.blocks[a].size;
}

TEST(LifetimePacking, BlocksInConflictOnEveryTimelineNeverOverlap) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const Problem p = random_problem(random, 2 + random() % 40, 1 + random() % 3, 12);
    const LifetimePacking packed = pack(p.blocks, p.timelines, p.timeline_of);
    for (std::size_t a = 0; a < p.blocks.size(); ++a) {
      ASSERT_EQ(packed.offset[a] % p.blocks[a].align, 0);
      ASSERT_LE(packed.offset[a] + p.blocks[a].size, packed.peak);
      for (std::size_t b = 0; b < a; ++b) {
        if (!overlap(p, packed, a, b)) continue;
        bool apart = false;
        for (int timeline : {p.timeline_of[a], p.timeline_of[b]})
          apart |= !meet(p.timelines[static_cast<std::size_t>(timeline)].lifetimes[a],
                         p.timelines[static_cast<std::size_t>(timeline)].lifetimes[b], 12);
        ASSERT_TRUE(apart) << a << " " << b << " round " << round;
      }
    }
  }
}

// Sums of peaks and of ranges visited.
TEST(LifetimePacking, PeaksAndWorkDoNotExceedThePinnedNumbers) {
  std::mt19937 random(4);
  long peaks = 0, first = 0;
  std::int64_t work = 0, least = 0;
  for (int round = 0; round < 60; ++round) {
    const Problem p = random_problem(random, 100, 1 + random() % 2, 40);
    const LifetimePacking packed = pack(p.blocks, p.timelines, p.timeline_of),
                          given = pack(p.blocks, p.timelines, p.timeline_of,
                                       {.target_peak = packed.peak, .work_per_block = 0});
    EXPECT_LE(packed.peak, given.peak);
    peaks += packed.peak, work += packed.work, first += given.peak, least += given.work;
    EXPECT_EQ(pack(p.blocks, p.timelines, p.timeline_of, {.target_peak = packed.peak}).peak, packed.peak);
    EXPECT_EQ(pack(p.blocks, p.timelines, p.timeline_of, {.target_peak = given.peak}).work, given.work)
        << "a sufficient peak ends the search";
  }
  EXPECT_TRUE(pinned_at_most(peaks, 27'758));
  EXPECT_TRUE(pinned_at_most(first, 31'074));
  EXPECT_TRUE(pinned_at_most(work, 1'333'117));
  EXPECT_TRUE(pinned_at_most(least, 212'763));
}

// Backward i reads the result of forward i, and each step has scratch: no memory is wasted.
TEST(LifetimePacking, TheActivationsOfATrainingStepAreNested) {
  Problem p;
  p.timelines.push_back({80, {}});
  for (int i = 0; i < 40; ++i) {
    p.blocks.push_back({64}), p.timelines[0].lifetimes.push_back({i, 80 - i, 0});
    p.blocks.push_back({256}), p.timelines[0].lifetimes.push_back({i, i + 1, 0});
  }
  p.timeline_of.assign(p.blocks.size(), 0);
  EXPECT_EQ(pack(p.blocks, p.timelines, p.timeline_of).peak, 40 * 64 + 256);
}

// A chain of layers, whose gradients are kept in memory that activations release. Four times the layers is about four
// times the work.
TEST(LifetimePacking, WorkGrowsWithBlocks) {
  auto work = [](int layers) {
    Problem p;
    p.timelines.push_back({4 * layers + 1, {}});
    auto add = [&](long size, BlockLifetime life) {
      p.blocks.push_back({size}), p.timelines[0].lifetimes.push_back(life);
    };
    for (int i = 0; i < layers; ++i) add(5000, {2 * i, 2 * i + 1, 0}), add(4096, {2 * i + 1, 4 * layers - 2 * i, 0});
    for (int i = layers; i-- > 0;)
      add(64, {4 * layers - 2 * i, 4 * layers, 2 * i}), add(5000, {4 * layers - 2 * i, 4 * layers - 2 * i + 1, 0});
    p.timeline_of.assign(p.blocks.size(), 0);
    return static_cast<double>(pack(p.blocks, p.timelines, p.timeline_of, {.target_peak = 1'000'000'000}).work);
  };
  const double once = work(500), more = work(2000);
  EXPECT_LT(more / once, 6.5) << once << " and " << more;
}

TEST(LifetimePacking, LifetimesOutsideOfTheirTimesAreErrors) {
  const std::vector<Block> blocks = {{8}};
  const std::vector<int> first = {0};
  auto with = [&](BlockLifetime life) { return pack(blocks, std::vector<Timeline>{{4, {life}}}, first); };
  EXPECT_EQ(with({1, 4, 1}).peak, 8);
  for (BlockLifetime life :
       {BlockLifetime{2, 1, 0}, BlockLifetime{-1, 1, 0}, BlockLifetime{0, 5, 0}, BlockLifetime{0, 1, 5}})
    EXPECT_THROW(with(life), std::exception);
  EXPECT_THROW(pack(blocks, std::vector<Timeline>{{4, {}}}, first), std::exception);
  EXPECT_THROW(pack(blocks, std::vector<Timeline>{}, first), std::exception);
  EXPECT_EQ(pack(std::vector<Block>{}, std::vector<Timeline>{}, std::vector<int>{}).peak, 0);
}

}  // namespace
}  // namespace karez::solve
