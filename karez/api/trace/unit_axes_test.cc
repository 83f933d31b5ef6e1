// Tests of layouts on mesh axes of size 1: a program runs unchanged on meshes whose axes have one or two devices,
// arrays report the requested layouts, and contradictions are errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/namespace.h"
#include "karez/api/ranks/test_ranks.h"
#include "karez/api/testing/test_texts.h"
#include "karez/karez.h"

namespace karez {
namespace {
using ::testing::HasSubstr;

HostArray numbers(Shape shape) {
  HostArray out(TensorType{DType::f64, std::move(shape)});
  int i = 0;
  for (double& value : out.data<double>()) value = (i++ * 37 % 101) / 50.0 - 1;
  return out;
}

std::vector<double> list(const HostArray& array) { return {array.data<double>().begin(), array.data<double>().end()}; }

struct Net : nn::Module {
  Net() : Module(DType::f64) {}
  nn::Linear fc1{*this, "fc1", 6, 8}, fc2{*this, "fc2", 8, 2};
  Tensor operator()(Tensor x) { return fc2(tanh(fc1(x))); }
};

std::vector<double> losses(World& world, const DeviceMesh& mesh) {
  Net net;
  optim::Adam adam(net.parameters(), {.lr = 1e-2});
  auto step = compile(mesh,
                      [&](Tensor x, Tensor y) {
                        Tensor error = net(with_layout(x, P("data", nullptr))) - with_layout(y, P("data"));
                        Tensor loss = mean(error * error);
                        adam.step(grad(loss, net.parameters()));
                        return std::pair(loss, with_layout(error, P(nullptr, "model")));
                      },
                      {.rules = {{"fc1.weight", P("model", nullptr)},
                                 {"*.bias", {}, {{"model", -1}}},
                                 {"fc2.weight", {}, {{"model", 1}, {"data", -2}}}}});
  std::vector<double> out;
  for (int i = 0; i < 3; ++i) {
    const Future outputs = step(numbers({4, 6}), numbers({4, 2}));
    out.push_back(outputs.item());
    EXPECT_EQ(outputs.value(1).layout(), (Layout{B(), S(1)}));
    EXPECT_EQ(outputs.value(1).read().type(), (TensorType{DType::f64, {4, 2}}));
  }
  EXPECT_EQ(world.layout("fc1.weight"), (Layout{B(), S(0)}));
  EXPECT_EQ(world.layout("fc2.weight"), (Layout{S(0), S(1)}));
  return out;
}

TEST(UnitAxes, OneProgramRunsOnEveryMeshSize) {
  World({.devices = 1});  // its end restarts the numbering of parameters, which determines their initial values
  std::vector<double> expected;
  for (const char* mesh : {"data=1,model=1", "data=2,model=1", "data=1,model=2", "data=2,model=2"}) {
    World world({.devices = 4});
    const std::vector<double> result = losses(world, world.mesh(mesh));
    if (expected.empty()) expected = result;
    for (std::size_t i = 0; i < result.size(); ++i) EXPECT_NEAR(result[i], expected[i], 1e-12) << mesh;
  }
}

TEST(UnitAxes, ArraysAreCompleteAndReportTheRequestedLayout) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("one=1,d=2");
  const HostArray x = numbers({1, 4});
  const Array split = compile(mesh, [](Tensor t) { return with_layout(t * 1, P("one", "d")); })(x).value();
  EXPECT_EQ(split.layout(), (Layout{S(0), S(1)})) << "the layout must be as requested even for a dimension of size 1";
  const Array replicated = compile(mesh, [](Tensor t) { return with_layout(t * 1, P(nullptr, "one")); })(x).value();
  EXPECT_NE(replicated.bytes(), nullptr) << "each device must hold the complete array";
  EXPECT_EQ(list(replicated.read()), list(x));
  EXPECT_EQ(list(compile(mesh, [](Tensor t, Tensor u) { return t * u; })(replicated, split).value().read()).size(), 4u);
}

TEST(UnitAxes, ContradictionsAreErrors) {
  World world;
  const DeviceMesh mesh = world.mesh("d=1");
  Parameter w("w", {DType::f32, {4, 6}}, constant_init(1));
  EXPECT_THAT(
      error_of([&] { compile(mesh, [&] { return with_layout(w, P("d")) + with_layout(w, P(nullptr, "d")); })(); }),
      HasSubstr("an earlier with_layout or rule stores it as f32"));
  const auto by_rules = [&](std::vector<LayoutRule> rules) {
    return error_of([&] { compile(mesh, [&] { return w * 2; }, {.rules = std::move(rules)})().wait(); });
  };
  EXPECT_THAT(by_rules({{"w", P("d")}, {"?", P(nullptr, "d")}}),
              HasSubstr("an earlier rule or compiled function stored it as f32[4@d, 6]"));
  EXPECT_THAT(by_rules({{"w", P("e")}}), HasSubstr("unknown axis 'e'"));
  EXPECT_THAT(by_rules({{"w", P("d", "d")}}), HasSubstr("names the mesh axis 'd' twice"));
  EXPECT_THAT(by_rules({{"w", {}, {{"d", 2}}}}), HasSubstr("splits dimension 2 on the mesh axis 'd'; the rank is 2"));
  EXPECT_EQ(by_rules({}), "no error");
  EXPECT_EQ(by_rules({{"w", P("d")}}), "no error") << "the rejected programs must not fix a layout";
  world.reset();
  EXPECT_EQ(by_rules({{"w", P("d")}}), "no error");
  EXPECT_THAT(by_rules({{"w", P(nullptr, "d")}}),
              HasSubstr("an earlier rule or compiled function stored it as f32[4@d, 6]"));
}

TEST(UnitAxes, LayoutsOnUnitAxesDoNotChangeThePlan) {
  World world({.devices = 2});
  const auto planned = [&](const LayoutRule& rule, std::vector<std::string> axes) {
    Net net;
    Function f =
        compile(world.mesh("d=2,one=1"), [&](Tensor x) { return sum(net(axes.empty() ? x : with_layout(x, axes))); },
                {.rules = {rule}});
    f.compile({{DType::f64, {4, 6}}});
    return std::pair(f.shard_report(), f.layout_seconds());
  };
  EXPECT_EQ(planned({"fc1.weight", P("one", "d")}, P("d", "one")), planned({"fc1.weight", P(nullptr, "d")}, P("d")));
}

TEST(UnitAxes, SeveralRanksPassPartsOfArgumentsAndReadTheResults) {
  const HostArray global_rows = numbers({5, 2});
  for (const char* text : {"a=1,d=2", "d=2,a=1"}) {
    on_ranks(2, [&](const Ranks& job) {
      World world({.ranks = job});
      const std::int64_t begin_row = job.rank == 0 ? 0 : 3, end_row = job.rank == 0 ? 3 : 5;
      HostArray local_rows(TensorType{DType::f64, {end_row - begin_row, 2}});
      std::copy_n(global_rows.data<double>().begin() + 2 * begin_row, 2 * (end_row - begin_row),
                  local_rows.data<double>().begin());
      const Array rows =
          compile(world.mesh(text), [](Tensor x) { return with_layout(x * 2, P("d")); })(local(local_rows, 5)).value();
      const std::vector<double> rows_read = list(rows.read());
      for (std::size_t i = 0; i < rows_read.size(); ++i) EXPECT_EQ(rows_read[i], 2 * global_rows.data<double>()[i]);
      const Array first =
          compile(world.mesh("d=1"), [](Tensor x) { return with_layout(x * 2, P("d")); })(global_rows).value();
      EXPECT_EQ(list(first.read()), rows_read) << "both ranks must be able to read an array that is on one rank";
    });
  }
}

TEST(World, AWorldThatGrowsKeepsItsVariablesAndFunctions) {
  World world;
  Parameter w("w", {DType::f64, {4}}, constant_init(2));
  auto single_device = compile(world.mesh(), [&](Tensor x) { return w * x; });
  const HostArray x = numbers({4});
  const std::vector<double> expected_product = list(single_device(x).value().read());
  EXPECT_THAT(error_of([&] { world.mesh("d=3"); }), HasSubstr("takes 3 devices, but the world has 1"));
  world.grow_to(3);
  world.grow_to(2);  // no effect: the world already has more devices
  auto three_devices = compile(world.mesh("d=3"), [&](Tensor t) { return with_layout(t * 2, P("d")); });
  EXPECT_EQ(list(three_devices(x).value().read()), expected_product);
  EXPECT_EQ(list(single_device(x).value().read()), expected_product);
  EXPECT_THAT(error_of([&] { world.grow_to(5000); }), HasSubstr("World: 5000 devices exceed the limit of 4096"));
  on_ranks(2, [&](const Ranks& job) {
    World several({.ranks = job});
    EXPECT_EQ(error_of([&] { several.grow_to(2); }),
              "World: a world of 2 ranks cannot grow from 1 to 2 devices per rank");
  });
}

}  // namespace
}  // namespace karez
