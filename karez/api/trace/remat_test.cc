// Tests of FunctionOptions::remat: which nodes are recomputed, when the option has no effect, and which globs are
// errors. Tests of values and memory are in tests/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "karez/api/testing/test_texts.h"
#include "karez/karez.h"

namespace karez {
namespace {
using ::testing::HasSubstr;

struct Inner : nn::Module {
  Inner(Module& parent, const std::string& name) : Module(parent, name) {}
  nn::Linear up{*this, "up", 8, 64}, down{*this, "down", 64, 8};
  nn::Dropout drop{*this, "drop", 0.5};
  Tensor operator()(Tensor x) { return drop(down(tanh(up(x)))); }
};
struct Outer : nn::Module {
  Inner body{*this, "body"};
  nn::Linear head{*this, "head", 8, 1};
  Tensor operator()(Tensor x) { return head(x + body(x)); }
};

std::pair<Tensor, Tensor> with_gradient(Tensor loss, const Outer& net) {
  return {loss, grad(loss, net.parameters())[0]};
}

HostArray rows() {
  HostArray out(TensorType{DType::f32, {32, 8}});
  float next = 0;
  for (float& value : out.data<float>()) {
    next += 0.37f;
    value = next - static_cast<float>(static_cast<int>(next));
  }
  return out;
}

int count(const Function& function, const std::string& line) {
  int matches = 0;
  const auto& passes = function.passes();
  const std::string& text =
      std::find_if(passes.begin(), passes.end(), [](const PassTime& pass) { return pass.name == "recompute"; })->text;
  for (std::size_t at = text.find(line); at != text.npos; at = text.find(line, at + 1)) ++matches;
  return matches;
}

TEST(Remat, NodesOfAModuleRunTwiceWithTheSameDropout) {
  Outer net;
  auto gradient = [&](std::vector<std::string> remat, const char* line) {
    World fresh({.seed = 4});
    auto f = compile(fresh.mesh(), [&](Tensor x) { return with_gradient(sum(net(x)), net); },
                     {.remat = std::move(remat), .keep_text = true});
    HostArray gradients = f(rows()).value(1).read();
    auto data = gradients.data<float>();
    return std::pair(count(f, line), std::vector<float>(data.begin(), data.end()));
  };
  const auto plain = gradient({}, "= tanh("), recomputed = gradient({"body"}, "= tanh(");
  EXPECT_EQ(plain.first, 1);
  EXPECT_EQ(recomputed.first, 2);
  EXPECT_EQ(gradient({"body"}, "= random_uniform(").first, 2);
  EXPECT_EQ(plain.second, recomputed.second);
}

TEST(Remat, AnInlinedFunctionKeepsItsOption) {
  World world;
  Outer net;
  auto inner = compile(world.mesh(), [&](Tensor x) { return sum(net(x)); }, {.remat = {"body"}, .name = "inner"});
  auto f = compile(world.mesh(), [&](Tensor x) { return with_gradient(inner(x)[0], net); }, {.keep_text = true});
  f(rows()).wait();
  EXPECT_EQ(count(f, "= tanh("), 2);
}

TEST(Remat, WithoutGradientsRematChangesNothing) {
  World world;
  Outer net;
  auto plain = compile(world.mesh(), [&](Tensor x) { return net(x); }, {.train = false});
  auto recomputed = compile(world.mesh(), [&](Tensor x) { return net(x); }, {.remat = {"body"}, .train = false});
  plain(rows()).wait();
  recomputed(rows()).wait();
  EXPECT_EQ(plain.plan().program_hash, recomputed.plan().program_hash);
}

TEST(Remat, AGlobThatMatchesNoModuleIsAnError) {
  World world;
  Outer net;
  auto error_for = [&](const char* glob) {
    return error_of([&] {
      compile(world.mesh(), [&](Tensor x) { return net(x); }, {.remat = {"body", glob}})(rows()).wait();
    });
  };
  EXPECT_THAT(error_for("bdoy"), HasSubstr("remat: 'bdoy' matches no module of this function; there are"));
  EXPECT_THAT(error_for("bdoy"), HasSubstr("body.up"));
  EXPECT_THAT(error_for("head.weight"), HasSubstr("matches no module"));
  EXPECT_THAT(error_of([&] { compile(world.mesh(), [&](Tensor x) { return net(x); }, {.remat = {"bo["}}); }),
              HasSubstr("bo["));
}

}  // namespace
}  // namespace karez
