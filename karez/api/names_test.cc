// Tests that a program with `using namespace karez` may define types and variables with common names.
#include "karez/karez.h"

#include <gtest/gtest.h>

using namespace karez;

struct Block {
  int height = 1;
};
struct Node {
  Block block;
};
struct Layer : nn::Module {
  nn::Linear fc{*this, "fc", 3, 2};
  Tensor operator()(Tensor x) { return relu(fc(x)); }
};
using Net = Layer;
enum class Stage { first, last };
struct Batch {};
struct Input {};
struct Stream {};
struct Event {};

static const int S = 1, B = 2, T = 3;

TEST(Names, AProgramMayDefineTypesAndVariablesWithCommonNames) {
  Node node{Block{4}};
  Stage stage = Stage::last;
  [[maybe_unused]] Batch batch;
  [[maybe_unused]] Input input;
  [[maybe_unused]] Stream stream;
  [[maybe_unused]] Event event;
  World world;
  Net net;
  auto f = compile(world.mesh(), [&](Tensor x) { return sum(net(x)); });
  EXPECT_GE(f(HostArray::of<float>({1, 3}, {1, 2, 3})).item(), 0);
  EXPECT_EQ(node.block.height + S + B + T, 10);
  EXPECT_TRUE(stage == Stage::last);
}
