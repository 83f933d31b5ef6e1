// Tests of group reachability: compares it with a traversal of all waits.
#include "karez/solve/group_reachability.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "karez/base/test_golden.h"

namespace karez::solve {
namespace {

// Groups with their waits, whose reachability is computed by plain traversal.
struct ReferenceGroups {
  std::vector<std::set<int>> next;

  bool before(int from, int to) const {
    std::vector<int> pending = {from};
    std::set<int> seen;
    while (!pending.empty()) {
      const int current = pending.back();
      pending.pop_back();
      for (int n : next[static_cast<std::size_t>(current)]) {
        if (n == to) return true;
        if (seen.insert(n).second) pending.push_back(n);
      }
    }
    return false;
  }
};

std::vector<std::vector<int>> random_graph(std::mt19937& random, int nodes, int max_distance) {
  std::vector<std::vector<int>> waits(static_cast<std::size_t>(nodes));
  for (int n = 1; n < nodes; ++n)
    for (unsigned i = 0, count = static_cast<unsigned>(random() % 4); i < count; ++i)
      waits[static_cast<std::size_t>(n)].push_back(
          n - 1 - static_cast<int>(random() % static_cast<unsigned>(std::min(n, max_distance))));
  return waits;
}

// Nodes are put into one of several open groups or into a separate group; a node that would form a cycle opens a new
// group.
TEST(GroupReachability, ReachabilityAgreesWithTraversalAfterEveryNode) {
  std::mt19937 random(7);
  std::int64_t work = 0;
  for (int round = 0; round < 200; ++round) {
    const int nodes = 5 + static_cast<int>(random() % 60u);
    const auto waits = random_graph(random, nodes, round % 2 == 0 ? 3 : nodes);
    GroupReachability reach(waits);
    ReferenceGroups reference;
    std::vector<int> group_of, pending(1 + random() % 4u, -1);
    auto begin = [&] { return reference.next.emplace_back(), reach.begin(); };
    for (int n = 0; n < nodes; ++n) {
      int& group = pending[random() % pending.size()];
      const bool separate = random() % 4 == 0;
      bool forms_cycle = false;
      for (int from : waits[static_cast<std::size_t>(n)]) {
        const int before = group_of[static_cast<std::size_t>(from)];
        forms_cycle = forms_cycle || (group >= 0 && before != group && reference.before(group, before));
      }
      if (!separate && (group < 0 || forms_cycle || random() % 8 == 0)) {
        if (group >= 0) reach.close(group);
        group = begin();
      }
      const int own_group = separate ? begin() : group;
      reach.put(n, own_group);
      for (int from : waits[static_cast<std::size_t>(n)])
        if (const int before = group_of[static_cast<std::size_t>(from)]; before != own_group)
          reference.next[static_cast<std::size_t>(before)].insert(own_group);
      group_of.push_back(own_group);
      if (separate) reach.close(own_group);
      const int groups = static_cast<int>(reference.next.size());
      for (int a = 0; a < groups; ++a)
        for (int b = 0; b < groups; ++b)
          ASSERT_EQ(reach.before(a, b), a != b && reference.before(a, b))
              << "groups " << a << " and " << b << " after node " << n << ", round " << round;
    }
    work += reach.work();
  }
  EXPECT_TRUE(pinned_at_most(work, 2'412'484));
}

// The groups are those of a training step: each forward and backward layer is a group, each backward layer has a
// transfer to an update in one large group, and a transfer follows each update. Four times the layers need about four
// times the work.
TEST(GroupReachability, WorkGrowsLinearlyWithGroups) {
  auto work = [](int layers) {
    std::vector<std::vector<int>> waits;
    auto node = [&](std::vector<int> from) {
      return waits.push_back(std::move(from)), static_cast<int>(waits.size()) - 1;
    };
    for (int i = 0; i < 2 * layers; ++i) node(i == 0 ? std::vector<int>{} : std::vector<int>{i - 1});
    std::vector<int> transfers, updates, later_transfers;
    for (int i = layers; i < 2 * layers; ++i) transfers.push_back(node({i}));
    for (int from : transfers) updates.push_back(node({from})), later_transfers.push_back(node({updates.back()}));
    const int last = node({later_transfers.back()});
    GroupReachability reach(waits);
    auto separate = [&](int n) {
      const int group = reach.begin();
      reach.put(n, group), reach.close(group);
      return group;
    };
    std::vector<int> group_of;
    for (int n = 0; n < 3 * layers; ++n) group_of.push_back(separate(n));
    const int large = reach.begin();
    for (int i = 0; i < layers; ++i) {
      const int from = group_of[static_cast<std::size_t>(transfers[static_cast<std::size_t>(i)])];
      EXPECT_FALSE(reach.before(large, from));
      EXPECT_FALSE(reach.before(from, large));
      reach.put(updates[static_cast<std::size_t>(i)], large);
      EXPECT_TRUE(reach.before(from, large));
      EXPECT_TRUE(reach.before(group_of[0], large));
      EXPECT_TRUE(reach.before(large, separate(later_transfers[static_cast<std::size_t>(i)])));
    }
    reach.close(large);
    EXPECT_TRUE(reach.before(large, separate(last)));
    EXPECT_TRUE(reach.before(group_of[0], large));
    return static_cast<double>(reach.work());
  };
  const double small_work = work(500), large_work = work(2000);
  EXPECT_LT(large_work / small_work, 4.5) << small_work << " and " << large_work;
  EXPECT_TRUE(pinned_at_most(small_work, 6501));
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
