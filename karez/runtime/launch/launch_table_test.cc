// Tests of the launch table: tickets, the limit of launches in flight, and how finished launches are dropped.
#include "karez/runtime/launch/launch_table.h"

#include <gtest/gtest.h>

#include "karez/plan/test_plan_builder.h"
#include "karez/runtime/load/loaded_plan.h"

namespace karez::runtime {
namespace {

struct Fixture {
  LoadedPlan plan;
  LaunchTable table{2};
  Fixture() : plan(make_plan(), 2) {}
  static Plan make_plan() {
    PlanBuilder s;
    const ActorId a = s.actor("a");
    s.start(a), s.done(a);
    return s.plan;
  }
  std::shared_ptr<LaunchRecord> add_launch() {
    auto record = std::make_shared<LaunchRecord>();
    record->loaded = &plan;
    table.add(record);
    return record;
  }
  std::shared_ptr<LaunchRecord> add_remote_launch() {
    auto record = std::make_shared<LaunchRecord>();
    record->remote_only = true;
    table.add(record);
    return record;
  }
};

TEST(LaunchTable, AVariableLockHasTheTicketOfTheNextLaunchAndNoIndex) {
  Fixture f;
  EXPECT_EQ(f.add_launch()->ticket, 1u);
  const auto lock = std::make_shared<LaunchRecord>();
  f.table.add(lock);
  EXPECT_EQ(lock->ticket, 2u);
  EXPECT_EQ(lock->index, 0);
  EXPECT_EQ(f.add_launch()->ticket, 2u);
  EXPECT_EQ(f.add_remote_launch()->ticket, 3u);
  EXPECT_EQ(f.table.launched(), 3);
  EXPECT_EQ(f.table.next_ticket(), 4u);
}

TEST(LaunchTable, ThereIsCapacityWhileFewerLaunchesAreActiveThanTheLimit) {
  Fixture f;
  const auto first = f.add_launch();
  f.add_remote_launch();
  EXPECT_TRUE(f.table.has_capacity(false));
  f.add_launch();
  EXPECT_EQ(f.table.active(), 2);
  EXPECT_FALSE(f.table.has_capacity(false));
  first->over = true;
  EXPECT_TRUE(f.table.has_capacity(false));
}

TEST(LaunchTable, WithSeveralRanksAnOldLaunchThatIsNotOverPreventsFurtherLaunches) {
  Fixture f;
  const auto old = f.add_launch();
  for (int i = 1; i < LaunchTable::report_within; ++i) f.add_remote_launch()->over = true;
  EXPECT_TRUE(f.table.has_capacity(true));
  f.add_remote_launch()->over = true;
  EXPECT_FALSE(f.table.has_capacity(true));
  EXPECT_TRUE(f.table.has_capacity(false));
  old->over = true;
  EXPECT_TRUE(f.table.has_capacity(true));
}

TEST(LaunchTable, AllOverBeforeATicketIgnoresLaunchesWithLaterTickets) {
  Fixture f;
  const auto first = f.add_launch();
  const std::uint64_t ticket = f.table.next_ticket();
  f.add_launch();
  EXPECT_FALSE(f.table.all_over_before(ticket));
  first->over = true;
  EXPECT_TRUE(f.table.all_over_before(ticket));
  EXPECT_FALSE(f.table.all_over());
}

TEST(LaunchTable, DroppedLaunchesReturnTheirObjectsToTheCaller) {
  Fixture f;
  const auto first = f.add_launch(), second = f.add_launch();
  first->producers.push_back(second);
  first->over = true;
  EXPECT_EQ(f.table.drop_finished().producers.size(), 1u);
  EXPECT_TRUE(first->producers.empty());
  ASSERT_EQ(f.table.records().size(), 1u);
  EXPECT_EQ(f.table.records()[0], second);
}

TEST(LaunchTable, FinishedRemoteLaunchesAreDroppedSeparately) {
  Fixture f;
  f.add_launch()->over = true;
  f.add_remote_launch()->over = true;
  const auto running = f.add_remote_launch();
  f.table.drop_finished_remote();
  ASSERT_EQ(f.table.records().size(), 2u);
  EXPECT_EQ(f.table.records()[1], running);
}

}  // namespace
}  // namespace karez::runtime
