// Tests of the packing search: compares it with placing blocks in every order, and pins its work.
#include "karez/solve/packing_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "karez/base/test_golden.h"
#include "karez/solve/test_packing.h"

namespace karez::solve {
namespace {

struct Instance {
  PackProblem problem;
  Pairs pairs;
  std::vector<int> rank;
};

// Conflicts are random or those of random lifetimes. Cliques are grown from each block; none, some or all of them are
// given.
Instance random_instance(unsigned seed) {
  std::mt19937 random(seed);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Instance result;
  PackProblem& p = result.problem;
  const int count = 6 + below(5), max_size = 3 + below(12), density = 3 + below(5), kind = below(3);
  for (int b = 0; b < count; ++b) p.blocks.push_back({1 + below(max_size), seed % 3 == 0 ? 1L << below(3) : 1});
  std::vector<std::pair<int, int>> lifetimes;
  for (int b = 0; b < count; ++b) {
    const int begin = below(9);
    lifetimes.emplace_back(begin, begin + 1 + below(5));
  }
  p.conflicts.resize(p.blocks.size());
  for (int a = 0; a < count; ++a)
    for (int b = 0; b < a; ++b) {
      const bool lifetimes_overlap =
          lifetimes[a].first < lifetimes[b].second && lifetimes[b].first < lifetimes[a].second;
      if (!(seed % 4 == 0 ? lifetimes_overlap : below(10) < density)) continue;
      result.pairs.emplace_back(a, b);
      p.conflicts[a].push_back(b), p.conflicts[b].push_back(a);
    }
  for (auto& list : p.conflicts) std::sort(list.begin(), list.end());
  for (int b = 0; b < count; ++b) {
    if (kind == 0 || (kind == 1 && below(2) == 0)) continue;
    std::vector<int> clique{b};
    for (int w : p.conflicts[b])
      if (std::all_of(clique.begin(), clique.end(), [&](int c) {
            return c == w || std::binary_search(p.conflicts[c].begin(), p.conflicts[c].end(), w);
          }))
        clique.push_back(w);
    std::sort(clique.begin(), clique.end());
    p.cliques.push_back(clique);
  }
  result.rank.resize(p.blocks.size());
  std::iota(result.rank.begin(), result.rank.end(), 0);
  std::shuffle(result.rank.begin(), result.rank.end(), random);
  return result;
}

struct SearchRun {
  Feasibility answer = Feasibility::unknown;
  long work = 0;
  std::vector<long> offset = {}, failures = {};
};

SearchRun run_search(const Instance& instance, long capacity, long work) {
  SearchRun result{.work = work, .failures = std::vector<long>(instance.problem.blocks.size(), 0)};
  result.answer =
      search_packing(instance.problem, capacity, instance.rank, result.work, result.offset, result.failures);
  result.work = work - result.work;
  return result;
}

// Expects that the search finds a packing at the minimum peak, proves that a lower peak is impossible, and gives no
// wrong answer with less work.
void expect_truth(const Instance& instance, long min_peak_value, long& work, long& failures) {
  const auto& blocks = instance.problem.blocks;
  const SearchRun at_minimum = run_search(instance, min_peak_value, 10'000'000),
                  below_minimum = run_search(instance, min_peak_value - 1, 10'000'000);
  ASSERT_EQ(at_minimum.answer, Feasibility::yes);
  ASSERT_EQ(below_minimum.answer, Feasibility::no);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    ASSERT_GE(at_minimum.offset[b], 0);
    ASSERT_LE(at_minimum.offset[b] + blocks[b].size, min_peak_value);
    ASSERT_EQ(at_minimum.offset[b] % blocks[b].align, 0);
  }
  for (auto [a, b] : instance.pairs)
    ASSERT_TRUE(at_minimum.offset[a] + blocks[a].size <= at_minimum.offset[b] ||
                at_minimum.offset[b] + blocks[b].size <= at_minimum.offset[a])
        << "blocks " << a << " and " << b << " must not overlap";
  work += at_minimum.work + below_minimum.work;
  failures += std::accumulate(below_minimum.failures.begin(), below_minimum.failures.end(), 0L);
  for (long eighths = 1; eighths < 8 && min_peak_value % 8 == 0; eighths += 2) {
    ASSERT_NE(run_search(instance, min_peak_value, at_minimum.work * eighths / 8).answer, Feasibility::no);
    ASSERT_NE(run_search(instance, min_peak_value - 1, below_minimum.work * eighths / 8).answer, Feasibility::yes);
  }
}

long min_peak_of(const Instance& instance) {
  const auto& blocks = instance.problem.blocks;
  return min_peak(blocks, instance.pairs, pack(blocks, instance.pairs, {.search_work = 0}).peak);
}

TEST(PackingSearch, TheSearchAgreesWithPlacingBlocksInEveryOrder) {
  long work = 0, failures = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    const Instance instance = random_instance(seed);
    expect_truth(instance, min_peak_of(instance), work, failures);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_TRUE(pinned_at_most(work, 10'765'349));
  EXPECT_TRUE(pinned(failures, 90'179));
}

}  // namespace
}  // namespace karez::solve
