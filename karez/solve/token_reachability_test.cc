// Tests of token reachability against a traversal of acts one by one.
#include "karez/solve/token_reachability.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace karez::solve {
namespace {

// The nodes and acts below 10 that are reached from act 4 of `from`, in the unrolled graph.
std::set<std::pair<int, int>> unrolled(int nodes, const std::vector<TokenEdge>& edges, int from) {
  std::set<std::pair<int, int>> seen;
  std::vector<std::pair<int, int>> open = {{from, 4}};
  while (!open.empty()) {
    auto [node, act] = open.back();
    open.pop_back();
    auto go = [&](int to, int number) {
      if (number < 10 && seen.emplace(to, number).second) open.emplace_back(to, number);
    };
    for (const TokenEdge& e : edges)
      if (e.from == node) go(e.to, act + e.tokens);
    for (int n = 0; n < nodes; ++n)
      if (n == node) go(n, act + 1);
  }
  return seen;
}

TEST(TokenReachability, ReachabilityAgreesWithActsOneByOne) {
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
    std::vector<std::vector<int>> on(static_cast<std::size_t>(reach.chains()));  // node by chain and place
    for (int c = 0; c < reach.chains(); ++c)
      on[static_cast<std::size_t>(c)].assign(static_cast<std::size_t>(reach.length(c)), -1);
    for (int n = 0; n < nodes; ++n)
      if (const int c = reach.chain_of(n); c >= 0)
        on[static_cast<std::size_t>(c)][static_cast<std::size_t>(reach.place_of(n))] = n;
    for (int a = 0; a < nodes; ++a) {
      const auto seen = unrolled(nodes, edges, a);
      for (int c = 0; c < reach.chains(); ++c) {
        const auto& chain = on[static_cast<std::size_t>(c)];
        auto first = [&](int act) {
          return std::find_if(chain.begin(), chain.end(),
                              [&](int n) {
                                return n == a || seen.count({n, act}) > 0;
                              }) -
                 chain.begin();
        };
        ASSERT_EQ(reach.first_after(a, c), first(4)) << a << " chain " << c << " round " << round;
        ASSERT_EQ(reach.next_after(a, c), first(5)) << a << " chain " << c << " round " << round;
        for (int place = 0; place < reach.length(c); ++place) {
          const int n = chain[static_cast<std::size_t>(place)];
          ASSERT_EQ(reach.last_before(a, c) >= place, n == a || unrolled(nodes, edges, n).count({a, 4}) > 0)
              << a << " chain " << c;
        }
      }
      for (int b = 0; b < nodes; ++b) {
        ASSERT_EQ(reach.before_same_act(a, b), seen.count({b, 4}) > 0) << a << " " << b << " round " << round;
        if (reach.before_same_act(a, b)) { ASSERT_LT(reach.rank(a), reach.rank(b)); }
        ASSERT_EQ(reach.before_next_act(a, b), seen.count({b, 5}) > 0) << a << " " << b << " round " << round;
      }
    }
  }
}

TEST(TokenReachability, ACycleWithoutTokensAndAnUnknownNodeAreErrors) {
  const TokenEdge circle[] = {{0, 1, 0}, {1, 0, 0}}, nowhere[] = {{0, 2, 0}};
  EXPECT_THROW(TokenReachability(2, circle), std::exception);
  EXPECT_THROW(TokenReachability(2, nowhere), std::exception);
}

}  // namespace
}  // namespace karez::solve
