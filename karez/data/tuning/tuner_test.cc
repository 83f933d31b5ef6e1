// Tests of the tuner with hand-made times.
#include "karez/data/tuning/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "karez/base/test_error.h"

namespace karez::data {
namespace {

using testing::HasSubstr;

constexpr double period = 0.1;

// One stage with lanes whose acts take `act` seconds and use a core for `share` of it.
struct Load {
  double act = 10e-3, share = 0;
  double lanes_that_help = 1000;  // more make all acts slower
  double demand = 1e9;            // elements a second that the reader takes
};

class OneStage {
 public:
  explicit OneStage(TunerLimits limits = {.cores = 2}, TunedUnit unit = {.most_lanes = most_tuned_lanes})
      : tuner(
            [&] {
              unit.stages = {plan::StageId(1)};
              return std::vector<TunedUnit>{unit};
            }(),
            limits) {}
  // The times of a period in which the stage does what the load says.
  UnitTimes times(const Load& load) const {
    const double lanes = tuner.lanes(0), act = load.act * std::max(1.0, lanes / load.lanes_that_help);
    const double rate = std::min(lanes / act, load.demand);
    const bool full = lanes / act < load.demand;
    return {.full = full ? period : 0,
            .acting = rate * act * period,
            .computing = rate * act * period * load.share,
            .acts = static_cast<std::int64_t>(rate * period),
            .bytes = bytes,
            .registers = {{}}};
  }
  // Steps in which the number of lanes changes.
  int run(double seconds, const Load& load) {
    int changes = 0;
    for (double at = 0; at < seconds; at += period) {
      const int lanes = tuner.lanes(0);
      tuner.step(period, std::vector{times(load)});
      changes += tuner.lanes(0) != lanes;
      most = std::max(most, tuner.lanes(0));
    }
    return changes;
  }

  Tuner tuner;
  std::int64_t bytes = 0;
  int most = 1;
};

TEST(Tuner, LanesThatWaitGrowToTheMostWithinThreeSeconds) {
  OneStage stage;
  stage.run(3, {});
  EXPECT_EQ(stage.tuner.lanes(0), 64);
  EXPECT_EQ(stage.tuner.slots(0), 128) << "twice the lanes";
  EXPECT_EQ(stage.run(20, {}), 0) << "it stays there";
  EXPECT_EQ(stage.tuner.text(0),
            "lanes 64 of at most 64: fewer were all busy for 100 % of the time while the reader waited; slots 128: for "
            "the lanes");
}

TEST(Tuner, LanesThatComputeGrowToTheCores) {
  for (const int cores : {1, 2, 7}) {
    OneStage stage({.cores = cores});
    stage.run(5, {.share = 0.97});
    EXPECT_EQ(stage.tuner.lanes(0), cores);
    EXPECT_EQ(stage.tuner.core_share(0), 1);
    EXPECT_EQ(stage.most, cores) << "at no time more";
  }
  OneStage half({.cores = 2});
  half.run(5, {.share = 0.5});
  EXPECT_EQ(half.tuner.lanes(0), 4) << "acts that wait for half of their time use the cores only together";
  EXPECT_THAT(half.tuner.text(0), HasSubstr("of at most 4 (acts need 50 % of a core, and there are 2 cores)"));
  half.run(5, {.share = 1});
  EXPECT_EQ(half.tuner.lanes(0), 2) << "and fewer when they compute";
}

TEST(Tuner, ThreadsAreALimit) {
  OneStage threads({.cores = 2, .threads = 5});
  threads.run(5, {});
  EXPECT_EQ(threads.tuner.lanes(0), 5);
}

TEST(Tuner, ThereAreOnlyAsManyLanesAsTheReaderNeeds) {
  OneStage stage;
  stage.run(5, {.demand = 350});  // 3.5 acts at the same time
  EXPECT_GE(stage.tuner.lanes(0), 4);
  EXPECT_LE(stage.tuner.lanes(0), 8);
  stage.run(10, {});
  EXPECT_EQ(stage.tuner.lanes(0), 64);
  const int changes = stage.run(60, {.demand = 350});
  EXPECT_GE(stage.tuner.lanes(0), 4);
  EXPECT_LE(stage.tuner.lanes(0), 8);
  EXPECT_LE(changes, 6) << "it settles";
  EXPECT_THAT(stage.tuner.text(0), HasSubstr("on average, 3."));
}

TEST(Tuner, LanesThatMakeActsSlowerAreTakenBackAndTriedAgainWhenTheLoadChanges) {
  OneStage stage;
  const Load one_at_a_time{.lanes_that_help = 1};
  int changes = stage.run(20, one_at_a_time);
  EXPECT_EQ(stage.tuner.lanes(0), 1);
  EXPECT_LE(changes, 8);
  EXPECT_THAT(stage.tuner.text(0), HasSubstr("with more, its acts took longer in proportion"));
  changes = stage.run(60, one_at_a_time);
  EXPECT_LE(changes, 6) << "it tries again less and less often";
  stage.run(5, {.act = 40e-3});
  EXPECT_EQ(stage.tuner.lanes(0), 64);
  OneStage four;
  four.run(10, {.lanes_that_help = 4});
  EXPECT_GE(four.tuner.lanes(0), 4);
  EXPECT_LE(four.tuner.lanes(0), 8);
}

TEST(Tuner, ShortActsGetNoFurtherLane) {
  OneStage stage;
  stage.run(5, {.act = 5e-6, .share = 1});
  EXPECT_EQ(stage.tuner.lanes(0), 1);
  EXPECT_THAT(stage.tuner.text(0), HasSubstr("lanes 1 of at most 2"));
  EXPECT_THAT(stage.tuner.text(0), HasSubstr("its acts take less time than to wake a thread"));
}

TEST(Tuner, SlotsGrowIfTheSameStageIsBlockedAndAwaited) {
  struct Case {
    UnitTimes::Register first, second;
    int slots;
  };
  // 0.1 s are a period.
  for (const Case& c : {Case{{0.05, 0.03}, {}, 256},
                        {{}, {0.05, 0.03}, 256},
                        {{0.1, 0}, {}, 2},
                        {{0, 0.1}, {}, 2},
                        {{0.1, 0}, {0, 0.1}, 2},  // the reader waits for another stage
                        {{0.001, 0.05}, {}, 2}}) {
    Tuner tuner({TunedUnit{.stages = {plan::StageId(0), plan::StageId(1)}}}, {});
    for (int i = 0; i < 100; ++i)
      tuner.step(period, std::vector{UnitTimes{.acts = 10, .registers = {c.first, c.second}}});
    EXPECT_EQ(tuner.slots(0), c.slots);
  }
}

TEST(Tuner, AllWorkStopsAndGoesOnWithoutAChange) {
  OneStage stage;
  stage.run(5, {});
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(stage.tuner.step(period, std::vector{UnitTimes{}}));
  EXPECT_EQ(stage.tuner.lanes(0), 64) << "a pause of the reader is no reason to change a number";
  EXPECT_EQ(stage.tuner.slots(0), 128);
}

TEST(Tuner, TimesOfZeroAndExtremeTimesGiveNumbersInTheirRanges) {
  for (const double time : {0.0, 1e-300, 1e300, std::numeric_limits<double>::infinity()})
    for (const double seconds : {0.0, 1e-9, 0.1, 1e9}) {
      OneStage stage;
      stage.bytes = std::numeric_limits<std::int64_t>::max() / 512;
      for (int i = 0; i < 50; ++i) {
        stage.tuner.step(seconds, std::vector{UnitTimes{time, time, time, i % 3, 0, {{time, time}}}});
        EXPECT_GE(stage.tuner.lanes(0), 1);
        EXPECT_LE(stage.tuner.lanes(0), 64);
        EXPECT_GE(stage.tuner.slots(0), 1);
        EXPECT_LE(stage.tuner.slots(0), 256);
        EXPECT_TRUE(stage.tuner.core_share(0) >= 0 && stage.tuner.core_share(0) <= 1);
        EXPECT_EQ(stage.tuner.text(0).find("nan"), std::string::npos);
      }
    }
}

TEST(Tuner, BytesLimitTheSlots) {
  const TunedUnit unit{.stages = {plan::StageId(0)}};
  Tuner tuner({unit}, {.bytes = 20'000});
  const auto step = [&](std::int64_t bytes) {
    tuner.step(period, std::vector{UnitTimes{.acts = 10, .bytes = bytes, .registers = {{0.05, 0.05}}}});
  };
  for (int i = 0; i < 100; ++i) step(1000);
  EXPECT_EQ(tuner.slots(0), 16);
  EXPECT_EQ(tuner.text(0), "slots 16: more would need more than 20000 bytes");
  for (int i = 0; i < 100; ++i) step(6000);
  EXPECT_EQ(tuner.slots(0), 2) << "fewer when elements become larger";
}

TEST(Tuner, UnneededSlotsAreTakenAwayAndReturnWithoutBackAndForth) {
  Tuner tuner({TunedUnit{.stages = {plan::StageId(0)}}}, {});
  const auto step = [&](double blocked, double awaited) {
    return tuner.step(period, std::vector{UnitTimes{.acts = 10, .registers = {{blocked, awaited}}}});
  };
  for (int i = 0; i < 100; ++i) step(0.05, 0.05);
  EXPECT_EQ(tuner.slots(0), 256);
  int changes = 0;
  for (int i = 0; i < 20'000; ++i) {  // 32 slots are needed
    const bool enough = tuner.slots(0) >= 32;
    changes += step(0.05, enough ? 0 : 0.05);
  }
  EXPECT_GE(tuner.slots(0), 32);
  EXPECT_LE(tuner.slots(0), 64);
  EXPECT_LE(changes, 30);
}

TEST(Tuner, TheNumbersOfAStreamAreThoseWithWhichTheNextBegins) {
  const auto numbers = std::make_shared<TunedNumbers>();
  const TunedUnit unit{.most_lanes = most_tuned_lanes, .numbers = numbers};
  OneStage first({.cores = 2}, unit);
  first.run(5, {});
  OneStage second({.cores = 2}, unit);
  EXPECT_EQ(second.tuner.lanes(0), 64);
  EXPECT_EQ(second.tuner.slots(0), 128);
  EXPECT_EQ(second.tuner.core_share(0), 0);
}

TEST(Tuner, WrongLimitsAndTimesAreErrors) {
  EXPECT_EQ(base::error_of([] { Tuner({}, {.cores = 0}); }),
            "the tuner needs at least 1 core and 1 thread, got 0 and 256");
  OneStage stage;
  EXPECT_EQ(base::error_of([&] { stage.tuner.step(1, {}); }), "the tuner has 1 units, got the times of 0");
  EXPECT_FALSE(stage.tuner.step(std::nan(""), std::vector{UnitTimes{}}));
}

}  // namespace
}  // namespace karez::data
