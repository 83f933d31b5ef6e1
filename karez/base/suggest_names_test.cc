// Tests of suggested names: their order, their number and the total count.
#include "karez/base/suggest_names.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace karez::base {
namespace {

TEST(SuggestNames, FewNamesAreAllShownWithTheNearestFirst) {
  EXPECT_EQ(suggest_names("x", {}), "there is none");
  EXPECT_EQ(suggest_names("x", {"abc"}), "there is 1: abc");
  EXPECT_EQ(suggest_names("matnul", {"add", "matmul", "mul"}), "there are 3: matmul, mul, add");
}

TEST(SuggestNames, TheTenNearestOfManyNamesAndTheCountAreShown) {
  std::vector<std::string> names;
  for (int i = 0; i < 128; ++i) names.push_back("block" + std::to_string(100 + i) + ".weight");
  EXPECT_EQ(suggest_names("block150.weigh", names),
            "the nearest of 128 are: block150.weight, block100.weight, block110.weight, block120.weight, "
            "block130.weight, block140.weight, "
            "block151.weight, block152.weight, block153.weight, block154.weight");
}

TEST(SuggestNames, ExactlyTenNamesAreAllShown) {
  std::vector<std::string> names;
  for (char c = 'a'; c <= 'j'; ++c) names.emplace_back(1, c);
  EXPECT_EQ(suggest_names("z", names), "there are 10: a, b, c, d, e, f, g, h, i, j");
}

TEST(SuggestNames, ANameThatContainsTheRequestedOneOrSharesItsLastPartIsNear) {
  EXPECT_EQ(suggest_names("reduce", {"relu", "reduce_max_and_more", "reduce_sum"}),
            "there are 3: reduce_max_and_more, reduce_sum, relu");
  EXPECT_EQ(suggest_names("cuda.matmul", {"cuda.add", "plain.matmul", "plain.add"}),
            "there are 3: plain.matmul, cuda.add, plain.add");
  EXPECT_EQ(suggest_names("kitten", {"sitting", "kit", "mitten"}), "there are 3: mitten, kit, sitting");
}

TEST(SuggestNames, ItemsAreShownByTheGivenFunction) {
  EXPECT_EQ(
      suggest_names("--epoch", std::vector<std::string>{"epochs", "lr"}, [](const std::string& s) { return "--" + s; }),
      "there are 2: --epochs, --lr");
}

}  // namespace
}  // namespace karez::base
