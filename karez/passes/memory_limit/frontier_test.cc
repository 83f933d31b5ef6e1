// Tests of the frontier of time and memory: the order of candidates, and pinned seconds and bytes.
#include "karez/passes/memory_limit/frontier.h"

#include <gtest/gtest.h>

#include "karez/passes/memory_limit/memory_estimate.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

TEST(Frontier, EachCandidateTakesLongerThanThePreviousOneAndHasDifferentLayouts) {
  const Graph graph = testing::mlp_step(Mesh::parse("data=4"), {64, 128, 64, 10}, 32);
  CostTable costs;
  costs.link = {1e-4, 1e-12};
  const ShardedGraph fastest = shard(graph, costs);
  const auto points = frontier(graph, table(), costs, fastest).candidates;
  ASSERT_GE(points.size(), 3u);
  EXPECT_LE(points.size(), 11u);
  EXPECT_EQ(points[0].cost, fastest.cost);
  for (std::size_t i = 1; i < points.size(); ++i) {
    EXPECT_GE(points[i].cost, points[i - 1].cost);
    EXPECT_NE(print(points[i].graph), print(points[i - 1].graph));
  }
}

// Pins two sums over the frontier of some programs: of seconds, and of peak bytes in program order, both relative to
// the fastest layouts. A change of the search that makes these numbers worse needs a reason.
TEST(Frontier, TheFrontierReachesThePinnedSecondsAndBytes) {
  struct ExpectedFrontier {
    const char* mesh;
    std::vector<std::int64_t> sizes;
    std::int64_t batch;
    std::size_t candidates;
    double seconds, bytes;
  };
  for (const ExpectedFrontier& expected :
       {ExpectedFrontier{"data=4", {64, 128, 64, 10}, 32, 12, 17.262765, 12.192804},
        ExpectedFrontier{"data=2,model=2", {64, 128, 10}, 64, 13, 18.875002, 13.746423},
        ExpectedFrontier{"data=2,model=2", {16, 8, 32, 10}, 512, 11, 12.306616, 8.818790}}) {
    const Graph graph = testing::mlp_step(Mesh::parse(expected.mesh), expected.sizes, expected.batch);
    CostTable costs;
    costs.link = {1e-6, 1e-9};
    const ShardedGraph fastest = shard(graph, costs);
    auto bytes_of = [&](const ShardedGraph& candidate) {
      return static_cast<double>(peak_device_bytes(box(candidate.graph, table(), candidate.operand_layouts, costs)));
    };
    double seconds = 0, bytes = 0;
    const auto candidates = frontier(graph, table(), costs, fastest).candidates;
    for (const ShardedGraph& candidate : candidates)
      seconds += candidate.cost / fastest.cost, bytes += bytes_of(candidate) / bytes_of(fastest);
    EXPECT_EQ(candidates.size(), expected.candidates) << expected.mesh;
    EXPECT_NEAR(seconds, expected.seconds, 1e-6) << expected.mesh;
    EXPECT_NEAR(bytes, expected.bytes, 1e-6) << expected.mesh;
  }
}

}  // namespace
}  // namespace karez::passes
