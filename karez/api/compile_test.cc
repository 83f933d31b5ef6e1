// Tests of compile: a function is traced, planned and run, has one plan for each signature, and its variables outlive
// calls.
#include "karez/api/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "karez/api/namespace.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/trace/trace.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Net : nn::Module {
  using Module::Module;
  nn::Linear fc1{*this, "fc1", 6, 8}, fc2{*this, "fc2", 8, 4};
  Tensor operator()(Tensor x) { return fc2(tanh(fc1(x))); }
};

// Returns the images of one batch.
HostArray images(DType dtype, std::int64_t rows, int step) {
  HostArray out(TensorType{dtype, {rows, 6}});
  with_type(dtype, [&]<class T>() {
    auto data = out.data<T>();
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<T>(std::sin(0.7 * static_cast<double>(i) + step));
  });
  return out;
}
HostArray labels(std::int64_t rows, int step) {
  HostArray out(TensorType{DType::i32, {rows}});
  for (std::int64_t i = 0; i < rows; ++i)
    out.data<std::int32_t>()[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((i * 3 + step) % 4);
  return out;
}

// Trains a model on a mesh, and returns the loss of each step.
std::vector<double> losses(const std::string& mesh, int devices, const std::vector<LayoutRule>& rules, int steps,
                           double dropout_rate = 0) {
  World world({.devices = devices});
  Net net(DType::f64);
  optim::Adam adam(net.parameters(), {.lr = 1e-2});
  auto step = compile(world.mesh(mesh),
                      [&](Tensor x, Tensor y) {
                        Tensor loss = cross_entropy(net(dropout(x, dropout_rate)), y);
                        adam.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.rules = rules});
  std::vector<double> out;
  for (int i = 0; i < steps; ++i) out.push_back(step(images(DType::f64, 12, i), labels(12, i)).item());
  return out;
}

void expect_same(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-10 * std::abs(a[i])) << "step " << i;
}

TEST(Compile, CompileTurnsAFunctionOfTensorsIntoAFunctionOfArrays) {
  World world;
  auto f = compile(world.mesh(), [](Tensor x, Tensor y) { return std::pair(x + y, sum(x * y)); });
  Future out = f(HostArray::of<float>({3}, {1, 2, 3}), HostArray::of<float>({3}, {4, 5, 6}));
  EXPECT_THAT(list<float>(out.value(0).read()), ElementsAre(5, 7, 9));
  EXPECT_EQ(out.item<float>(1), 32);
  EXPECT_THAT(error_of([&] { out.item(0); }), HasSubstr("item: output 0 must have exactly one element, got f32[3]"));
}

TEST(Compile, EachSignatureIsTracedOnce) {
  World world;
  int traces = 0;
  auto f = compile(world.mesh(), [&](Tensor x) { return ++traces, x * 2.0; });
  for (int i = 0; i < 3; ++i) f(HostArray::of<float>({2}, {1, 2})).wait();
  f(HostArray::of<float>({3}, {1, 2, 3})).wait();
  f(HostArray::of<float>({2}, {1, 2})).wait();
  EXPECT_EQ(traces, 2);
  EXPECT_EQ(f.signatures(), 2);
}

TEST(Compile, ACallThatDiffersOnlyInItsSecondArgumentHasADifferentSignature) {
  World world;
  int traces = 0;
  auto f = compile(world.mesh(), [&](Tensor x, Tensor y) { return ++traces, std::pair(x, y + y); });
  const HostArray x = HostArray::of<float>({2}, {1, 2});
  f(x, HostArray::of<float>({2}, {3, 4})).wait();
  Future other_type = f(x, HostArray::of<double>({2}, {5, 6}));
  EXPECT_THAT(list<double>(other_type.value(1).read()), ElementsAre(10, 12));
  EXPECT_EQ(traces, 2);
  EXPECT_THAT(list<float>(f(x, HostArray::of<float>({3}, {7, 8, 9})).value(1).read()), ElementsAre(14, 16, 18));
  EXPECT_EQ(traces, 3);
  EXPECT_THAT(list<float>(f(x, HostArray::of<float>({2}, {1, 1})).value(1).read()), ElementsAre(2, 2));
  EXPECT_EQ(traces, 3);
}

TEST(Compile, ABodyMayReturnAListATupleOrNothing) {
  World world;
  auto add_one = compile(world.mesh(), [](std::vector<Tensor> xs) {
    for (auto& x : xs) x = x + 1.0;
    return xs;
  });
  EXPECT_EQ(add_one(1.0f, 2.0f, 3.0f).size(), 3u);
  EXPECT_EQ(add_one(1.0f, 2.0f).item(1), 3);
  Parameter count("count", {DType::f32, {}}, constant_init(5));
  auto nothing = compile(world.mesh(), [&](Tensor x) { Trace::current().update(count, (count + x).id); });
  nothing(2.0f).wait();
  nothing(3.0f).wait();
  EXPECT_THAT(list<float>(world.read(count)), ElementsAre(10));
}

TEST(Compile, TrainingReducesTheLossAndTheLearningRateIsAnInput) {
  World world;
  Net net;
  optim::SGD sgd(net.parameters(), {.lr = 0.5, .momentum = 0.5});
  auto step = compile(world.mesh(), [&](Tensor x, Tensor y) {
    Tensor loss = cross_entropy(net(x), y);
    sgd.step(grad(loss, net.parameters()));
    return loss;
  });
  HostArray x = images(DType::f32, 12, 0), y = labels(12, 0);
  for (std::size_t row = 0; row < 12; ++row) {  // learnable labels: the index of the largest of the first four numbers
    auto numbers = x.data<float>().subspan(6 * row, 4);
    y.data<std::int32_t>()[row] =
        static_cast<std::int32_t>(std::max_element(numbers.begin(), numbers.end()) - numbers.begin());
  }
  double first = step(x, y).item(), last = first;
  for (int i = 0; i < 60; ++i) last = step(x, y).item();
  EXPECT_LT(last, 0.5 * first);
  sgd.set_lr(0);
  auto weight_before = list<float>(world.read(net.fc1.weight));
  step(x, y).wait();
  EXPECT_EQ(list<float>(world.read(net.fc1.weight)), weight_before);
  EXPECT_EQ(step.signatures(), 1);
}

TEST(Compile, EveryMeshTrainsLikeOneDevice) {
  auto reference = losses("", 1, {}, 10);
  EXPECT_LT(reference.back(), reference.front());
  expect_same(reference, losses("data=4", 4, {}, 10));
  expect_same(reference, losses("model=4", 4, {}, 10));
  expect_same(reference, losses("data=2,model=2", 4, {}, 10));
}

TEST(Compile, RulesThatSplitColumnsThenRowsTrainLikeOneDevice) {
  std::vector<LayoutRule> rules = {
      {"fc1.weight", P("model", nullptr)}, {"fc1.bias", P("model")}, {"fc2.weight", P(nullptr, "model")}};
  expect_same(losses("", 1, {}, 10), losses("data=2,model=2", 4, rules, 10));
}

TEST(Compile, DropoutDropsTheSameElementsOnEveryMesh) {
  auto reference = losses("", 1, {}, 5, 0.3);
  EXPECT_NE(reference, losses("", 1, {}, 5));
  expect_same(reference, losses("data=4", 4, {}, 5, 0.3));
  expect_same(reference, losses("data=2,model=2", 4, {}, 5, 0.3));
}

TEST(Compile, TwoRunsGiveBitForBitTheSameLosses) {
  EXPECT_EQ(losses("data=2,model=2", 4, {}, 10), losses("data=2,model=2", 4, {}, 10));
}

TEST(Compile, InitialWeightsDoNotDependOnTheMesh) {
  std::vector<std::vector<float>> initial_weights;
  for (const char* mesh : {"", "model=3", "data=2,model=2"}) {
    World world({.devices = 4});
    Net net;
    auto f = compile(
        world.mesh(mesh), [&](Tensor x) { return net(x); },
        {.rules = *mesh ? std::vector<LayoutRule>{{"fc*.weight", P("model", nullptr)}} : std::vector<LayoutRule>{}});
    f(images(DType::f32, 12, 0)).wait();
    initial_weights.push_back(list<float>(world.read("fc1.weight")));
  }
  EXPECT_EQ(initial_weights[0], initial_weights[1]);
  EXPECT_EQ(initial_weights[0], initial_weights[2]);
  double bound = 1 / std::sqrt(6.0), largest = 0;
  for (float w : initial_weights[0]) largest = std::max(largest, std::abs(static_cast<double>(w)));
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.8 * bound);
}

TEST(Compile, AVariableCanBeWrittenAndReadInAnyLayout) {
  World world({.devices = 4});
  Net net;
  auto f = compile(world.mesh("data=2,model=2"), [&](Tensor x) { return net(x); },
                   {.rules = {{"fc1.weight", P(nullptr, "model")}}});
  f(images(DType::f32, 12, 0)).wait();
  EXPECT_EQ(world.layout("fc1.weight"), (Layout{B(), S(1)}));
  HostArray value = images(DType::f32, 8, 3);
  world.write(net.fc1.weight, value);
  EXPECT_EQ(list<float>(world.read(net.fc1.weight)), list<float>(value));
  EXPECT_THAT(error_of([&] { world.write("fc1.weight", labels(3, 0)); }),
              HasSubstr("variable 'fc1.weight' is f32[8, 6], not i32[3]"));
  EXPECT_THAT(error_of([&] { world.read("fc9"); }), HasSubstr("no variable 'fc9' exists yet"));
}

// Each device computes one row from its copy of the weight, so a copy that `write` missed would give a wrong row.
TEST(Compile, WritingAReplicatedVariableReachesEveryDevice) {
  World world({.devices = 4});
  Parameter w("w", {DType::f32, {3}}, constant_init(1));
  auto f = compile(world.mesh("data=4"), [&](Tensor x) { return with_layout(x, P("data", nullptr)) * w; },
                   {.rules = {{"w", P(nullptr)}}});
  const HostArray ones = HostArray::of<float>({4, 3}, std::vector<float>(12, 1));
  EXPECT_THAT(list<float>(f(ones).value().read()), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_EQ(world.layout("w"), (Layout{B()}));
  world.write(w, HostArray::of<float>({3}, {2, 3, 4}));
  EXPECT_THAT(list<float>(f(ones).value().read()), ElementsAre(2, 3, 4, 2, 3, 4, 2, 3, 4, 2, 3, 4));
}

TEST(Compile, LaterFunctionsUseTheStoredLayouts) {
  World world({.devices = 4});
  DeviceMesh mesh = world.mesh("data=2,model=2");
  Net net;
  auto first = compile(mesh, [&](Tensor x) { return net(x); }, {.rules = {{"fc1.weight", P("model", nullptr)}}});
  first(images(DType::f32, 12, 0)).wait();
  auto same_layout = compile(mesh, [&](Tensor x) { return sum(net(x)); });
  same_layout(images(DType::f32, 12, 0)).wait();
  auto different_layout =
      compile(mesh, [&](Tensor x) { return net(x); }, {.rules = {{"fc1.weight", P(nullptr, "model")}}});
  std::string error = error_of([&] { different_layout(images(DType::f32, 12, 0)); });
  EXPECT_THAT(error, HasSubstr("f32[8, 6@model]"));
  EXPECT_THAT(error, HasSubstr("f32[8@model, 6"));
  auto on_other_mesh = compile(world.mesh("data=4"), [&](Tensor x) { return net(x); });
  EXPECT_THAT(
      error_of([&] { on_other_mesh(images(DType::f32, 12, 0)); }),
      HasSubstr("variable 'fc1.weight' is on mesh(data=2, model=2); this function is compiled for mesh(data=4)"));
}

TEST(Compile, ThePlanReadsBatchesFromASource) {
  const auto x = std::make_shared<BatchesSource>(std::vector{images(DType::f64, 4, 0), images(DType::f64, 4, 1)}),
             y = std::make_shared<BatchesSource>(std::vector{labels(4, 0), labels(4, 1)});
  World world({.devices = 2});
  auto f = compile(world.mesh("data=2"), [](Tensor a, Tensor b) { return std::pair(sum(a, {1}), b + 0); });
  for (std::int64_t position : {1, 0}) {
    const int batch = static_cast<int>(position);
    Future out = f(Feed{x, position}, Feed{y, position});
    EXPECT_EQ(list<std::int32_t>(out.value(1).read()), list<std::int32_t>(labels(4, batch)));
    const auto all = list<double>(images(DType::f64, 4, batch)), sums = list<double>(out.value(0).read());
    for (std::size_t row = 0; row < 4; ++row)
      EXPECT_NEAR(sums[row], std::accumulate(all.begin() + 6 * row, all.begin() + 6 * (row + 1), 0.0), 1e-12);
  }
}

// A source may be slow, so its next batch is read while the current launch computes. An array is ready immediately.
TEST(Compile, ASourceArgumentHasASecondSlotAndASeparatePlan) {
  const HostArray images_of_batch = images(DType::f32, 4, 0), labels_of_batch = labels(4, 0);
  const auto x_source = std::make_shared<BatchesSource>(std::vector{images_of_batch}),
             y_source = std::make_shared<BatchesSource>(std::vector{labels_of_batch});
  World world;
  auto f = compile(world.mesh(), [](Tensor x, Tensor y) { return std::pair(x * 255.0, y + 0); });
  auto slots = [&](const std::string& name) {
    for (const auto& reg : f.plan().registers)
      if (reg.producer.valid() && f.plan().actor(reg.producer).binding == name) return reg.slots;
    return -1;
  };
  const HostArray x = f(Feed{x_source, 0}, Feed{y_source, 0}).value(0).read();
  EXPECT_EQ(slots("arg0"), 2);
  EXPECT_EQ(slots("arg1"), 2);
  EXPECT_EQ(list<float>(f(images_of_batch, labels_of_batch).value(0).read()), list<float>(x));
  EXPECT_EQ(slots("arg0"), 1);
  EXPECT_EQ(slots("arg1"), 1);
  f(images_of_batch, Feed{y_source, 0}).wait();
  EXPECT_EQ(slots("arg0"), 1);
  EXPECT_EQ(slots("arg1"), 2);
  EXPECT_EQ(f.signatures(), 3);
  f.compile({images_of_batch.type(), labels_of_batch.type()});
  EXPECT_EQ(slots("arg1"), 1) << "after compile() for arrays, the latest plan must be the one for arrays";
  f(Feed{x_source, 0}, Feed{y_source, 0}).wait();
  EXPECT_EQ(f.signatures(), 3);
}

TEST(Compile, AResetDeletesStateAndFunctionsCompileAgain) {
  World world;
  Parameter count("count", {DType::i64, {}}, constant_init(0));
  auto f = compile(world.mesh(), [&](Tensor x) {
    Trace::current().update(count, (count + 1).id);
    return x;
  });
  f(1.0f).wait();
  f(1.0f).wait();
  EXPECT_THAT(list<std::int64_t>(world.read(count)), ElementsAre(2));
  world.reset();
  f(1.0f).wait();
  EXPECT_THAT(list<std::int64_t>(world.read(count)), ElementsAre(1));
}

TEST(Compile, ErrorsDescribeTheMistake) {
  World world({.devices = 4});
  DeviceMesh mesh = world.mesh("data=2,model=2");
  EXPECT_EQ(error_of([&] { world.mesh("data=2,model=4"); }),
            "mesh(data=2, model=4) takes 8 devices, but the world has 4; World({.devices = 8}) has enough");
  EXPECT_EQ(error_of([] { World({.devices = 0}); }), "World: devices must be at least 1, got 0");
  Net net;
  auto model = [&](Tensor x) { return net(x); };
  HostArray x = images(DType::f32, 12, 0);
  EXPECT_THAT(error_of([&] {
                compile(mesh, model, {.rules = {{"dense*", P("model", nullptr)}}})(x);
              }),
              HasSubstr("rule 'dense*' matches no parameter; there are 4: fc1.bias, fc2.bias, fc1.weight, fc2.weight"));
  EXPECT_THAT(error_of([&] {
                compile(mesh, model, {.rules = {{"fc1.weight", P("pipe", nullptr)}}})(x);
              }),
              HasSubstr("pipe"));
  EXPECT_THAT(error_of([&] { compile(mesh, model, {.microbatches = 0}); }),
              HasSubstr("microbatches is 0; it must be at least 1"));
  EXPECT_THAT(error_of([&] { compile(mesh, model)(x, x); }), HasSubstr("function 'main' expects 1 argument, got 2"));
  EXPECT_THAT(error_of([&] { compile(mesh, model)(images(DType::f32, 6, 0), Feed()); }), StartsWith("function 'main'"));
  EXPECT_THAT(error_of([&] { compile(mesh, model).plan(); }), HasSubstr("has no plan before its first call"));
  EXPECT_THAT(error_of([&] { compile(mesh, [](Tensor) {})(x); }),
              AllOf(StartsWith("function 'main' (compile_test.cc:"),
                    HasSubstr(") returns no tensor and updates nothing: there is nothing to run")));
  Parameter w("w", {DType::f32, {6}}, constant_init(1));
  compile(mesh, [&](Tensor rows) { update(w, sum(rows, {0})); })(x).wait();
  EXPECT_NE(world.read(w).data<float>()[0], 1) << "a function that returns nothing but updates a variable must run";
}

TEST(Bodies, BodiesWithEqualProgramsShareAPlan) {
  World world({.devices = 2});
  int traced = 0;
  const auto times = [&](double factor) {
    return Body([&, factor](std::span<const Tensor> in) {
      ++traced;
      return std::vector<Tensor>{in[0] * factor};
    });
  };
  const auto first = [](const Future& future) { return future.value(0).read().data<float>()[0]; };
  const HostArray operand = HostArray::of<float>({2}, {3, 4});
  Function twice(world.mesh("data=2"), 1, times(2), {}, SourceLine::current());
  const Function same_body = twice.with_body(times(2)), thrice = twice.with_body(times(3));
  EXPECT_EQ(first(twice.call({operand})), 6);
  EXPECT_EQ(first(same_body.call({operand})), 6);
  EXPECT_EQ(twice.signatures(), 1);
  EXPECT_EQ(first(thrice.call({operand})), 9);
  EXPECT_EQ(first(twice.call({operand})), 6);
  EXPECT_EQ(first(same_body.call({operand})), 6);
  EXPECT_EQ(twice.signatures(), 2);
  EXPECT_EQ(traced, 3);
}

TEST(Bodies, BodiesWithTheSameTextButDifferentParametersDoNotShareAPlan) {
  World world;
  const auto reads = [](const Parameter& parameter) {
    return Body([parameter](std::span<const Tensor> in) { return std::vector<Tensor>{in[0] * parameter}; });
  };
  const Parameter a("w", {DType::f32, {}}, constant_init(2)), b("w", {DType::f32, {}}, constant_init(5));
  Function function_of_a(world.mesh(""), 1, reads(a), {}, SourceLine::current());
  const Function function_of_b = function_of_a.with_body(reads(b));
  const HostArray input = HostArray::of<float>({}, {1});
  EXPECT_EQ(function_of_a.call({input}).value(0).read().data<float>()[0], 2);
  EXPECT_EQ(function_of_b.call({input}).value(0).read().data<float>()[0], 5);
  optim::SGD slow({a}, {.lr = 1}), fast({a}, {.lr = 1});
  const auto steps = [&](optim::SGD& sgd) {
    return Body([&](std::span<const Tensor>) {
      sgd.step({a * 1});
      return std::vector<Tensor>();
    });
  };
  Function slow_function(world.mesh(""), 0, steps(slow), {}, SourceLine::current());
  const Function fast_function = slow_function.with_body(steps(fast));
  fast.set_lr(0);
  slow_function.call({}).wait();
  const float weight_before = world.read(a).data<float>()[0];
  fast_function.call({}).wait();
  EXPECT_EQ(world.read(a).data<float>()[0], weight_before)
      << "each function must read the learning rate of its optimiser";
}

}  // namespace
}  // namespace karez
