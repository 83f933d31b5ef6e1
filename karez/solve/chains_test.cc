// Tests of chains: their lengths against longest paths, and the limits.
#include "karez/solve/chains.h"

#include <gtest/gtest.h>

#include <random>

#include "karez/base/cat.h"

namespace karez::solve {
namespace {

// The most nodes on any path that are on none of the first `chains` chains; edges lead to larger numbers.
int longest(const std::vector<std::vector<int>>& next, const std::vector<int>& chain, int chains) {
  std::vector<int> most(next.size(), 0);
  int all = 0;
  for (std::size_t n = next.size(); n-- > 0;) {
    for (int to : next[n]) most[n] = std::max(most[n], most[static_cast<std::size_t>(to)]);
    most[n] += chain[n] < 0 || chain[n] >= chains;
    all = std::max(all, most[n]);
  }
  return all;
}

TEST(Chains, EachChainIsTheLongestPathOfRemainingNodes) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    const std::size_t nodes = 1 + random() % 40;
    std::vector<std::vector<int>> next(nodes);
    for (std::size_t n = 0; n + 1 < nodes; ++n)
      for (std::size_t i = random() % 3; i > 0; --i)
        next[n].push_back(static_cast<int>(n + 1 + random() % std::min<std::size_t>(nodes - n - 1, 6)));
    const ChainLimits limits{1 + static_cast<int>(random() % 5), 1 + static_cast<int>(random() % 6)};
    std::vector<int> order(nodes);
    for (std::size_t n = 0; n < nodes; ++n) order[n] = static_cast<int>(nodes - 1 - n);
    const Chains made = long_chains(
        order,
        [&](int n, auto visit) {
          for (int to : next[static_cast<std::size_t>(n)]) visit(to);
        },
        limits);
    ASSERT_GE(made.count(), 1);
    ASSERT_LE(made.count(), limits.most);
    for (int c = 0; c < made.count(); ++c) {
      ASSERT_EQ(made.length[static_cast<std::size_t>(c)], longest(next, made.chain, c)) << "chain " << c;
      if (c > 0) { ASSERT_GE(made.length[static_cast<std::size_t>(c)], limits.shortest); }
      std::vector<int> at(static_cast<std::size_t>(made.length[static_cast<std::size_t>(c)]), -1);
      for (std::size_t n = 0; n < nodes; ++n)
        if (made.chain[n] == c) at[static_cast<std::size_t>(made.place[n])] = static_cast<int>(n);
      for (std::size_t i = 0; i < at.size(); ++i) {
        ASSERT_GE(at[i], 0) << "every place is taken";
        if (i > 0) { ASSERT_LT(at[i - 1], at[i]); }
      }
    }
    const int left = longest(next, made.chain, made.count());
    ASSERT_TRUE(made.count() == limits.most || left == 0 || left < limits.shortest) << left;
  }
  EXPECT_EQ(long_chains(std::vector<int>{}, [](int, auto) {}).count(), 0);
}

}  // namespace
}  // namespace karez::solve
