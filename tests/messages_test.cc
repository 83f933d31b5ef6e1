// Golden texts: what a user reads when a program is wrong, with source lines numberless.
#include <gtest/gtest.h>

#include <functional>
#include <regex>

#include "api/karez.h"

namespace karez {
namespace {

std::string said(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    std::string text = std::regex_replace(std::string(error.what()), std::regex("[^\\s'(]*/"), "");
    return std::regex_replace(text, std::regex("(\\w+\\.cc):\\d+"), "$1:N");
  }
  return "nothing";
}

struct Net : nn::Module {
  nn::Linear fc1{*this, "fc1", 20, 24}, fc2{*this, "fc2", 24, 10};
  Tensor operator()(Tensor x) { return fc2(relu(fc1(x))); }
};

class Messages : public ::testing::Test {
 protected:
  World world{{.devices = 4}};
  DeviceMesh mesh = world.mesh("data=2,model=2");
  Net net;
  HostArray x{TensorType{DType::f32, {8, 20}}}, narrow{TensorType{DType::f32, {8, 19}}};

  std::string of_rules(std::vector<LayoutRule> rules) {
    return said([&] { compile(mesh, [&](Tensor v) { return net(v); }, {.rules = rules})(x); });
  }
};

TEST_F(Messages, AShapeThatDoesNotFitNamesBothAndTheLine) {
  EXPECT_EQ(said([&] { compile(mesh, [&](Tensor v) { return net(v); })(narrow); }), "?");
  EXPECT_EQ(said([&] { compile(mesh, [&](Tensor v) { return v + v * full({7}, 1.0); })(x); }), "?");
}

TEST_F(Messages, AMeshLargerThanTheDevicesSaysHowManyItTakes) { EXPECT_EQ(said([&] { world.mesh("data=4,model=2"); }), "?"); }

TEST_F(Messages, AnUnknownAxisListsTheAxes) { EXPECT_EQ(of_rules({{"fc1.weight", P("pipe")}}), "?"); }

TEST_F(Messages, ARuleThatMatchesNothingListsTheParameters) { EXPECT_EQ(of_rules({{"conv*", P("model")}}), "?"); }

TEST_F(Messages, ALayoutThatAnOpDoesNotAllowListsTheLegalOnes) {
  auto sliced = [&](Tensor v) { return with_layout(slice(v, {0, 1}, {8, 10}), P(nullptr, "model")); };
  EXPECT_EQ(said([&] { compile(mesh, sliced)(x); }), "?");
}

}  // namespace
}  // namespace karez
