// Tests of the costs of mesh axes, which depend on the class of the links between ranks.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "karez/api/ranks/link_costs.h"
#include "karez/api/ranks/test_ranks.h"
#include "karez/karez.h"

namespace karez {
namespace {

constexpr const char* class_costs =
    "link alpha=9 beta=9 link @shm alpha=1 beta=0.1 link @tcp alpha=2 beta=0.2 link @model alpha=3 beta=0.3";

// Returns a mesh whose positions are on these ranks; each rank has two devices.
Mesh mesh_of(const char* axes, std::vector<int> ranks) {
  Mesh out = Mesh::parse(axes);
  for (std::size_t index = 0; index < out.devices.size(); ++index)
    out.devices[index] = {ranks.at(index), static_cast<int>(index) % 2};
  return out;
}

double alpha(const char* axis, const std::vector<Mesh>& meshes, const RankTopology& topology,
             const char* table = class_costs) {
  const CostTable costs = with_class_costs(CostTable::parse(table), meshes, topology);
  costs.check();
  return costs.of_axis(axis).alpha;
}

TEST(LinkCosts, AnAxisWithoutAnEntryUsesTheClassOfItsSlowestLink) {
  const std::vector<Mesh> meshes{mesh_of("a=2,b=2,c=2", {0, 0, 1, 1, 2, 2, 3, 3})};
  const RankTopology two_hosts{{0, 0, 1, 1}}, one_host{{0, 0, 0, 0}};
  EXPECT_EQ(alpha("a", meshes, two_hosts), 2) << "expected the cost between hosts";
  EXPECT_EQ(alpha("b", meshes, two_hosts), 1) << "expected the cost between ranks on a host";
  EXPECT_EQ(alpha("c", meshes, two_hosts), 1) << "expected the cost between ranks, because there is no @local entry";
  EXPECT_EQ(alpha("a", meshes, one_host), 1);
  EXPECT_EQ(alpha("a", {mesh_of("a=4", {0, 1, 2, 3})}, {{0, 0, 0, 1}}), 2) << "the last rank is on another host";
  EXPECT_EQ(alpha("b", {mesh_of("a=2,b=2", {0, 1, 2, 3})}, {{0, 0, 0, 1}}), 2)
      << "one of the two groups spans two hosts";
}

TEST(LinkCosts, WithForcedTcpOnlyLinksWithinARankAreFast) {
  const std::vector<Mesh> meshes{mesh_of("b=2,c=2", {0, 0, 1, 1})};
  EXPECT_EQ(alpha("b", meshes, {{0, 0}, "tcp"}), 2);
  EXPECT_EQ(alpha("b", meshes, {{0, 0}, "shm"}), 1);
  EXPECT_EQ(alpha("c", meshes, {{0, 0}, "tcp"}), 1);
}

TEST(LinkCosts, AnAxisEntryTakesPrecedenceAndTheDefaultLinkIsTheFallback) {
  const RankTopology two_hosts{{0, 1}};
  EXPECT_EQ(alpha("model", {mesh_of("model=2", {0, 1})}, two_hosts), 3);
  EXPECT_EQ(alpha("a", {mesh_of("a=2", {0, 1})}, two_hosts, "link alpha=9 beta=9 link @shm alpha=1 beta=0.1"), 9);
  EXPECT_EQ(alpha("tcp", {mesh_of("tcp=2", {0, 0})}, two_hosts), 2)
      << "the entry of class @tcp must not apply to an axis named tcp";
}

TEST(LinkCosts, WithinARankTheLocalClassIsUsedIfTheTableHasIt) {
  const char* table = "link alpha=9 beta=9 link @shm alpha=1 beta=0.1 link @local alpha=4 beta=0.1";
  const std::vector<Mesh> meshes{mesh_of("b=2,c=2", {0, 0, 1, 1})};
  EXPECT_EQ(alpha("c", meshes, {{0, 0}}, table), 4);
  EXPECT_EQ(alpha("b", meshes, {{0, 0}}, table), 1) << "expected the cost between ranks";
  EXPECT_EQ(alpha("a", {mesh_of("a=2", {0, 0}), mesh_of("a=2", {0, 1})}, {{0, 0}}, table), 1)
      << "expected the cost of the slower of the two meshes";
}

TEST(LinkCosts, ForAxesWithTheSameNameTheSlowestClassIsUsed) {
  const RankTopology two_hosts{{0, 1}};
  for (const auto& meshes : {std::vector{mesh_of("a=2", {0, 0}), mesh_of("a=2", {0, 1})},
                             std::vector{mesh_of("a=2", {0, 1}), mesh_of("a=2", {0, 0})}})
    EXPECT_EQ(alpha("a", meshes, two_hosts), 2);
}

TEST(LinkCosts, BetweenPlacementsTheSlowestClassOfAllRanksIsUsed) {
  const char* table =
      "link alpha=9 beta=9 link @shm alpha=1 beta=0.1 link @local alpha=4 beta=0.1 link @tcp alpha=2 beta=0.2";
  EXPECT_EQ(alpha("stage", {mesh_of("", {0}), mesh_of("", {0})}, {{0, 0}}, table), 4);
  EXPECT_EQ(alpha("stage", {mesh_of("", {0}), mesh_of("", {1})}, {{0, 0}}, table), 1);
  EXPECT_EQ(alpha("stage", {mesh_of("", {0}), mesh_of("", {1})}, {{0, 1}}, table), 2);
  EXPECT_EQ(alpha("stage", {mesh_of("stage=2", {0, 1}), mesh_of("", {0})}, {{0, 0}}, table), 1);
  EXPECT_EQ(alpha("stage", {mesh_of("a=2", {0, 1})}, {{0, 0}}, table), 9)
      << "with one placement, there is no axis between placements";
}

// The layout of a product depends on the cost of a byte. If links cost nothing, the product is split over both ranks;
// if links are expensive, each rank computes the complete product.
TEST(LinkCosts, ThePlannerUsesTheLinkClassBetweenTheRanks) {
  auto ranks_with_transfers = [](const char* link) {
    const auto table = std::filesystem::temp_directory_path() / cat("karez-link-costs-", getpid());
    std::ofstream(table)
        << "link alpha=1 beta=1\nlink @shm alpha=0 beta=0\nlink @tcp alpha=10 beta=10\nmatmul_flops=1e3\n";
    std::atomic<int> count{0};
    on_ranks(2, [&](Ranks job) {
      job.link = link;
      World world({.cost_file = table, .ranks = job});
      auto product = compile(world.mesh("d=2"), [](Tensor a, Tensor b) { return matmul(a, b); });
      product.compile({{DType::f32, {16, 16}}, {DType::f32, {16, 16}}});
      count += !product.plan().transfers.empty();
      world.barrier();
    });
    std::filesystem::remove(table);
    return count.load();
  };
  EXPECT_EQ(ranks_with_transfers("shm"), 2);
  EXPECT_EQ(ranks_with_transfers("tcp"), 0);
}

}  // namespace
}  // namespace karez
