// Tests that compare token distances with a search over single acts.
#include "karez/plan/token_distances.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "karez/plan/test_plan_builder.h"

namespace karez::plan {
namespace {

// Returns the acts, as pairs (actor, act), that must wait for act 0 of `from` because of registers, returned slots or
// turns. Only acts 0 to 3 are considered.
std::set<std::pair<int, int>> waiting_acts(const Plan& plan, ActorId from) {
  constexpr int acts = 4;
  std::set<std::pair<int, int>> waiting;
  std::vector<std::pair<int, int>> open = {{from.index, 0}};
  while (!open.empty()) {
    const auto [actor, act] = open.back();
    open.pop_back();
    auto go = [&, at = act](ActorId to, int delay) {
      if (to != session_actor && at + delay < acts && waiting.emplace(to.index, at + delay).second)
        open.emplace_back(to.index, at + delay);
    };
    go(ActorId(actor), 1);
    for (const Register& r : plan.registers) {
      if (r.producer.index == actor)
        for (ActorId c : r.consumers) go(c, 0);
      for (ActorId c : r.consumers)
        if (c.index == actor) go(r.producer, r.slots);
    }
    const auto& own_collective = plan.actor(ActorId(actor)).collective;
    if (!own_collective) continue;
    for (ActorId other_actor : plan.actors.ids())
      if (const auto& c = plan.actors[other_actor].collective; c && other_actor.index != actor)
        go(other_actor, c->turns[0] > own_collective->turns[0] ? 0 : 1);
  }
  return waiting;
}

// Returns a random plan. Most actors depend on the previous actor, some depend on another earlier actor, and about a
// quarter are collectives with increasing turns.
Plan random_plan(std::mt19937& random) {
  PlanBuilder s;
  auto below = [&](std::size_t n) { return random() % static_cast<unsigned>(n); };
  std::vector<ActorId> actors, collectives;
  const unsigned count = 3 + below(40);
  for (unsigned i = 0; i < count; ++i) {
    const bool collective = below(4) == 0;
    actors.push_back(
        s.actor(cat("a", i), collective ? 1 : 0, 0, collective ? BodyKind::collective : BodyKind::compute));
    if (!collective) continue;
    Collective c;
    c.communicator = CommunicatorId(0);
    c.turns = {static_cast<int>(collectives.size())};
    s.plan.actors[actors.back()].collective = c;
    collectives.push_back(actors.back());
  }
  for (unsigned i = 1; i < count; ++i) {
    if (below(3) != 0) s.edge(actors[i - 1], {actors[i]}, 1 + static_cast<int>(below(2)));
    if (below(3) == 0) s.edge(actors[below(i)], {actors[i]}, 1 + static_cast<int>(below(2)));
  }
  return s.plan;
}

TEST(TokenDistances, DistancesAgreeWithASearchOverSingleActs) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const Plan plan = random_plan(random);
    const ById<ActorId, std::int64_t> once(plan.actors.size(), 1);
    const TokenDistances distances(plan, once);
    ASSERT_TRUE(distances.is_acyclic());
    for (ActorId a : plan.actors.ids()) {
      const auto waiting = waiting_acts(plan, a);
      for (ActorId b : plan.actors.ids()) {
        const int expected = waiting.count({b.index, 0}) > 0 ? 0 : waiting.count({b.index, 1}) > 0 ? 1 : 2;
        ASSERT_EQ(distances.tokens(a, b), expected) << "from actor " << a << " to actor " << b << ", round " << round;
        if (expected == 0) { ASSERT_LT(distances.topological_rank(a), distances.topological_rank(b)); }
      }
    }
  }
}

// Each actor of a long chain feeds one side actor outside of the chain. No actor waits for a side actor in the same
// launch.
TEST(TokenDistances, DistancesToActorsOutsideOfALongChainAreFoundBySearch) {
  PlanBuilder s;
  std::vector<ActorId> chain, side_actors;
  for (int i = 0; i < 20; ++i) chain.push_back(s.actor(cat("c", i))), side_actors.push_back(s.actor(cat("b", i)));
  for (std::size_t i = 0; i < 20; ++i) {
    if (i > 0) s.edge(chain[i - 1], {chain[i]});
    s.edge(chain[i], {side_actors[i]});
  }
  const ById<ActorId, std::int64_t> once(s.plan.actors.size(), 1);
  const TokenDistances distances(s.plan, once);
  EXPECT_EQ(distances.tokens(chain[3], side_actors[7]), 0);
  EXPECT_EQ(distances.tokens(chain[7], side_actors[6]), 1) << "through the slot that chain[7] returns to chain[6]";
  EXPECT_EQ(distances.tokens(chain[7], side_actors[3]), 2);
  EXPECT_EQ(distances.tokens(side_actors[3], side_actors[7]), 1);
  EXPECT_EQ(distances.tokens(side_actors[7], side_actors[3]), 2);
}

TEST(TokenDistances, ActsThatWaitForEachOtherInACycleHaveNoOrder) {
  PlanBuilder s;
  const ActorId a = s.actor("a", 0, 0, BodyKind::collective), b = s.actor("b", 0, 0, BodyKind::collective);
  for (ActorId c : {a, b}) {
    s.plan.actors[c].collective = Collective{};
    s.plan.actors[c].collective->communicator = CommunicatorId(0);
    s.plan.actors[c].collective->turns = {c == a ? 1 : 0};
  }
  s.edge(a, {b});
  EXPECT_FALSE(TokenDistances(s.plan, ById<ActorId, std::int64_t>(2, 1)).is_acyclic());
}

}  // namespace
}  // namespace karez::plan
