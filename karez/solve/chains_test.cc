// Tests of chains: compares their lengths with longest paths, and checks the limits.
#include "karez/solve/chains.h"

#include <gtest/gtest.h>

#include <random>

#include "karez/base/cat.h"

namespace karez::solve {
namespace {

// Returns the maximum number of nodes on a path, without counting the nodes of the first `chain_count` chains. Edges
// lead to nodes with larger numbers.
int longest(const std::vector<std::vector<int>>& next, const std::vector<int>& chain, int chain_count) {
  std::vector<int> new_nodes(next.size(), 0);
  int longest_path = 0;
  for (std::size_t n = next.size(); n-- > 0;) {
    for (int to : next[n]) new_nodes[n] = std::max(new_nodes[n], new_nodes[static_cast<std::size_t>(to)]);
    new_nodes[n] += chain[n] < 0 || chain[n] >= chain_count;
    longest_path = std::max(longest_path, new_nodes[n]);
  }
  return longest_path;
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
    const Chains found = long_chains(
        order,
        [&](int n, auto visit) {
          for (int to : next[static_cast<std::size_t>(n)]) visit(to);
        },
        limits);
    ASSERT_GE(found.count(), 1);
    ASSERT_LE(found.count(), limits.max_chains);
    for (int c = 0; c < found.count(); ++c) {
      ASSERT_EQ(found.length[static_cast<std::size_t>(c)], longest(next, found.chain, c)) << "chain " << c;
      if (c > 0) { ASSERT_GE(found.length[static_cast<std::size_t>(c)], limits.min_length); }
      std::vector<int> nodes_by_place(static_cast<std::size_t>(found.length[static_cast<std::size_t>(c)]), -1);
      for (std::size_t n = 0; n < nodes; ++n)
        if (found.chain[n] == c) nodes_by_place[static_cast<std::size_t>(found.place[n])] = static_cast<int>(n);
      for (std::size_t i = 0; i < nodes_by_place.size(); ++i) {
        ASSERT_GE(nodes_by_place[i], 0) << "every place of a chain must have a node";
        if (i > 0) { ASSERT_LT(nodes_by_place[i - 1], nodes_by_place[i]); }
      }
    }
    const int remaining = longest(next, found.chain, found.count());
    ASSERT_TRUE(found.count() == limits.max_chains || remaining == 0 || remaining < limits.min_length) << remaining;
  }
  EXPECT_EQ(long_chains(std::vector<int>{}, [](int, auto) {}).count(), 0);
}

}  // namespace
}  // namespace karez::solve
