// Tests of limits of lanes and slots that change while a stage runs, and of what a stage lacks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "karez/base/test_error.h"
#include "karez/plan/stages.h"

namespace karez::plan {
namespace {

using base::error_of;
using Emission = StageResult::Emission;

// A stage with three lanes and four slots, which reads a stage with six slots.
class LimitedStage : public testing::Test {
 protected:
  LimitedStage() : ports_(graph(), StageId(1)) {
    take({.kind = StageMessage::Kind::start, .to = StageId(1), .run = 1});
    const std::vector<int> starts = {0};
    ports_.complete(ports_.begin(), {Emission::nothing, 0, starts}, send);
  }
  static StageGraph graph() {
    StageGraph graph;
    graph.stages.add({"input", {}, 6});
    graph.stages.add({"stage", {StageId(0)}, 4, 3});
    return graph;
  }
  void take(const StageMessage& message) { ports_.take(message, send); }
  void fill(int pieces) {
    for (; pieces > 0; --pieces, ++piece_)
      take({StageMessage::Kind::filled, StageId(1), 0, static_cast<int>(piece_ % 6), false, 1, piece_});
  }
  void begin_all() {
    while (ports_.ready()) acts_.push_back(ports_.begin());
  }
  void end_first() {
    ports_.complete(acts_.front(), {Emission::element, 0}, send);
    filled_.push_back(acts_.front().slot);
    acts_.erase(acts_.begin());
  }
  void read_first() {
    take({StageMessage::Kind::returned, StageId(1), 0, filled_.front()});
    filled_.erase(filled_.begin());
  }

  struct Ignore {
    void operator()(const StageMessage&) const {}
  };
  static constexpr Ignore send{};
  StagePorts ports_;
  std::vector<StageAct> acts_;
  std::vector<int> filled_;
  std::int64_t piece_ = 0;
};

TEST_F(LimitedStage, ALowerLimitOfLanesHoldsForFurtherActs) {
  fill(6);
  begin_all();
  EXPECT_EQ(ports_.running(), 3);
  ports_.set_limits(1, 4);
  EXPECT_EQ(ports_.lane_limit(), 1);
  end_first();
  EXPECT_FALSE(ports_.ready());
  end_first();
  EXPECT_FALSE(ports_.ready()) << "one act still runs";
  read_first();
  end_first();
  EXPECT_TRUE(ports_.ready());
  begin_all();
  EXPECT_EQ(ports_.running(), 1);
  ports_.set_limits(3, 4);
  begin_all();
  EXPECT_EQ(ports_.running(), 2) << "two slots are filled";
}

TEST_F(LimitedStage, ALowerLimitOfSlotsHoldsAndFilledSlotsAreRead) {
  fill(6);
  begin_all();
  ports_.set_limits(3, 2);
  EXPECT_EQ(ports_.slot_limit(), 2);
  EXPECT_EQ(ports_.slots(), 4);
  for (int i = 0; i < 3; ++i) end_first();
  EXPECT_EQ(ports_.filled_slots(), 3);
  EXPECT_FALSE(ports_.ready());
  EXPECT_EQ(ports_.activity(), StageActivity::no_slot);
  read_first();
  EXPECT_FALSE(ports_.ready());
  read_first();
  EXPECT_TRUE(ports_.ready());
  begin_all();
  EXPECT_EQ(ports_.running(), 1);
}

TEST_F(LimitedStage, WhatIsLackingIsNamedIfItIsOneThing) {
  EXPECT_EQ(ports_.obstacle(), StageObstacle::input);
  EXPECT_TRUE(ports_.reads_next(StageId(0)));
  fill(4);
  EXPECT_EQ(ports_.obstacle(), StageObstacle::none);
  begin_all();
  EXPECT_EQ(ports_.obstacle(), StageObstacle::lane);
  ports_.set_limits(3, 2);
  EXPECT_EQ(ports_.obstacle(), StageObstacle::other) << "a lane and a slot";
  end_first();
  EXPECT_EQ(ports_.obstacle(), StageObstacle::slot);
  ports_.set_limits(2, 4);
  EXPECT_EQ(ports_.obstacle(), StageObstacle::lane);
  end_first();
  begin_all();
  EXPECT_EQ(ports_.obstacle(), StageObstacle::other) << "a lane and the input";
  take({.kind = StageMessage::Kind::stop, .to = StageId(1), .run = 2});
  EXPECT_EQ(ports_.obstacle(), StageObstacle::other);
}

TEST_F(LimitedStage, ActsThatJoinAnotherOneShareItsLane) {
  EXPECT_FALSE(ports_.can_join()) << "no act runs";
  fill(4);
  ports_.set_limits(1, 4);
  acts_.push_back(ports_.begin());
  EXPECT_FALSE(ports_.ready());
  EXPECT_TRUE(ports_.can_join());
  acts_.push_back(ports_.begin(true));
  acts_.push_back(ports_.begin(true));
  EXPECT_EQ(ports_.running(), 3);
  EXPECT_EQ(ports_.busy_lanes(), 1);
  EXPECT_EQ(ports_.obstacle(), StageObstacle::lane);
  ports_.set_limits(1, 3);
  EXPECT_FALSE(ports_.can_join()) << "no slot is free";
  EXPECT_THAT(error_of([&] { ports_.begin(true); }), testing::HasSubstr("begins an act although it is not ready"));
  ports_.set_limits(1, 4);
  end_first();
  end_first();
  end_first();
  EXPECT_EQ(ports_.running(), 0);
  EXPECT_EQ(ports_.busy_lanes(), 0);
  EXPECT_TRUE(ports_.ready());
  EXPECT_FALSE(ports_.can_join()) << "no act runs";
}

TEST_F(LimitedStage, TheEndOfARunJoinsNoAct) {
  fill(1);
  take({StageMessage::Kind::filled, StageId(1), 0, 1, true, 1, 1});
  acts_.push_back(ports_.begin());
  EXPECT_FALSE(ports_.can_join());
  EXPECT_TRUE(ports_.ready());
  end_first();
  take({.kind = StageMessage::Kind::stop, .to = StageId(1), .run = 2});
  EXPECT_FALSE(ports_.can_join());
}

TEST_F(LimitedStage, LimitsOutOfRangeAreErrors) {
  EXPECT_EQ(error_of([&] { ports_.set_limits(0, 1); }), "stage 1: the limit of lanes must be between 1 and 3, got 0");
  EXPECT_EQ(error_of([&] { ports_.set_limits(4, 1); }), "stage 1: the limit of lanes must be between 1 and 3, got 4");
  EXPECT_EQ(error_of([&] { ports_.set_limits(1, 0); }), "stage 1: the limit of slots must be between 1 and 4, got 0");
  EXPECT_EQ(error_of([&] { ports_.set_limits(1, 5); }), "stage 1: the limit of slots must be between 1 and 4, got 5");
  EXPECT_EQ(ports_.lane_limit(), 3);
  EXPECT_EQ(ports_.slot_limit(), 4);
}

}  // namespace
}  // namespace karez::plan
