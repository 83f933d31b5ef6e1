// Tests of the number of acts in a launch, dry runs, the priority rule, and the waits of actors.
#include "karez/plan/dry_run.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "karez/base/test_error.h"
#include "karez/base/test_golden.h"
#include "karez/plan/acts.h"
#include "karez/plan/plan.h"
#include "karez/plan/ready_queue.h"
#include "karez/plan/test_plan_builder.h"
#include "karez/plan/waits.h"

namespace karez::plan {
namespace {

TEST(Acts, PeriodsMultiplyAndDivideTheNumberOfActs) {
  PlanBuilder s;
  ActorId w = s.actor("w"), a = s.actor("a"), sum = s.actor("sum"), end = s.actor("end");
  s.start(w);
  s.start(a, 4);
  s.edge(w, {sum}, 1, 0, 1, 4);
  s.edge(a, {sum}, 2);
  s.edge(sum, {end}, 1, 0, 4, 1);
  s.done(end);
  EXPECT_EQ(acts_per_launch(s.plan), (ById<ActorId, std::int64_t>{1, 4, 4, 1}));
  EXPECT_EQ(messages_per_launch(s.plan), 2 * (1 + 1 + 1 + 4 + 1 + 1));
  EXPECT_EQ(dry_run(s.plan).messages, messages_per_launch(s.plan))
      << "the dry run must deliver as many messages as the formula predicts";
}

TEST(Acts, FractionalActsAndUnconnectedActorsAreErrors) {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b");
  s.start(a);
  s.edge(a, {b}, 1, 0, 2, 1);
  s.done(a);
  ActorId b2 = s.actor("c");
  s.edge(b, {b2});
  EXPECT_NE(error_of([&] { acts_per_launch(s.plan); }).find("would act 1/2 times in a launch"), std::string::npos);
  PlanBuilder t;
  ActorId x = t.actor("x"), y = t.actor("y");
  t.edge(x, {y});
  EXPECT_NE(error_of([&] { acts_per_launch(t.plan); }).find("actor 0 'x' is not connected to the session"),
            std::string::npos);
}

TEST(DryRun, ActsAreOrderedByPriority) {
  PlanBuilder s;
  ActorId a = s.actor("a"), late = s.actor("late"), soon = s.actor("soon");
  s.plan.actors[late].priority = 2;
  s.plan.actors[soon].priority = 1;
  s.start(a);
  s.edge(a, {late, soon});
  s.done(late);
  s.done(soon);
  EXPECT_EQ(dry_run(s.plan).order, (std::vector<ActorId>{a, soon, late}));
}

TEST(ReadyQueue, ActorsAreOrderedByPriorityAndThenById) {
  PlanBuilder s;
  for (int priority : {2, 0, 1, 0}) {
    ActorId a = s.actor("x");
    s.plan.actors[a].priority = priority;
  }
  EXPECT_EQ(priority_order(s.plan, {ActorId(0), ActorId(1), ActorId(2), ActorId(3)}),
            (std::vector<ActorId>{ActorId(1), ActorId(3), ActorId(2), ActorId(0)}));
}

TEST(ReadyQueue, TheQueueBehavesLikeASortedSet) {
  std::mt19937 random(7);
  for (int places : {1, 63, 64, 65, 5000}) {
    ReadyQueue queue(places);
    std::set<int> model;
    for (int i = 0; i < 20000; ++i) {
      int place = static_cast<int>(random() % static_cast<unsigned>(places));
      ASSERT_EQ(queue.has(place), model.count(place) == 1);
      if (random() % 3 == 0 && !model.empty()) {
        ASSERT_EQ(queue.pop(), *model.begin());
        model.erase(model.begin());
      } else if (model.insert(place).second) {
        queue.insert(place);
      } else {
        queue.erase(place);
        model.erase(place);
      }
      ASSERT_EQ(queue.size(), static_cast<int>(model.size()));
      ASSERT_EQ(queue.empty(), model.empty());
    }
  }
}

TEST(Waits, WaitsNameTheRegisterAndTheOtherActor) {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b");
  RegisterId begin = s.start(a, 2);
  s.edge(a, {b});
  s.done(b, 2);
  Ports ports(s.plan, a);
  EXPECT_EQ(print(s.plan, waits_of(s.plan, a, ports)), "a0 'a' waits for r0 to be filled by the session\n");
  EXPECT_TRUE(is_idle(ports));
  ports.take({.port = 0, .to = a, .reg = begin});
  EXPECT_TRUE(waits_of(s.plan, a, ports).empty()) << "a ready actor has no waits";
  ports.begin();
  EXPECT_TRUE(waits_of(s.plan, a, ports).empty()) << "a running actor has no waits";
  EXPECT_FALSE(is_idle(ports));
  ports.complete([](const Message&) {});
  EXPECT_EQ(print(s.plan, waits_of(s.plan, a, ports)), "a0 'a' waits for a free slot of r1 by a1 'b'\n");
}

TEST(Waits, AFullRegisterListsAWaitForEachOfItsConsumers) {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b"), c = s.actor("c");
  RegisterId begin = s.start(a, 2);
  s.edge(a, {b, c});
  s.done(b, 2);
  s.done(c, 2);
  Ports ports(s.plan, a);
  ports.take({.port = 0, .to = a, .reg = begin});
  ports.begin();
  ports.complete([](const Message&) {});
  auto waits = waits_of(s.plan, a, ports);
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].awaited, b);
  EXPECT_EQ(waits[1].awaited, c);
  EXPECT_TRUE(golden(print(s.plan, waits),
                     "a0 'a' waits for a free slot of r1 by a1 'b'\na0 'a' waits for a free slot of r1 by a2 'c'\n"));
}

}  // namespace
}  // namespace karez::plan
