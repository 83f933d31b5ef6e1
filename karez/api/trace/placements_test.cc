// Tests of FunctionOptions::placements, Placed and the devices of meshes: where values and variables are placed, and
// which placements are errors. Tests of training equivalence are in tests/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/testing/test_texts.h"
#include "karez/device/cpu_budget.h"
#include "karez/karez.h"

namespace karez {
namespace {
using ::testing::HasSubstr;

struct Pair : nn::Module {
  nn::Linear first{*this, "first", 3, 4}, second{*this, "second", 4, 2};
  Tensor operator()(Tensor x) { return second(tanh(first(x))); }
};

HostArray rows() { return HostArray::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}); }

TEST(Placements, ParametersAndTheirOptimiserStateArePlacedWithTheirModule) {
  World world({.devices = 2});
  Pair net;
  optim::Adam adam(net.parameters(), {});
  auto step = compile(world.mesh(),
                      [&](Tensor x) {
                        Tensor loss = sum(net(x));
                        adam.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.placements = {{"first", world.mesh()}, {"second", world.mesh("", {.first = 1})}}});
  step(rows()).wait();
  for (const auto& variable : step.graph().variables) {
    if (variable.name == "adam.step") continue;
    const auto& mesh = step.graph().meshes[static_cast<std::size_t>(variable.mesh)];
    EXPECT_EQ(mesh.devices[0].device, variable.name.find("second") == std::string::npos ? 0 : 1) << variable.name;
  }
  // The counter of steps is one variable, which is updated on one placement and transferred to the other.
  EXPECT_EQ(world.read("adam.step").data<std::int64_t>()[0], 1);
}

TEST(Placements, AScopePlacesTheValuesComputedInItAndARuleOverridesTheScope) {
  World world({.devices = 3});
  auto device_of = [&](const std::vector<PlacementRule>& rules) {
    struct Root : nn::Module {
      nn::Linear fc{*this, "fc", 3, 2};
    } root;
    auto f = compile(world.mesh(),
                     [&](Tensor x) {
                       Placed on(world.mesh("", {.first = 1}));
                       return root.fc(x);
                     },
                     {.placements = rules});
    f(rows()).wait();
    return f.graph().meshes.back().devices[0].device;
  };
  EXPECT_EQ(device_of({}), 1);
  EXPECT_EQ(device_of({{"fc", world.mesh("", {.first = 2})}}), 2);
}

TEST(Placements, AScopeAppliesUntilItsEnd) {
  World world({.devices = 3});
  auto f = compile(world.mesh(), [&](Tensor x) {
    Tensor a = [&] {
      Placed on(world.mesh("", {.first = 1}));
      {
        Placed nested(world.mesh("", {.first = 2}));
        x = x * 2;
      }
      return x + 1;
    }();
    return a;
  });
  f(rows()).wait();
  EXPECT_THAT(f.graph_text(), HasSubstr("mesh() [0:2] mesh() [0:1]"));
}

TEST(Placements, AnotherFunctionFindsVariablesOnTheirPlacement) {
  World world({.devices = 2});
  Pair net;
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  const std::vector<PlacementRule> rules = {{"first", world.mesh()}, {"second", world.mesh("", {.first = 1})}};
  auto step = compile(world.mesh(),
                      [&](Tensor x) {
                        Tensor loss = sum(net(x));
                        sgd.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.placements = rules});
  step(rows()).wait();
  auto same_rules = compile(world.mesh(), [&](Tensor x) { return sum(net(x)); }, {.placements = rules});
  auto with_partial_rules =
      compile(world.mesh(), [&](Tensor x) { return sum(net(x)); }, {.placements = {{"first", world.mesh()}}});
  EXPECT_EQ(same_rules(rows()).item(), with_partial_rules(rows()).item())
      << "without a rule, the function must use the placement of the stored parameters";
  auto invalid = compile(world.mesh(), [&](Tensor x) { return sum(net(x)); },
                         {.placements = {{"second", world.mesh()}, {"first", world.mesh()}}});
  EXPECT_THAT(error_of([&] { invalid(rows()).wait(); }),
              HasSubstr("variable 'second.weight' is on mesh() at 0:1; this function is compiled for mesh() at 0:0. A "
                        "variable stays"));
}

TEST(Placements, PlacementsOfAnInlinedFunctionApplyOnlyInItsBody) {
  World world({.devices = 3});
  Pair a, b;
  auto inner = compile(world.mesh(), [&](Tensor x) { return a(x); },
                       {.placements = {{"first", world.mesh()}, {"second", world.mesh("", {.first = 1})}}});
  auto outer = compile(world.mesh(), [&](Tensor x) {
    Tensor y = inner(x)[0];
    Placed on(world.mesh("", {.first = 2}));
    return y + b(x);
  });
  outer(rows()).wait();
  for (const auto& variable : outer.graph().variables) {
    const auto& mesh = outer.graph().meshes[static_cast<std::size_t>(variable.mesh)];
    const int expected_device = variable.name.find('#') != std::string::npos        ? 2
                                : variable.name.find("second") != std::string::npos ? 1
                                                                                    : 0;
    EXPECT_EQ(mesh.devices[0].device, expected_device) << variable.name;
  }
  auto invalid = compile(world.mesh(), [&](Tensor x) { return a(x); }, {.placements = {{"third", world.mesh()}}});
  EXPECT_THAT(error_of([&] { compile(world.mesh(), [&](Tensor x) { return invalid(x)[0]; })(rows()); }),
              HasSubstr("placements: 'third' matches no"));
}

TEST(Placements, TheSummaryNamesTheCriticalCycle) {
  World world({.devices = 2});
  Pair net;
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  auto step = compile(world.mesh("stage=2"),
                      [&](Tensor x) {
                        Tensor loss = sum(net(x));
                        sgd.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.placements = {{"first", 0}, {"second", 1}}});
  step(rows()).wait();
  EXPECT_THAT(step.summary(), ::testing::ContainsRegex(
                                  "\nLaunches that overlap as far as slots allow: [0-9.]+ us a launch, predicted"));
  EXPECT_THAT(step.summary(), ::testing::ContainsRegex(
                                  "\nCritical cycle if launches run one at a time: [0-9.]+ us a launch, predicted"));
  EXPECT_THAT(step.summary(),
              ::testing::ContainsRegex("  a[0-9]+ transfer %[0-9]+ and its 1 other member +fills r[0-9]+ f32"));
}

TEST(Placements, InvalidPlacementsAreErrors) {
  World world({.devices = 4}), other_world({.devices = 2});
  Pair net;
  auto error_for = [&](const DeviceMesh& mesh, std::vector<PlacementRule> rules) {
    return error_of(
        [&] { compile(mesh, [&](Tensor x) { return net(x); }, {.placements = std::move(rules)})(rows()).wait(); });
  };
  EXPECT_THAT(error_for(world.mesh(), {{"secnod", world.mesh()}}),
              HasSubstr("placements: 'secnod' matches no module and no parameter of this function; there are 4: "));
  EXPECT_THAT(error_for(world.mesh(), {{"first", 0}}),
              HasSubstr("placements: 'first' is placed at stage 0, but mesh() has no axis 'stage'"));
  EXPECT_THAT(error_for(world.mesh("stage=2"), {{"first", 2}}),
              HasSubstr("placements: 'first' is placed at stage 2; mesh(stage=2) has stages 0 to 1"));
  EXPECT_THAT(error_for(world.mesh(), {{"first", other_world.mesh()}}),
              HasSubstr("belongs to a different world from the function"));
  EXPECT_THAT(error_for(world.mesh(), {{"f*", world.mesh()}, {"first", world.mesh("", {.first = 1})}}),
              HasSubstr("placements: 'first' is matched by 'f*' and by 'first', which are on different devices"));
  EXPECT_THAT(error_for(world.mesh(), {{"fi[", world.mesh()}}), HasSubstr("fi["));
  EXPECT_THAT(error_of([&] { world.mesh("data=2", {.first = 3}); }),
              HasSubstr("mesh(data=2) takes devices 3 to 4, but the world has 4; World({.devices = 5}) has enough"));
  EXPECT_THAT(error_of([&] { world.mesh("data=2", {.first = -1}); }),
              HasSubstr("the first device must be at least 0, got -1"));
  EXPECT_THAT(error_of([&] {
                world.mesh("data=2", {.devices = {1, 4}});
              }),
              HasSubstr("device 4 does not exist; the world has devices 0 to 3"));
  EXPECT_THAT(error_of([&] { world.mesh("data=2", {.devices = {1, 1}}); }), HasSubstr("device 1 is listed twice"));
  EXPECT_THAT(error_of([&] {
                world.mesh("data=2", {.devices = {1, 2, 3}});
              }),
              HasSubstr("takes 2 devices, but 3 are listed"));
  EXPECT_THAT(error_of([&] {
                world.mesh("data=2", {.first = 1, .devices = {1, 2}});
              }),
              HasSubstr("give only one of the two"));
  EXPECT_THAT(error_of([&] { Placed on(world.mesh()); }), HasSubstr("no program is being traced"));
}

// Every other stage has little work. If devices were assigned to workers alternately, one worker would get nearly all
// of the work.
TEST(Placements, WorkersShareUnevenStages) {
  World world({.devices = 4, .workers = 2, .costs = CostTable()});
  struct Two : nn::Module {
    nn::Linear a{*this, "a", 256, 256}, b{*this, "b", 256, 256};
  } net;
  auto on = [&](int device, const std::function<Tensor()>& body) {
    Placed scope(world.mesh("", {.first = device}));
    return body();
  };
  auto f = compile(world.mesh(), [&](Tensor x) {
    const Tensor first = on(0, [&] { return net.a(x); }), second = on(1, [&] { return tanh(first); }),
                 third = on(2, [&] { return net.b(second); });
    return on(3, [&] { return sum(third); });
  });
  f.compile({{DType::f32, {256, 256}}});
  std::vector<int> workers;
  for (const plan::Stream& stream : f.plan().streams)
    if (stream.kind == plan::StreamKind::compute) workers.push_back(stream.worker);
  const std::vector<int> two_workers{0, 0, 1, 1}, one_worker(4, 0);
  EXPECT_EQ(workers, device::cpu_budget().cores > 1 ? two_workers : one_worker);
}

}  // namespace
}  // namespace karez
