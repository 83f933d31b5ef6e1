// Tests of the choice of cores for data sets, with programs in virtual time.
#include "karez/data/tuning/data_core_tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace karez::data {
namespace {

using testing::HasSubstr;

// A program whose steps need `step` seconds of all cores and whose stages need `data` seconds of a core for each
// element. Threads that share cores slow down each other.
struct Program {
  int cores = 2;
  double step = 4e-3, data = 3e-3, slowdown = 1.2;

  double seconds(int data_cores) const {
    if (data_cores == 0) return slowdown * (step + data) / cores;
    return std::max(step / (cores - data_cores), data / data_cores);
  }
};

class DataCores : public testing::Test {
 protected:
  // Reads elements for so many seconds. Returns the number of times that the number of cores has changed.
  int run(DataCoreTuner& tuner, const Program& program, double seconds) {
    int changes = 0;
    for (const double end = now_ + seconds; now_ < end;) {
      const int before = tuner.data_cores();
      now_ += program.seconds(before);
      computing_ += program.data;
      ++reads_;
      tuner.note_read(now_, computing_);
      if (tuner.data_cores() == before) continue;
      ++changes;
      now_ += 0.3;  // the function is compiled again
      tuner.restart();
    }
    return changes;
  }

  double now_ = 100, computing_ = 0;
  int reads_ = 0;
};

TEST_F(DataCores, AStepThatSharesItsCoresGetsCoresOfItsOwn) {
  DataCoreTuner tuner(2);
  EXPECT_EQ(run(tuner, Program{}, 5), 1);
  EXPECT_TRUE(tuner.is_settled());
  EXPECT_EQ(tuner.data_cores(), 1);
  EXPECT_THAT(tuner.text(),
              HasSubstr("data_cores 1 of 2, chosen automatically: 250.0 elements per second, with 0 238."));
  EXPECT_EQ(run(tuner, Program{}, 100), 0);
}

TEST_F(DataCores, TheBestNumberOfSixteenIsFound) {
  for (double data : {2e-3, 8e-3, 20e-3, 60e-3}) {
    const Program program{.cores = 16, .step = 32e-3, .data = data};
    DataCoreTuner tuner(16);
    run(tuner, program, 30);
    EXPECT_TRUE(tuner.is_settled());
    double best = 1e9;
    for (int cores = 0; cores < 16; ++cores) best = std::min(best, program.seconds(cores));
    EXPECT_LE(program.seconds(tuner.data_cores()), 1.03 * best) << data << ": " << tuner.text();
  }
}

TEST_F(DataCores, ANumberThatDoesNotHelpIsGivenUp) {
  DataCoreTuner tuner(2);
  EXPECT_EQ(run(tuner, {.slowdown = 1}, 10), 2);
  EXPECT_TRUE(tuner.is_settled());
  EXPECT_EQ(tuner.data_cores(), 0);
  EXPECT_THAT(tuner.text(), HasSubstr("with 1 250.0"));
}

TEST_F(DataCores, StagesThatHardlyComputeAreNotTried) {
  DataCoreTuner tuner(2);
  EXPECT_EQ(run(tuner, {.data = 0.1e-3}, 10), 0);
  EXPECT_TRUE(tuner.is_settled());
  EXPECT_THAT(tuner.text(), HasSubstr("the stages use less than a tenth of a core"));
}

TEST_F(DataCores, ANewLoadIsNoticed) {
  DataCoreTuner tuner(2);
  run(tuner, Program{}, 10);
  EXPECT_EQ(run(tuner, {.data = 0.05e-3}, 30), 1);
  EXPECT_EQ(tuner.data_cores(), 0);
  run(tuner, Program{}, 60);
  EXPECT_EQ(tuner.data_cores(), 1);
}

TEST_F(DataCores, ALoadThatChangesAllTheTimeIsTriedLessAndLess) {
  DataCoreTuner tuner(2);
  int changes = 0;
  for (int i = 0; i < 200; ++i) changes += run(tuner, i % 2 == 0 ? Program{} : Program{.data = 0.05e-3}, 10);
  EXPECT_LE(changes, 16) << "in 2,000 seconds";
}

TEST_F(DataCores, PausesOfTheProgramDoNotCount) {
  DataCoreTuner tuner(2);
  for (int i = 0; i < 40; ++i) {
    run(tuner, Program{}, 4);
    now_ += 7;  // an evaluation
  }
  EXPECT_EQ(tuner.data_cores(), 1);
  EXPECT_THAT(tuner.text(), HasSubstr("250.0 elements per second, with 0 238."));
}

TEST_F(DataCores, SlowStepsAreMeasuredToo) {
  DataCoreTuner tuner(2);
  run(tuner, {.step = 2, .data = 1.5}, 300);
  EXPECT_EQ(tuner.data_cores(), 1);
}

TEST_F(DataCores, OneCoreIsForKernels) {
  DataCoreTuner tuner(1);
  EXPECT_EQ(run(tuner, {.cores = 1}, 10), 0);
  EXPECT_THAT(tuner.text(), HasSubstr("kernels need one core"));
}

TEST_F(DataCores, ClocksThatJumpDoNoHarm) {
  DataCoreTuner tuner(2);
  for (int i = 0; i < 10'000; ++i) {
    now_ += i % 100 == 0 ? -1 : 4e-3;
    computing_ += i % 70 == 0 ? -2 : 3e-3;
    tuner.note_read(now_, computing_);
    EXPECT_GE(tuner.data_cores(), 0);
    EXPECT_LE(tuner.data_cores(), 1);
  }
}

}  // namespace
}  // namespace karez::data
