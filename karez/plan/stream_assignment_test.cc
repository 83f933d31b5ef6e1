// Tests of the assignment of streams to workers.
#include "karez/plan/stream_assignment.h"

#include <gtest/gtest.h>

namespace karez::plan {
namespace {

using enum StreamKind;

std::vector<int> assigned(const std::vector<std::pair<StreamKind, int>>& streams, int max_workers) {
  Plan plan;
  for (auto [kind, worker] : streams) plan.streams.push_back({DeviceId(0), kind, worker});
  const auto by_stream = assign_streams(plan, max_workers);
  return {by_stream.begin(), by_stream.end()};
}

TEST(StreamAssignment, WorkerNumbersAreTakenModuloTheMaximum) {
  const std::vector<std::pair<StreamKind, int>> streams{{compute, 0}, {comm, 0},    {compute, 1},
                                                        {comm, 1},    {compute, 2}, {host, 0}};
  EXPECT_EQ(assigned(streams, 4), (std::vector{0, 0, 1, 1, 2, 0}));
  EXPECT_EQ(assigned(streams, 2), (std::vector{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(assigned(streams, 1), (std::vector{0, 0, 0, 0, 0, 0}));
}

TEST(StreamAssignment, AWorkerThatServesOnlyCommStreamsIsAdditional) {
  EXPECT_EQ(assigned({{compute, 0}, {comm, 1}, {host, 0}}, 1), (std::vector{0, 1, 0}));
  EXPECT_EQ(assigned({{compute, 0}, {comm, 1}, {host, 0}}, 8), (std::vector{0, 1, 0}));
  EXPECT_EQ(assigned({{compute, 0}, {comm, 2}, {compute, 1}, {comm, 2}}, 1), (std::vector{0, 1, 0, 1}));
  EXPECT_EQ(assigned({{compute, 0}, {comm, 1}, {compute, 2}, {comm, 1}}, 4), (std::vector{0, 3, 2, 3}));
  EXPECT_EQ(assigned({{compute, 0}, {comm, 0}, {compute, 1}, {comm, 7}}, 2), (std::vector{0, 0, 1, 2}))
      << "a worker that computes also serves its comm stream";
}

}  // namespace
}  // namespace karez::plan
