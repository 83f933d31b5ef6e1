// Tests of the verifier's errors about the turns of collectives.
#include <gtest/gtest.h>

#include <functional>

#include "karez/base/test_error.h"
#include "karez/base/test_golden.h"
#include "karez/plan/acts.h"
#include "karez/plan/dry_run.h"
#include "karez/plan/plan.h"
#include "karez/plan/test_plan_builder.h"

namespace karez::plan {
namespace {

TEST(VerifySequences, CollectivesInIncompatibleOrdersAreRejected) {
  PlanBuilder s(2);  // on both devices y depends on x; later the test swaps their turns, so that y must come first
  s.plan.communicators.push_back({{s.plan.devices[DeviceId(0)], s.plan.devices[DeviceId(1)]}, 1024, {"x", "y"}});
  for (int d = 0; d < 2; ++d) {
    ActorId x = s.actor(cat("x.", d), 0, d, BodyKind::collective),
            y = s.actor(cat("y.", d), 0, d, BodyKind::collective);
    s.start(x);
    s.edge(x, {y});
    s.done(y);
    Collective c{CommunicatorId(0), CollectiveKind::all_reduce, Reduce::sum, {0}, {}, {}, {}, {}, {}, ""};
    c.in.view = c.out.view = View(DType::f32, {0});
    s.plan.actors[x].collective = c;
    c.turns = {1};
    s.plan.actors[y].collective = c;
  }
  EXPECT_NO_THROW(verify(s.plan));
  for (auto& actor : s.plan.actors) actor.collective->turns = {1 - actor.collective->turns[0]};
  std::string error = error_of([&] { verify(s.plan); });
  EXPECT_NE(
      error.find(
          "stalls: a0 'x.0' waits for turn 0 of communicator 0 -> a1 'y.0' waits for r1 to be filled -> a0 'x.0'"),
      std::string::npos)
      << error;
}

// A plan for two devices. Each has a collective x, which acts three times in a launch, and a collective y, which acts
// once, after x.
struct RepeatedCollectives {
  PlanBuilder s{2};
  ActorId x[2], y[2];
  RepeatedCollectives() {
    s.plan.communicators.push_back(
        {{s.plan.devices[DeviceId(0)], s.plan.devices[DeviceId(1)]}, 1024, {"x", "x", "x", "y"}});
    for (int d = 0; d < 2; ++d) {
      x[d] = s.actor(cat("x.", d), 0, d, BodyKind::collective),
      y[d] = s.actor(cat("y.", d), 0, d, BodyKind::collective);
      s.start(x[d], 3);
      s.edge(x[d], {y[d]}, 1, 0, 3, 1);
      s.done(y[d]);
      Collective c{CommunicatorId(0), CollectiveKind::all_reduce, Reduce::sum, {0, 1, 2}, {}, {}, {}, {}, {}, ""};
      c.in.view = c.out.view = View(DType::f32, {0});
      s.plan.actors[x[d]].collective = c;
      c.turns = {3};
      s.plan.actors[y[d]].collective = c;
    }
  }
  void turns(std::vector<int> x_turns, std::vector<int> y_turns, int devices = 2) {
    for (int d = 0; d < devices; ++d)
      s.plan.actors[x[d]].collective->turns = x_turns, s.plan.actors[y[d]].collective->turns = y_turns;
  }
  std::string error() {
    return error_of([&] { verify(s.plan); });
  }
};

TEST(VerifySequences, ACollectiveMustHaveATurnForEachAct) {
  EXPECT_EQ(RepeatedCollectives().error(), "no error");
  RepeatedCollectives few_turns;
  few_turns.turns({0, 1}, {2});
  few_turns.s.plan.communicators[CommunicatorId(0)].sequence.pop_back();
  EXPECT_NE(few_turns.error().find("acts 3 times in a launch, but has 2 turns"), std::string::npos)
      << few_turns.error();
}

TEST(VerifySequences, ASequenceThatNoOrderOfActsSatisfiesIsRejected) {
  RepeatedCollectives early_turn;  // y waits for all acts of x, but the turn of the last act follows that of y
  early_turn.turns({0, 1, 3}, {2});
  EXPECT_NE(early_turn.error().find("stalls: "), std::string::npos) << early_turn.error();
  EXPECT_NE(early_turn.error().find("turn 2 of communicator 0"), std::string::npos) << early_turn.error();
  RepeatedCollectives falling_turns;
  falling_turns.turns({0, 2, 1}, {3});
  EXPECT_NE(falling_turns.error().find("has turn 1 of communicator 0 after turn 2"), std::string::npos)
      << falling_turns.error();
}

TEST(VerifySequences, MembersMustAgreeOnTheTurnsOfACollective) {
  RepeatedCollectives disagreeing;
  disagreeing.turns({0, 1, 3}, {2}, 1);
  EXPECT_NE(disagreeing.error().find("this member has turns 0, 1, 2, but another member has turns 0, 1, 3"),
            std::string::npos)
      << disagreeing.error();
}

}  // namespace
}  // namespace karez::plan
