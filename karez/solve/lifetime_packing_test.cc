// Tests of packings by lifetimes: blocks overlap only if they are disjoint on a timeline, and little memory is wasted.
#include "karez/solve/lifetime_packing.h"

#include <gtest/gtest.h>

#include <random>

#include "karez/base/test_golden.h"

namespace karez::solve {
namespace {

// True if both blocks are in use at some time of this or the next round.
bool are_used_together(const BlockLifetime& a, const BlockLifetime& b, int times) {
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

bool overlap(const Problem& p, const LifetimePacking& packing, std::size_t a, std::size_t b) {
  return packing.offset[a] < packing.offset[b] + p.blocks[b].size &&
         packing.offset[b] < packing.offset[a] + p.blocks[a].size;
}

TEST(LifetimePacking, BlocksInConflictOnEveryTimelineNeverOverlap) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const Problem p = random_problem(random, 2 + random() % 40, 1 + random() % 3, 12);
    const LifetimePacking packing = pack(p.blocks, p.timelines, p.timeline_of);
    for (std::size_t a = 0; a < p.blocks.size(); ++a) {
      ASSERT_EQ(packing.offset[a] % p.blocks[a].align, 0);
      ASSERT_LE(packing.offset[a] + p.blocks[a].size, packing.peak);
      for (std::size_t b = 0; b < a; ++b) {
        if (!overlap(p, packing, a, b)) continue;
        bool are_disjoint = false;
        for (int timeline : {p.timeline_of[a], p.timeline_of[b]})
          are_disjoint |= !are_used_together(p.timelines[static_cast<std::size_t>(timeline)].lifetimes[a],
                                             p.timelines[static_cast<std::size_t>(timeline)].lifetimes[b], 12);
        ASSERT_TRUE(are_disjoint) << "blocks " << a << " and " << b << " overlap, round " << round;
      }
    }
  }
}

// The pinned numbers are sums of peaks and of visited ranges.
TEST(LifetimePacking, PeaksAndWorkDoNotExceedThePinnedNumbers) {
  std::mt19937 random(4);
  long peaks = 0, first_order_peaks = 0;
  std::int64_t work = 0, first_order_work = 0;
  for (int round = 0; round < 60; ++round) {
    const Problem p = random_problem(random, 100, 1 + random() % 2, 40);
    const LifetimePacking packing = pack(p.blocks, p.timelines, p.timeline_of),
                          first_order = pack(p.blocks, p.timelines, p.timeline_of,
                                             {.target_peak = packing.peak, .work_per_block = 0});
    EXPECT_LE(packing.peak, first_order.peak);
    peaks += packing.peak, work += packing.work, first_order_peaks += first_order.peak,
        first_order_work += first_order.work;
    EXPECT_EQ(pack(p.blocks, p.timelines, p.timeline_of, {.target_peak = packing.peak}).peak, packing.peak);
    EXPECT_EQ(pack(p.blocks, p.timelines, p.timeline_of, {.target_peak = first_order.peak}).work, first_order.work)
        << "a sufficient peak ends the search";
  }
  EXPECT_TRUE(pinned_at_most(peaks, 27'758));
  EXPECT_TRUE(pinned_at_most(first_order_peaks, 31'074));
  EXPECT_TRUE(pinned_at_most(work, 1'333'117));
  EXPECT_TRUE(pinned_at_most(first_order_work, 212'763));
}

// Backward step i reads the result of forward step i, and each step has scratch. No memory is wasted.
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

// A chain of layers, whose gradients are kept in memory that activations release. Four times the layers need about four
// times the work.
TEST(LifetimePacking, WorkGrowsAlmostLinearlyWithBlocks) {
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
  const double small_work = work(500), large_work = work(2000);
  EXPECT_LT(large_work / small_work, 6.5) << small_work << " and " << large_work;
}

TEST(LifetimePacking, LifetimesOutsideOfTheTimelineAreErrors) {
  const std::vector<Block> blocks = {{8}};
  const std::vector<int> timeline_of = {0};
  auto pack_one = [&](BlockLifetime life) { return pack(blocks, std::vector<Timeline>{{4, {life}}}, timeline_of); };
  EXPECT_EQ(pack_one({1, 4, 1}).peak, 8);
  for (BlockLifetime life :
       {BlockLifetime{2, 1, 0}, BlockLifetime{-1, 1, 0}, BlockLifetime{0, 5, 0}, BlockLifetime{0, 1, 5}})
    EXPECT_THROW(pack_one(life), std::exception);
  EXPECT_THROW(pack(blocks, std::vector<Timeline>{{4, {}}}, timeline_of), std::exception);
  EXPECT_THROW(pack(blocks, std::vector<Timeline>{}, timeline_of), std::exception);
  EXPECT_EQ(pack(std::vector<Block>{}, std::vector<Timeline>{}, std::vector<int>{}).peak, 0);
}

}  // namespace
}  // namespace karez::solve
