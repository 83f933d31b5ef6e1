// Tests of the packing search: it agrees with placing blocks in every order, within pinned work.
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

// Random conflicts, or those of lifetimes; none, some or all of the cliques grown from each block.
Instance random_instance(unsigned seed) {
  std::mt19937 random(seed);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Instance made;
  PackProblem& p = made.problem;
  const int count = 6 + below(5), most = 3 + below(12), dense = 3 + below(5), kind = below(3);
  for (int b = 0; b < count; ++b) p.blocks.push_back({1 + below(most), seed % 3 == 0 ? 1L << below(3) : 1});
  std::vector<std::pair<int, int>> lives;
  for (int b = 0; b < count; ++b) {
    const int begin = below(9);
    lives.emplace_back(begin, begin + 1 + below(5));
  }
  p.conflicts.resize(p.blocks.size());
  for (int a = 0; a < count; ++a)
    for (int b = 0; b < a; ++b) {
      const bool meet = lives[a].first < lives[b].second && lives[b].first < lives[a].second;
      if (!(seed % 4 == 0 ? meet : below(10) < dense)) continue;
      made.pairs.emplace_back(a, b);
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
  made.rank.resize(p.blocks.size());
  std::iota(made.rank.begin(), made.rank.end(), 0);
  std::shuffle(made.rank.begin(), made.rank.end(), random);
  return made;
}

struct SearchRun {
  Feasibility fit = Feasibility::unknown;
  long work = 0;
  std::vector<long> offset = {}, blame = {};
};

SearchRun run_search(const Instance& instance, long capacity, long work) {
  SearchRun made{.work = work, .blame = std::vector<long>(instance.problem.blocks.size(), 0)};
  made.fit = search_packing(instance.problem, capacity, instance.rank, made.work, made.offset, made.blame);
  made.work = work - made.work;
  return made;
}

// Yes at the least peak, with a packing; no below it; with less work no wrong answer.
void expect_truth(const Instance& instance, long best, long& work, long& blame) {
  const auto& blocks = instance.problem.blocks;
  const SearchRun yes = run_search(instance, best, 10'000'000), no = run_search(instance, best - 1, 10'000'000);
  ASSERT_EQ(yes.fit, Feasibility::yes);
  ASSERT_EQ(no.fit, Feasibility::no);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    ASSERT_GE(yes.offset[b], 0);
    ASSERT_LE(yes.offset[b] + blocks[b].size, best);
    ASSERT_EQ(yes.offset[b] % blocks[b].align, 0);
  }
  for (auto [a, b] : instance.pairs)
    ASSERT_TRUE(yes.offset[a] + blocks[a].size <= yes.offset[b] || yes.offset[b] + blocks[b].size <= yes.offset[a])
        << a << " and " << b;
  work += yes.work + no.work;
  blame += std::accumulate(no.blame.begin(), no.blame.end(), 0L);
  for (long part = 1; part < 8 && best % 8 == 0; part += 2) {
    ASSERT_NE(run_search(instance, best, yes.work * part / 8).fit, Feasibility::no);
    ASSERT_NE(run_search(instance, best - 1, no.work * part / 8).fit, Feasibility::yes);
  }
}

long best_of(const Instance& instance) {
  const auto& blocks = instance.problem.blocks;
  return min_peak(blocks, instance.pairs, pack(blocks, instance.pairs, {.search_work = 0}).peak);
}

TEST(PackingSearch, TheSearchAgreesWithPlacingBlocksInEveryOrder) {
  long work = 0, blame = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    const Instance instance = random_instance(seed);
    expect_truth(instance, best_of(instance), work, blame);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_TRUE(pinned_at_most(work, 10'765'349));
  EXPECT_TRUE(pinned(blame, 90'179));
}

}  // namespace
}  // namespace karez::solve
