// Tests of token reachability: compares it with a traversal of individual acts.
#include "karez/solve/token_reachability.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace karez::solve {
namespace {

// The nodes and acts below act 10 that are reached from act 4 of `from` in the unrolled graph.
std::set<std::pair<int, int>> unrolled(int nodes, const std::vector<TokenEdge>& edges, int from) {
  std::set<std::pair<int, int>> reached;
  std::vector<std::pair<int, int>> pending = {{from, 4}};
  while (!pending.empty()) {
    auto [node, act] = pending.back();
    pending.pop_back();
    auto visit = [&](int to, int number) {
      if (number < 10 && reached.emplace(to, number).second) pending.emplace_back(to, number);
    };
    for (const TokenEdge& e : edges)
      if (e.from == node) visit(e.to, act + e.tokens);
    for (int n = 0; n < nodes; ++n)
      if (n == node) visit(n, act + 1);
  }
  return reached;
}

TEST(TokenReachability, ReachabilityAgreesWithATraversalOfActs) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const int nodes = 2 + static_cast<int>(random() % (round % 3 == 0 ? 30u : 9u));
    std::vector<TokenEdge> edges;
    for (unsigned i = 0, count = static_cast<unsigned>(random() % 20 + (round % 3 == 0 ? 40 : 0)); i < count; ++i) {
      int a = static_cast<int>(random() % static_cast<unsigned>(nodes)),
          b = static_cast<int>(random() % static_cast<unsigned>(nodes));
      const int tokens = static_cast<int>(random() % 3);
      if (tokens == 0 && a >= b) continue;
      edges.push_back({a, b, tokens});
    }
    const TokenReachability reach(nodes, edges);
    std::vector<std::vector<int>> node_at(static_cast<std::size_t>(reach.chains()));  // by chain and place: the node
    for (int c = 0; c < reach.chains(); ++c)
      node_at[static_cast<std::size_t>(c)].assign(static_cast<std::size_t>(reach.length(c)), -1);
    for (int n = 0; n < nodes; ++n)
      if (const int c = reach.chain_of(n); c >= 0)
        node_at[static_cast<std::size_t>(c)][static_cast<std::size_t>(reach.place_of(n))] = n;
    for (int a = 0; a < nodes; ++a) {
      const auto reached = unrolled(nodes, edges, a);
      for (int c = 0; c < reach.chains(); ++c) {
        const auto& chain = node_at[static_cast<std::size_t>(c)];
        auto first_place = [&](int act) {
          return std::find_if(chain.begin(), chain.end(),
                              [&](int n) {
                                return n == a || reached.count({n, act}) > 0;
                              }) -
                 chain.begin();
        };
        ASSERT_EQ(reach.first_after(a, c), first_place(4)) << "node " << a << ", chain " << c << ", round " << round;
        ASSERT_EQ(reach.next_after(a, c), first_place(5)) << "node " << a << ", chain " << c << ", round " << round;
        for (int place = 0; place < reach.length(c); ++place) {
          const int n = chain[static_cast<std::size_t>(place)];
          ASSERT_EQ(reach.last_before(a, c) >= place, n == a || unrolled(nodes, edges, n).count({a, 4}) > 0)
              << "node " << a << ", chain " << c << ", place " << place << ", round " << round;
        }
      }
      for (int b = 0; b < nodes; ++b) {
        ASSERT_EQ(reach.before_same_act(a, b), reached.count({b, 4}) > 0)
            << "nodes " << a << " and " << b << ", round " << round;
        if (reach.before_same_act(a, b)) { ASSERT_LT(reach.rank(a), reach.rank(b)); }
        ASSERT_EQ(reach.before_next_act(a, b), reached.count({b, 5}) > 0)
            << "nodes " << a << " and " << b << ", round " << round;
      }
    }
  }
}

TEST(TokenReachability, ACycleWithoutTokensAndAnUnknownNodeAreErrors) {
  const TokenEdge cycle[] = {{0, 1, 0}, {1, 0, 0}}, unknown_node[] = {{0, 2, 0}};
  EXPECT_THROW(TokenReachability(2, cycle), std::exception);
  EXPECT_THROW(TokenReachability(2, unknown_node), std::exception);
}

}  // namespace
}  // namespace karez::solve
