// Tests of group reachability against a traversal of all waits.
#include "karez/solve/group_reachability.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "karez/base/test_golden.h"

namespace karez::solve {
namespace {

// Groups with their waits; reachability by plain traversal.
struct ReferenceGroups {
  std::vector<std::set<int>> next;

  bool before(int from, int to) const {
    std::vector<int> open = {from};
    std::set<int> seen;
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      for (int n : next[static_cast<std::size_t>(at)]) {
        if (n == to) return true;
        if (seen.insert(n).second) open.push_back(n);
      }
    }
    return false;
  }
};

std::vector<std::vector<int>> random_graph(std::mt19937& random, int nodes, int near) {
  std::vector<std::vector<int>> waits(static_cast<std::size_t>(nodes));
  for (int n = 1; n < nodes; ++n)
    for (unsigned i = 0, count = static_cast<unsigned>(random() % 4); i < count; ++i)
      waits[static_cast<std::size_t>(n)].push_back(
          n - 1 - static_cast<int>(random() % static_cast<unsigned>(std::min(n, near))));
  return waits;
}

// Nodes go into one of several open groups or into a group of their own; a node that would form a cycle opens a new
// group.
TEST(GroupReachability, ReachabilityAgreesWithTraversalAfterEveryNode) {
  std::mt19937 random(7);
  std::int64_t work = 0;
  for (int round = 0; round < 200; ++round) {
    const int nodes = 5 + static_cast<int>(random() % 60u);
    const auto waits = random_graph(random, nodes, round % 2 == 0 ? 3 : nodes);
    GroupReachability reach(waits);
    ReferenceGroups reference;
    std::vector<int> of, open(1 + random() % 4u, -1);
    auto begin = [&] { return reference.next.emplace_back(), reach.begin(); };
    for (int n = 0; n < nodes; ++n) {
      int& group = open[random() % open.size()];
      const bool alone = random() % 4 == 0;
      bool circle = false;
      for (int from : waits[static_cast<std::size_t>(n)]) {
        const int before = of[static_cast<std::size_t>(from)];
        circle = circle || (group >= 0 && before != group && reference.before(group, before));
      }
      if (!alone && (group < 0 || circle || random() % 8 == 0)) {
        if (group >= 0) reach.close(group);
        group = begin();
      }
      const int mine = alone ? begin() : group;
      reach.put(n, mine);
      for (int from : waits[static_cast<std::size_t>(n)])
        if (const int before = of[static_cast<std::size_t>(from)]; before != mine)
          reference.next[static_cast<std::size_t>(before)].insert(mine);
      of.push_back(mine);
      if (alone) reach.close(mine);
      const int groups = static_cast<int>(reference.next.size());
      for (int a = 0; a < groups; ++a)
        for (int b = 0; b < groups; ++b)
          ASSERT_EQ(reach.before(a, b), a != b && reference.before(a, b))
              << a << " " << b << " node " << n << " round " << round;
    }
    work += reach.work();
  }
  EXPECT_TRUE(pinned_at_most(work, 2'412'484));
}

// Groups as in a training step: each forward and backward layer is a group, each backward layer has a transfer to an
// update in one large group, and a transfer follows each update. Four times the layers is about four times the work.
TEST(GroupReachability, WorkGrowsWithGroups) {
  auto work = [](int layers) {
    std::vector<std::vector<int>> waits;
    auto node = [&](std::vector<int> from) {
      return waits.push_back(std::move(from)), static_cast<int>(waits.size()) - 1;
    };
    for (int i = 0; i < 2 * layers; ++i) node(i == 0 ? std::vector<int>{} : std::vector<int>{i - 1});
    std::vector<int> transfers, updates, behind;
    for (int i = layers; i < 2 * layers; ++i) transfers.push_back(node({i}));
    for (int from : transfers) updates.push_back(node({from})), behind.push_back(node({updates.back()}));
    const int last = node({behind.back()});
    GroupReachability reach(waits);
    auto alone = [&](int n) {
      const int group = reach.begin();
      reach.put(n, group), reach.close(group);
      return group;
    };
    std::vector<int> of;
    for (int n = 0; n < 3 * layers; ++n) of.push_back(alone(n));
    const int large = reach.begin();
    for (int i = 0; i < layers; ++i) {
      const int from = of[static_cast<std::size_t>(transfers[static_cast<std::size_t>(i)])];
      EXPECT_FALSE(reach.before(large, from));
      EXPECT_FALSE(reach.before(from, large));
      reach.put(updates[static_cast<std::size_t>(i)], large);
      EXPECT_TRUE(reach.before(from, large));
      EXPECT_TRUE(reach.before(of[0], large));
      EXPECT_TRUE(reach.before(large, alone(behind[static_cast<std::size_t>(i)])));
    }
    reach.close(large);
    EXPECT_TRUE(reach.before(large, alone(last)));
    EXPECT_TRUE(reach.before(of[0], large));
    return static_cast<double>(reach.work());
  };
  const double once = work(500), more = work(2000);
  EXPECT_LT(more / once, 4.5) << once << " and " << more;
  EXPECT_TRUE(pinned_at_most(once, 6501));
}

TEST(GroupReachability, InvalidNodesAndGroupsAreErrors) {
  using Waits = std::vector<std::vector<int>>;
  EXPECT_THROW(GroupReachability(Waits{{0}}), std::exception);  // a node that waits for itself
  EXPECT_THROW(GroupReachability(Waits{{}, {-1}}), std::exception);
  GroupReachability reach(Waits{{}, {0}, {1}});
  const int group = reach.begin(), other = reach.begin();
  EXPECT_THROW(reach.put(1, group), std::exception);  // node 0 is in no group yet
  reach.put(0, group), reach.put(1, other);
  EXPECT_TRUE(reach.before(group, other));
  EXPECT_THROW(reach.put(2, group), std::exception);  // group would wait for itself
  reach.close(other);
  EXPECT_THROW(reach.put(2, other), std::exception);
}

}  // namespace
}  // namespace karez::solve
