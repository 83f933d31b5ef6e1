// Tests of the straggler detector with prescribed times.
#include "karez/control/straggler_detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace karez::control {
namespace {

struct World {
  explicit World(int ranks) : detector(ranks), spent(static_cast<std::size_t>(ranks)) {}
  std::vector<SlowRank> launch(const std::vector<double>& seconds, Phase phase = Phase::kernels) {
    for (std::size_t rank = 0; rank < seconds.size(); ++rank) spent[rank][phase] += seconds[rank];
    return detector.launch(spent);
  }
  StragglerDetector detector;
  std::vector<RankTime> spent;
};

TEST(StragglerDetector, ARankThatIsTenTimesSlowerIsReportedOnceWithinTenLaunches) {
  for (Phase phase : {Phase::kernels, Phase::source, Phase::host})
    for (int slow : {0, 1, 2}) {
      World world(3);
      std::vector<double> seconds(3, 0.01);
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(world.launch(seconds, phase).empty());
      seconds[static_cast<std::size_t>(slow)] = 0.1;
      int reported = 0;
      for (int i = 1; i <= 100; ++i)
        for (const SlowRank& report : world.launch(seconds, phase)) {
          ++reported;
          EXPECT_EQ(i, StragglerDetector::consecutive_launches);
          EXPECT_EQ(report.rank, slow);
          EXPECT_EQ(report.phase, phase);
          EXPECT_NEAR(report.seconds, 0.1, 1e-9);
          EXPECT_NEAR(report.others_median, 0.01, 1e-9);
        }
      EXPECT_EQ(reported, 1);
    }
}

TEST(StragglerDetector, TwoRanksAreComparedWithEachOther) {
  World world(2);
  std::size_t reported = 0;
  for (int i = 0; i < 10; ++i) reported += world.launch({0.002, 0.05}).size();
  EXPECT_EQ(reported, 1u);
}

TEST(StragglerDetector, SingleSlowLaunchesAndSmallTimesAreIgnored) {
  World world(3);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(world.launch({0.01, i % StragglerDetector::consecutive_launches == 0 ? 0.01 : 5.0, 0.01}).empty())
        << "too few slow launches in a row";
    EXPECT_TRUE(world.launch({1e-6, 5e-4, 1e-6}, Phase::source).empty())
        << "the excess is less than min_excess_seconds";
    EXPECT_TRUE(world.launch({0.01, 0.03, 0.01}, Phase::host).empty()) << "less than slowdown_factor times the median";
  }
}

TEST(StragglerDetector, ARankThatIsSlowRepeatedlyIsReportedOnceForEachPhase) {
  World world(3);
  std::size_t reported = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 10; ++i) reported += world.launch({0.01, 0.01, 0.2}).size();
    for (int i = 0; i < 10; ++i) reported += world.launch({0.01, 0.01, 0.01}).size();
  }
  EXPECT_EQ(reported, 1u);
  for (int i = 0; i < 10; ++i) reported += world.launch({0.01, 0.01, 0.2}, Phase::host).size();
  EXPECT_EQ(reported, 2u);
}

TEST(StragglerDetector, StagesWithDifferentWorkAreComparedOnlyByTheirTimeBetweenLaunches) {
  World world(3);
  for (std::size_t rank = 0; rank < 3; ++rank) world.spent[rank].work = rank;
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(world.launch({0.01, 1, 0.01}).empty());
  std::size_t reported = 0;
  for (int i = 0; i < 10; ++i) reported += world.launch({0.01, 1, 0.01}, Phase::host).size();
  EXPECT_EQ(reported, 1u);
}

TEST(StragglerDetector, TimeBeforeTheFirstLaunchDoesNotCount) {
  World world(2);
  EXPECT_TRUE(world.launch({0, 100}).empty());
  for (int i = 0; i < StragglerDetector::consecutive_launches - 1; ++i) EXPECT_TRUE(world.launch({0.01, 1}).empty());
  EXPECT_EQ(world.launch({0.01, 1}).size(), 1u);
}

// Each rank spends its own random time in each of five launches. Compares the reports with a direct computation over
// all other ranks.
TEST(StragglerDetector, TheMedianIsThatOfTheOtherRanksWithTheSameWork) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const auto ranks = static_cast<std::size_t>(1 + trial % 9);
    std::vector<double> seconds_of(ranks);
    std::vector<std::uint64_t> work(ranks);
    for (double& seconds : seconds_of) seconds = std::array{0.001, 0.002, 0.01, 0.05, 0.3}[random() % 5];
    for (std::uint64_t& hash : work) hash = 1 + random() % 3;
    StragglerDetector detector(static_cast<int>(ranks));
    std::vector<RankTime> spent(ranks);
    std::vector<SlowRank> reported;
    for (int launch = 0; launch <= StragglerDetector::consecutive_launches; ++launch) {
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        spent[rank].work = work[rank];
        if (launch > 0) spent[rank][Phase::kernels] += seconds_of[rank];
      }
      for (const SlowRank& slow : detector.launch(spent)) reported.push_back(slow);
    }
    std::size_t expected = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::vector<double> others;
      for (std::size_t other = 0; other < ranks; ++other)
        if (other != rank && work[other] == work[rank]) others.push_back(seconds_of[other]);
      std::sort(others.begin(), others.end());
      if (others.empty() || seconds_of[rank] < StragglerDetector::slowdown_factor * others[others.size() / 2] +
                                                   StragglerDetector::min_excess_seconds)
        continue;
      ASSERT_LT(expected, reported.size()) << trial;
      EXPECT_EQ(reported[expected].rank, static_cast<int>(rank)) << trial;
      EXPECT_NEAR(reported[expected++].others_median, others[others.size() / 2], 1e-9) << trial;
    }
    EXPECT_EQ(reported.size(), expected) << trial;
  }
}

}  // namespace
}  // namespace karez::control
