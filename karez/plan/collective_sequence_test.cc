// Tests of the rule of turns, and of the sequence positions of a plan's collectives.
#include "karez/plan/collective_sequence.h"

#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/plan/dry_run.h"
#include "karez/plan/test_plan_builder.h"

namespace karez::plan {
namespace {

// Two devices and one communicator with `length` turns. Actor d * length + t is the collective of device d at turn t.
struct CollectivePlan {
  PlanBuilder s{2};
  int length;
  explicit CollectivePlan(int length_) : length(length_) {
    s.plan.communicators.push_back({{s.plan.devices[DeviceId(0)], s.plan.devices[DeviceId(1)]},
                                    1024,
                                    std::vector<std::string>(static_cast<std::size_t>(length))});
    for (int d = 0; d < 2; ++d)
      for (int t = 0; t < length; ++t) {
        ActorId a = s.actor(cat(d, ".", t), 0, d, BodyKind::collective);
        Collective c{CommunicatorId(0), CollectiveKind::all_reduce, Reduce::sum, {t}, {}, {}, {}, {}, {}, ""};
        c.in.view = c.out.view = View(DType::f32, {0});
        s.plan.actors[a].collective = c;
        s.start(a);
        s.done(a);
      }
  }
  ActorId at(int device, int turn) const { return ActorId(device * length + turn); }
};

std::vector<ActorId> may_begin(const CollectiveSequence& turns, int actors) {
  std::vector<ActorId> out;
  for (int i = 0; i < actors; ++i)
    if (turns.may_begin(ActorId(i))) out.emplace_back(i);
  return out;
}

TEST(CollectiveSequence, CollectivesBeginInOrderAndTheSequenceRepeats) {
  CollectivePlan collectives(3);
  ActorId independent = collectives.s.actor("independent");
  collectives.s.start(independent);
  collectives.s.done(independent);
  CollectiveSequence turns(collectives.s.plan);
  auto startable = [&] { return may_begin(turns, 7); };
  using Actors = std::vector<ActorId>;
  EXPECT_EQ(startable(), (Actors{collectives.at(0, 0), collectives.at(1, 0), independent}));
  for (int round = 0; round < 2; ++round)
    for (int t = 0; t < 3; ++t) {
      SequencePosition& position =
          turns.position(collectives.at(0, 2 - t));  // any collective of a device gives its position
      EXPECT_EQ(position.due(), collectives.at(0, t));
      position.begin(collectives.at(0, t));
      EXPECT_EQ(startable(), (Actors{collectives.at(1, 0), independent}))
          << "while a collective runs, no collective of its device may begin";
      position.end();
      EXPECT_EQ(startable(), (Actors{collectives.at(0, (t + 1) % 3), collectives.at(1, 0), independent}));
    }
}

TEST(CollectiveSequence, AnActorThatIsNotDueMayNotBegin) {
  CollectivePlan collectives(2);
  CollectiveSequence turns(collectives.s.plan);
  SequencePosition& position = turns.position(collectives.at(1, 0));
  EXPECT_THROW(position.begin(collectives.at(1, 1)), Error);
  EXPECT_THROW(position.end(), Error) << "no collective is running";
  position.begin(collectives.at(1, 0));
  EXPECT_THROW(position.begin(collectives.at(1, 0)), Error) << "the collective is already running";
  EXPECT_TRUE(turns.may_begin(collectives.at(0, 0))) << "another device has its own position";
}

TEST(CollectiveSequence, EachCommunicatorHasAPositionPerDeviceAndAGroupPerTurn) {
  CollectivePlan collectives(2);
  collectives.s.plan.communicators.push_back(collectives.s.plan.communicators[CommunicatorId(0)]);
  for (int d = 0; d < 2; ++d)
    collectives.s.plan.actors[collectives.at(d, 1)].collective->communicator = CommunicatorId(1);
  for (int d = 0; d < 2; ++d) collectives.s.plan.actors[collectives.at(d, 1)].collective->turns = {0};
  CollectiveSequence turns(collectives.s.plan);
  EXPECT_EQ(may_begin(turns, 4).size(), 4u) << "each collective is the first of its sequence";
  EXPECT_EQ(turns.groups(), 2);
  EXPECT_EQ(turns.members(collectives.at(0, 1)), (std::vector<ActorId>{collectives.at(0, 1), collectives.at(1, 1)}));
  EXPECT_EQ(turns.members(collectives.at(1, 0)), (std::vector<ActorId>{collectives.at(0, 0), collectives.at(1, 0)}));
  EXPECT_NE(turns.group_number(collectives.at(0, 0)), turns.group_number(collectives.at(0, 1)));
}

TEST(CollectiveSequence, ASequenceWithAGapIsRejected) {
  auto error_with = [](std::vector<int> turns) {
    CollectivePlan collectives(2);
    collectives.s.plan.actors[collectives.at(1, 0)].collective->turns = {turns[0]};
    collectives.s.plan.actors[collectives.at(1, 1)].collective->turns = {turns[1]};
    return error_of([&] { CollectiveSequence{collectives.s.plan}; });
  };
  EXPECT_EQ(error_with({0, 1}), "no error");
  EXPECT_EQ(error_with({0, 2}), "communicator 0: device 1 has no collective at turn 1");
  EXPECT_EQ(error_with({1, 2}), "communicator 0: device 1 has no collective at turn 0");
}

TEST(CollectiveSequence, MembersOfACollectiveWaitForEachOtherInADryRun) {
  CollectivePlan collectives(1);
  PlanBuilder& s = collectives.s;  // a second communicator, which device 0 uses after the first and device 1 before it
  s.plan.communicators.push_back(s.plan.communicators[CommunicatorId(0)]);
  for (int d = 0; d < 2; ++d) {
    ActorId second_collective = s.actor(cat("other.", d), 0, d, BodyKind::collective), first = collectives.at(d, 0);
    s.plan.actors[second_collective].collective = s.plan.actors[first].collective;
    s.plan.actors[second_collective].collective->communicator = CommunicatorId(1);
    s.edge(d == 0 ? first : second_collective, {d == 0 ? second_collective : first});
    s.start(second_collective);
    s.done(second_collective);
  }
  EXPECT_THROW(dry_run(s.plan), Error);
  EXPECT_EQ(dry_run(s.plan, false).order.size(), 4u) << "without turns, collectives do not wait for members";
}

TEST(CollectiveSequence, ADryRunFollowsTheTurnsWhateverThePriorities) {
  CollectivePlan collectives(3);
  for (int t = 0; t < 3; ++t)
    collectives.s.plan.actors[collectives.at(0, t)].priority =
        -t;  // by priority, device 0 would begin with the last collective
  std::vector<ActorId> order = dry_run(collectives.s.plan).order;
  ASSERT_EQ(order.size(), 6u);
  for (int d = 0; d < 2; ++d) {
    std::vector<ActorId> device_order;
    for (ActorId a : order)
      if (a.index / 3 == d) device_order.push_back(a);
    EXPECT_EQ(device_order, (std::vector<ActorId>{collectives.at(d, 0), collectives.at(d, 1), collectives.at(d, 2)}));
  }
  EXPECT_EQ(dry_run(collectives.s.plan, false).order.front(), collectives.at(0, 2))
      << "without turns, priorities decide";
}

}  // namespace
}  // namespace karez::plan
