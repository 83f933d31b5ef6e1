// Tests that compare device_workers with round-robin and with the best assignment.
#include "karez/passes/lowering/device_workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "karez/base/text.h"

namespace karez::passes {
namespace {

// Returns the seconds of the busiest worker.
double max_load(const std::vector<double>& seconds, const std::vector<int>& worker) {
  std::map<int, double> load;
  double maximum = 0;
  for (std::size_t d = 0; d < seconds.size(); ++d) maximum = std::max(maximum, load[worker[d]] += seconds[d]);
  return maximum;
}

// Returns the smallest maximum load of all assignments.
double min_max_load(const std::vector<double>& seconds, int workers) {
  std::vector<int> worker(seconds.size(), 0);
  double minimum = max_load(seconds, worker);
  for (std::size_t d = 0; d < worker.size();) {
    if (++worker[d] == workers) {
      worker[d++] = 0;
      continue;
    }
    minimum = std::min(minimum, max_load(seconds, worker));
    d = 0;
  }
  return minimum;
}

TEST(DeviceWorkers, TheAssignmentIsNotSlowerThanRoundRobinAndSatisfiesGrahamsBound) {
  int better = 0;
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    const int workers = 1 + static_cast<int>(random() % 4);
    std::vector<double> seconds(1 + random() % 7);
    for (double& s : seconds) s = static_cast<double>(random() % 100);
    std::vector<int> round_robin;
    for (std::size_t d = 0; d < seconds.size(); ++d) round_robin.push_back(static_cast<int>(d) % workers);
    const std::vector<int> assignment = device_workers(seconds, workers);
    ASSERT_EQ(assignment.size(), seconds.size());
    for (int w : assignment) ASSERT_TRUE(w >= 0 && w < workers);
    const double time = max_load(seconds, assignment);
    ASSERT_LE(time, max_load(seconds, round_robin));
    ASSERT_LE(time, min_max_load(seconds, workers) * (4.0 / 3) / 0.95);  // 4/3 is Graham's bound
    if (assignment == round_robin) continue;
    ++better;
    ASSERT_LT(time, 0.95 * max_load(seconds, round_robin));
  }
  EXPECT_GT(better, 60);
}

TEST(DeviceWorkers, SimilarDevicesAreAssignedRoundRobin) {
  EXPECT_EQ(device_workers({5, 5, 5, 5}, 2), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(device_workers({5, 5.1, 5.2, 5}, 2), (std::vector<int>{0, 1, 0, 1})) << "a gain of 1 % is not enough";
  EXPECT_EQ(device_workers({0, 0, 0}, 2), (std::vector<int>{0, 1, 0}))
      << "devices without work are assigned round-robin";
  EXPECT_EQ(device_workers({8, 1, 8, 1}, 2), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(device_workers({1, 8, 1, 8}, 2), (std::vector<int>{0, 0, 1, 1}))
      << "workers are numbered in the order of devices";
  EXPECT_EQ(device_workers({1, 2, 9}, 8), (std::vector<int>{0, 1, 2})) << "each device gets a separate worker";
}

}  // namespace
}  // namespace karez::passes
