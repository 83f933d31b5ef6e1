// Golden texts of error messages for wrong programs, without line numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <functional>

#include "karez/base/test_golden.h"
#include "karez/karez.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

// Removes the folders of paths, and replaces line numbers with N: "net.cc:N".
std::string without_places(const std::string& text) {
  std::string out, run;
  auto end_run = [&] { out += run.substr(run.rfind('/') + 1), run.clear(); };
  for (char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0 && c != '\'' && c != '(') {
      run += c;
      continue;
    }
    end_run();
    out += c;
  }
  end_run();
  const std::string_view source = ".cc:";
  for (std::size_t at = out.find(source); at != out.npos; at = out.find(source, at)) {
    at += source.size();
    const std::size_t end = std::min(out.find_first_not_of("0123456789", at), out.size());
    if (end > at) out.replace(at, end - at, "N");
  }
  return out;
}

std::string error_text(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) { return without_places(error.what()); }
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
    return error_text([&] { compile(mesh, [&](Tensor v) { return net(v); }, {.rules = rules})(x); });
  }
};

TEST_F(Messages, AShapeErrorNamesBothShapesAndTheLine) {
  EXPECT_TRUE(golden(
      error_text([&] { compile(mesh, [&](Tensor v) { return net(v); })(narrow); }),
      "linear: inner sizes differ: 19 and 20 (x f32[8, 19], weight f32[24, 20])\n  at messages_test.cc:N (in fc1)"));
  EXPECT_TRUE(golden(error_text([&] { compile(mesh, [&](Tensor v) { return v + v * full({7}, 1.0); })(x); }),
                     "mul: shapes do not broadcast: [8, 20] and [7]\n  at messages_test.cc:N"));
}

TEST_F(Messages, TheErrorForAMeshLargerThanTheWorldNamesBothNumbersOfDevices) {
  EXPECT_EQ(error_text([&] { world.mesh("data=4,model=2"); }),
            "mesh(data=4, model=2) takes 8 devices, but the world has 4; World({.devices = 8}) has enough");
}

TEST_F(Messages, AnInvalidCostTableIsRejected) {
  CostTable costs;
  costs.memory_bytes = -1;
  EXPECT_EQ(error_text([&] { World({.costs = costs}); }),
            "costs: memory_bytes is -1.0; it must be a finite number, at least 1e-300");
}

TEST_F(Messages, AnUnknownAxisListsTheAxes) {
  EXPECT_EQ(of_rules({{"fc1.weight", P("pipe")}}), "mesh: unknown axis 'pipe'; expected one of: data, model");
}

TEST_F(Messages, ARuleThatMatchesNothingListsTheParameters) {
  EXPECT_EQ(of_rules({{"conv*", P("model")}}),
            "rule 'conv*' matches no parameter; there are 4: fc1.bias, fc2.bias, fc1.weight, fc2.weight");
}

TEST_F(Messages, ALayoutThatUsesAnAxisTwiceIsRejected) {
  auto twice = [&](Tensor v) { return with_layout(slice(v, {0, 1}, {8, 10}), P("model", "model")); };
  EXPECT_TRUE(
      golden(error_text([&] { compile(mesh, twice)(x); }),
             "a layout for f32[8, 10] names the mesh axis 'model' twice; an axis can split only one dimension\n  at "
             "messages_test.cc:N"));
}

// If an op cannot produce the required layout, it produces a different one, and a transition follows whose result is a
// separate value.
TEST_F(Messages, ALayoutThatAnOpCannotProduceIsReachedByATransition) {
  auto sliced = [&](Tensor v) { return with_layout(slice(v, {0, 1}, {8, 10}), P(nullptr, "model")); };
  EXPECT_EQ(error_text([&] { compile(mesh, sliced)(x).wait(); }), "nothing");
}

}  // namespace
}  // namespace karez::tests
