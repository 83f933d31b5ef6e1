// Tests of the components of the blocks that are not placed, on a small conflict graph.
#include "karez/solve/conflict_components.h"

#include <gtest/gtest.h>

namespace karez::solve {
namespace {

// Conflicts 0 - 1 - 2 - 3 and 4 - 5.
struct ConflictComponentsTest : testing::Test {
  PackProblem problem{
      .blocks = std::vector<Block>(6, {1}), .conflicts = {{1}, {0, 2}, {1, 3}, {2}, {5}, {4}}, .cliques = {}};
  std::vector<int> rank{5, 4, 3, 2, 1, 0};
  std::vector<char> placed = std::vector<char>(6, 0);
  long work = 1000;
  ConflictComponents components{problem, rank, placed, work};
};

TEST_F(ConflictComponentsTest, EachComponentIsInTheOrderOfRanks) {
  EXPECT_EQ(components.split({0, 1, 2, 3, 4, 5}), (std::vector<std::vector<int>>{{3, 2, 1, 0}, {5, 4}}));
  EXPECT_EQ(components.split({0, 2, 3}), (std::vector<std::vector<int>>{{0}, {3, 2}}));
  EXPECT_EQ(work, 1000 - 8 - 4);
}

TEST_F(ConflictComponentsTest, APlacedBlockSeparatesItsNeighboursUnlessTheyHaveAnotherPath) {
  placed[1] = 1;
  EXPECT_FALSE(components.remain_connected(1));
  placed[1] = 0, placed[0] = 1;
  EXPECT_TRUE(components.remain_connected(0)) << "a single neighbour is connected";
  placed[4] = placed[5] = 1;
  EXPECT_FALSE(components.remain_connected(4)) << "no unplaced neighbour remains";
}

}  // namespace
}  // namespace karez::solve
