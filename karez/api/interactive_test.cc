// Tests of tensors outside of compiled functions: values against plain loops and against the same function compiled,
// which programs run and how often, meshes, threads, gradients, and errors.
#include "karez/api/interactive.h"
#include "karez/api/namespace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "karez/api/functions.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/state/world_state.h"
#include "karez/api/test_texts.h"
#include "karez/api/trace/expression_plans.h"
#include "karez/api/trace/trace.h"
#include "karez/base/text.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

HostArray some(Shape shape, std::uint64_t seed, float low = -1, float high = 1) {
  HostArray out(TensorType{DType::f32, std::move(shape)});
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> number(low, high);
  for (float& x : out.data<float>()) x = number(random);
  return out;
}
HostArray three(float a, float b, float c) { return HostArray::of<float>({3}, {a, b, c}); }
std::vector<float> floats(const HostArray& array) { return {array.data<float>().begin(), array.data<float>().end()}; }
std::vector<float> floats(const Tensor& tensor) { return floats(tensor.read()); }

bool equal_bits(const HostArray& a, const HostArray& b) {
  return a.type() == b.type() && std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.type().bytes())) == 0;
}

std::string here(SourceLine line = SourceLine::current()) { return print(line); }

// Checks the error's text, which must name the line of the call of expect_error.
template <class Act>
void expect_error(Act act, const std::vector<std::string>& parts, SourceLine line = SourceLine::current()) {
  const std::string text = error_of(act);
  for (const std::string& part : parts) EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, HasSubstr(cat("at interactive_test.cc:", line.line())));
}
std::int64_t compiled(const DeviceMesh& mesh) { return mesh.world->expression_plans->compiled; }

// An array on the mesh, with the partition spec `axes`.
Array on(const DeviceMesh& mesh, const HostArray& value, std::vector<std::string> axes = {}) {
  return compile(mesh, [axes](Tensor x) { return axes.empty() ? x * 1 : with_layout(x, axes); })(value).value();
}

TEST(Interactive, ComputesWithArraysHostArraysAndNumbers) {
  World world;
  const Array a = on(world.mesh(), three(1, 2, 3));
  const Tensor b = three(10, 20, 30);
  const Tensor c = a * 2 + b;
  EXPECT_EQ(c.type, (TensorType{DType::f32, {3}}));
  EXPECT_THAT(floats(c), ElementsAre(12, 24, 36));
  EXPECT_THAT(floats(2.5 - a), ElementsAre(1.5, 0.5, -0.5));
  EXPECT_EQ(sum(c).item<int>(), 72);
  EXPECT_EQ((a < 2).read().dtype(), DType::b8);
  EXPECT_EQ(sum(Tensor(7) + a).item(), 27);
}

TEST(Interactive, AnotherNumberReusesTheProgramAnotherShapeDoesNot) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array a = on(mesh, three(1, 2, 3));
  for (int i = 0; i < 20; ++i) EXPECT_THAT(floats(a * i + 0.5 * i), ElementsAre(1.5f * i, 2.5f * i, 3.5f * i));
  EXPECT_EQ(compiled(mesh), 1);
  Interactive there(mesh);
  for (int i = 0; i < 5; ++i) EXPECT_THAT(floats(full({2}, i)), ElementsAre(i, i));
  EXPECT_EQ(compiled(mesh), 2);
  EXPECT_THAT(floats(full({1}, 4)), ElementsAre(4));
  EXPECT_EQ(compiled(mesh), 3);
}

TEST(Interactive, AttributesAndOperandsArePartOfTheStructure) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array a = on(mesh, HostArray::of<float>({2, 2}, {1, 2, 3, 4})),
              b = on(mesh, HostArray::of<float>({2, 2}, {5, 6, 7, 8}));
  EXPECT_THAT(floats(sum(a, {0})), ElementsAre(4, 6));
  EXPECT_THAT(floats(sum(a, {1})), ElementsAre(3, 7));
  EXPECT_THAT(floats(a - b), ElementsAre(-4, -4, -4, -4));
  EXPECT_THAT(floats(a - a), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(floats((a + b) - b), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(floats((a + b) - a), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(floats(a - (b + a)), ElementsAre(-5, -6, -7, -8));
  EXPECT_EQ(compiled(mesh), 7);
  // The same operations in one expression, with other operands.
  const Array ones = on(mesh, HostArray::of<float>({2, 2}, {1, 1, 1, 1}));
  EXPECT_EQ(value_and_grad([](Tensor x, Tensor y, Tensor z) { return sum(x * (y - z)); })(ones, a, b).value.item(),
            -16);
  EXPECT_EQ(value_and_grad([](Tensor x, Tensor y, Tensor z) { return sum(x * (z - y)); })(ones, a, b).value.item(), 16);
}

TEST(Interactive, ASharedPartIsComputedOnceAndKept) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array a = on(mesh, three(1, 2, 3));
  const Tensor shared = exp(a);
  const Tensor left = shared + 1, right = shared * 2;
  EXPECT_EQ(shared.lazy->producer() == nullptr, false);
  left.read();
  EXPECT_EQ(shared.lazy->producer(), nullptr) << "an intermediate value";
  EXPECT_NE(right.lazy->producer(), nullptr) << "not needed yet";
  const Array kept = shared.array();
  right.read();
  const auto once = compiled(mesh);
  left.read();
  right.read();
  EXPECT_EQ(compiled(mesh), once) << "existing values are not computed again";
  EXPECT_TRUE(equal_bits(kept.read(), exp(a).read()));
}

TEST(Interactive, ValuesWithoutAHandleAreNotResults) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array a = on(mesh, some({256}, 1));
  const auto before = world.held_bytes();
  const Tensor c = exp(a) * 2 + 1;  // with two intermediate values
  c.array().wait();
  EXPECT_EQ(world.held_bytes() - before, 1024);
  const Tensor d = exp(a), e = d * 2 + 1;
  e.array().wait();
  EXPECT_EQ(world.held_bytes() - before, 3072) << "d is still held";
}

TEST(Interactive, DroppedTensorsLeaveNothing) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array a = on(mesh, three(1, 2, 3));
  std::weak_ptr<LazyValue> gone;
  {
    Tensor b = a;
    for (int i = 0; i < 50; ++i) b = b + i;
    gone = b.lazy;
  }
  EXPECT_TRUE(gone.expired());
  EXPECT_EQ(compiled(mesh), 0);
}

TEST(Interactive, LongChainsRunInPartsWhileTheyAreWritten) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Tensor x = on(mesh, three(0, 1, 2));
  const auto held = world.held_bytes();
  for (int i = 0; i < 10000; ++i) {
    x = x + 1;
    ASSERT_LE(x.lazy->producer() == nullptr ? 0 : x.lazy->producer()->depth, max_expression_depth);
    ASSERT_LE(world.held_bytes(), held + 12 * 16);
  }
  EXPECT_THAT(floats(x), ElementsAre(10000, 10001, 10002));
  EXPECT_LE(compiled(mesh), 3);
}

TEST(Interactive, ChainsThatShareAndForkStayBounded) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Tensor a = on(mesh, three(1, 1, 1)), b = on(mesh, three(0, 1, 2));
  float p[3] = {1, 1, 1}, y[3] = {0, 1, 2};
  for (int i = 0; i < 500; ++i) {  // each new value depends on both
    const Tensor next = (a + b) / 2;
    b = (b - a) * 0.5;
    a = next + next - next;
  }
  for (int i = 0; i < 500; ++i)
    for (int k = 0; k < 3; ++k) {
      const float next = (p[k] + y[k]) / 2;
      y[k] = (y[k] - p[k]) * 0.5f;
      p[k] = next + next - next;
    }
  EXPECT_THAT(floats(a), ElementsAre(p[0], p[1], p[2]));
  EXPECT_LE(compiled(mesh), 12);
}

// Functions that must give the same result, bit for bit, with and without compile.
using TestedFunction = Tensor (*)(const Tensor&, const Tensor&);
const std::pair<const char*, TestedFunction> functions[] = {
    {"arithmetic", [](const Tensor& x, const Tensor& y) { return (x + 1.5) * y / (x * x + 2) - y; }},
    {"smooth", [](const Tensor& x, const Tensor& y) { return gelu(x) + tanh(y) * sigmoid(x) - silu(y); }},
    {"softmax", [](const Tensor& x, const Tensor& y) { return log_softmax(x * 3) + softmax(y, 0); }},
    {"product", [](const Tensor& x, const Tensor& y) { return matmul(transpose(x), y) + 1; }},
    {"norm", [](const Tensor& x, const Tensor& y) { return norm(x - y, 2, {1}) / stddev(x); }},
    {"shapes",
     [](const Tensor& x, const Tensor& y) {
       return reshape(concat({slice(x, {1, 0}, {3, 4}), y}), {-1, 2}) * 0.1;
     }},
    {"order",
     [](const Tensor& x, const Tensor& y) { return sort(x).values + cumsum(y, 0) + cast(arg_max(x, 0), DType::f32); }},
    {"chosen", [](const Tensor& x, const Tensor& y) { return where(x < y, clip(x, -0.5, 0.5), 0.25); }},
    {"picked", [](const Tensor& x, const Tensor& y) { return gather(x, arg_max(y)) + 1; }},
    {"einsum",
     [](const Tensor& x, const Tensor& y) {
       return einsum("ij,ij->i", {x, y}) * full({6}, 2.5);
     }},
    {"pow", [](const Tensor& x, const Tensor& y) { return pow(abs(x), 2) + pow(abs(y) + 0.5, 0.3); }},
    {"places",
     [](const Tensor& x, const Tensor& y) {
       return x * iota({6, 4}, 1) + y;
     }},
};

class SameAsCompiled : public ::testing::TestWithParam<int> {};
TEST_P(SameAsCompiled, BitForBitOnMeshes) {
  const auto [name, function] = functions[GetParam()];
  const HostArray x = some({6, 4}, 1), y = some({6, 4}, 2);
  World world({.devices = 4, .team = 1});
  for (const char* text : {"", "data=2", "data=2,model=2"})
    for (bool split : {false, true}) {
      const DeviceMesh mesh = world.mesh(text);
      if (split && mesh.mesh.size() == 1) continue;
      const std::vector<std::string> axes = split ? P("data", nullptr) : P(nullptr, nullptr);
      const Array a = on(mesh, x, axes), b = on(mesh, y, axes);
      const Tensor lazy = function(a, b);
      const HostArray traced =
          compile(mesh, [function = function](Tensor u, Tensor v) { return function(u, v); })(a, b).value().read();
      EXPECT_TRUE(equal_bits(lazy.read(), traced))
          << name << " on " << sbp::print(mesh.mesh) << (split ? " split" : "");
      EXPECT_EQ(lazy.array().mesh(), mesh.mesh);
    }
}
INSTANTIATE_TEST_SUITE_P(Functions, SameAsCompiled, ::testing::Range(0, static_cast<int>(std::size(functions))));

TEST(Interactive, LayoutsAreChosenByThePlannerOrTheUser) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("data=2");
  const Array a = on(mesh, some({8, 4}, 1), P("data", nullptr));
  ASSERT_EQ(sbp::print(a.type(), a.mesh(), a.layout()), "f32[8@data, 4]");
  const Tensor split = with_layout(a * 2, P(nullptr, "data"));
  EXPECT_EQ(sbp::print(split.type, split.array().mesh(), split.array().layout()), "f32[8, 4@data]");
  EXPECT_TRUE(equal_bits((split / 2).read(), a.read()));
  Interactive there(mesh);
  const HostArray host = some({4, 2}, 3);
  const Array spread = with_layout(host, P("data", nullptr)).array();
  EXPECT_EQ(spread.local()[1].shape(), (Shape{2, 2}));
  EXPECT_TRUE(equal_bits(spread.read(), host));
}

TEST(Interactive, ArraysOfOtherMeshesAreTransferred) {
  World world({.devices = 4});
  const DeviceMesh first = world.mesh("data=2"), second = world.mesh("data=2", {.first = 2});
  const Array a = on(first, three(1, 2, 3)), b = on(second, three(10, 20, 30));
  const Tensor c = a + b;
  EXPECT_THAT(floats(c), ElementsAre(11, 22, 33));
  EXPECT_EQ(c.array().mesh(), first.mesh) << "the mesh of the first operand";
  const Tensor there = b * 2, both = a + there;
  EXPECT_THAT(floats(both), ElementsAre(21, 42, 63));
  EXPECT_EQ(there.array().mesh(), second.mesh) << "a result is computed on the mesh of its operands";
}

TEST(Interactive, CompiledFunctionsTakeAndReturnTensors) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("data=2");
  auto f = compile(mesh, [](Tensor x, Tensor y) { return std::pair(x + y, x * y); }, {.name = "pair"});
  const Array a = on(mesh, three(1, 2, 3));
  const Tensors out = f(Tensor(a) * 2, three(1, 1, 1));
  EXPECT_THAT(floats(out[0]), ElementsAre(3, 5, 7));
  EXPECT_THAT(floats(out[1] + 1), ElementsAre(3, 5, 7));
  Interactive there(mesh);
  EXPECT_THAT(floats(f(full({3}, 2) + 1, 4)[1]), ElementsAre(12, 12, 12));
  const Parameter w("w", {DType::f32, {3}}, constant_init(5));
  EXPECT_THAT(floats(f(w, Tensor(a))[0]), ElementsAre(6, 7, 8));
}

TEST(Interactive, ParametersAreReadAtTheTimeOfTheCall) {
  World world;
  const DeviceMesh mesh = world.mesh();
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 3, 2};
  } net;
  auto step = compile(mesh, [&](Tensor x) {
    Tensor loss = sum(net.fc(x));
    optim::SGD(net.parameters(), {.lr = 0.5}).step(grad(loss, net.parameters()));
    return loss;
  });
  const Array x = on(mesh, HostArray::of<float>({1, 3}, {1, 2, 3}));
  const Tensor before = net.fc(x);
  const auto traced = compile(mesh, [&](Tensor v) { return net.fc(v); })(x).value().read();
  step(x).wait();
  const Tensor after = net.fc(x);
  EXPECT_TRUE(equal_bits(before.read(), traced)) << "called before the update, read after it";
  // The gradient of the sum is x for each row of the weight, and 1 for the bias: the result decreases by 0.5 (1 + 4 + 9
  // + 1).
  for (int i = 0; i < 2; ++i) EXPECT_NEAR(after.read().data<float>()[i], before.read().data<float>()[i] - 7.5, 1e-5);
}

TEST(Interactive, ReadersOfParametersRunOnTheMeshThatStoresThem) {
  World world({.devices = 4});
  const DeviceMesh alone = world.mesh(), two = world.mesh("data=2"), others = world.mesh("data=2", {.first = 2});
  struct Net : nn::Module {
    nn::Linear first{*this, "first", 3, 4}, second{*this, "second", 4, 2}, fresh{*this, "fresh", 3, 2};
  } net;
  nn::Linear &first = net.first, &second = net.second;
  const auto train = [](const DeviceMesh& mesh, nn::Linear& layer, const HostArray& x) {
    compile(mesh,
            [&](Tensor v) {
              Tensor loss = sum(layer(v));
              optim::SGD(layer.parameters(), {.lr = 0.1}).step(grad(loss, layer.parameters()));
              return loss;
            })(x)
        .wait();
  };
  const HostArray x = some({6, 3}, 1), hidden = some({6, 4}, 2);
  train(two, first, x), train(others, second, hidden);
  const HostArray want = compile(others, [&](Tensor v) { return second(v); })(
                             compile(two, [&](Tensor v) { return relu(first(v)); })(x).value())
                             .value()
                             .read();

  Interactive there(alone);
  const Tensor inner = relu(first(x)), y = second(inner);
  EXPECT_EQ(inner.array().mesh(), two.mesh);
  EXPECT_EQ(y.array().mesh(), others.mesh);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_NEAR(floats(y)[i], floats(want)[i], 1e-6);
  EXPECT_EQ(first(on(alone, x)).array().mesh(), two.mesh) << "an operand on another mesh is transferred";
  EXPECT_EQ(net.fresh(x).array().mesh(), alone.mesh)
      << "a parameter that is not stored yet is created on the mesh of the computation";

  optim::Adam adam(first.parameters(), {.lr = 0.1});  // with new state
  const auto before = floats(world.read(first.weight));
  adam.step(
      value_and_grad([&](Tensor v) { return sum(first(v)); }, {.parameters = first.parameters()})(Tensor(x)).gradients);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR(std::abs(floats(world.read(first.weight))[i] - before[i]), 0.1, 1e-3);
  const SourceLine line_before = SourceLine::current();
  const auto both = value_and_grad([&](Tensor v) { return sum(second(first(v))); }, {.parameters = first.parameters()});
  EXPECT_THAT(error_of([&] { both(Tensor(x)).value.read(); }),
              AllOf(HasSubstr("variable 'second.weight' is on mesh(data=2) at 0:2, 0:3; this function is compiled for "
                              "mesh(data=2) at 0:0, 0:1"),
                    HasSubstr("save, reset the world and load"),
                    HasSubstr(cat("at interactive_test.cc:", line_before.line() + 1))));
}

TEST(Interactive, ProvisionalVariablesAreRelocatedByTheFirstFunction) {
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 3, 4}, out{*this, "out", 4, 2};
    Tensor operator()(Tensor x) { return out(dropout(relu(fc(x)), 0.5)); }
  };
  const HostArray x = some({4, 3}, 1), other = some({4}, 2);
  std::vector<std::vector<double>> losses;
  HostArray first;
  for (const bool looks : {false, true}) {
    World world({.devices = 4});
    Net net;
    Interactive there(world.mesh(), false);
    if (looks) {
      const Tensor y = net(x);  // a first look at the model
      EXPECT_EQ(y.array().mesh(), world.mesh().mesh);
      first = y.read();
    }
    optim::Adam adam(net.parameters(), {.lr = 0.1});
    if (looks) net(x).read();
    world.write(net.fc.bias, other);
    if (looks)
      adam.step(value_and_grad([&](Tensor v) { return sum(net(v)) * 0.0; }, {.parameters = net.parameters()})(Tensor(x))
                    .gradients);
    else
      compile(world.mesh("data=2,model=2"),
              [&](Tensor v) {
                adam.step(grad(sum(net(v)) * 0.0, net.parameters()));
                return sum(v);
              },
              {.train = false})(x)
          .wait();
    auto step = compile(world.mesh("data=2,model=2"),
                        [&](Tensor v) {
                          Tensor loss = sum(net(v) * net(v));
                          adam.step(grad(loss, net.parameters()));
                          return loss;
                        },
                        {.train = false});
    losses.emplace_back();
    for (int i = 0; i < 4; ++i) losses.back().push_back(step(x).item());
    EXPECT_NEAR(
        sum(net(x) * net(x)).item(),
        compile(world.mesh("data=2,model=2"), [&](Tensor v) { return sum(net(v) * net(v)); }, {.train = false})(x)
            .item(),
        1e-5);
    EXPECT_EQ(net(x).array().mesh(), world.mesh("data=2,model=2").mesh);
    if (!looks) continue;
    auto late = compile(world.mesh("data=4"), [&](Tensor v) { return net(v); });
    EXPECT_THAT(error_of([&] { late(x); }), HasSubstr("is on mesh(data=2, model=2)")) << "a function has used it";
    world.reset();
    EXPECT_TRUE(equal_bits(net(x).read(), first)) << "starts again with its first value";
  }
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(losses[0][i], losses[1][i], 1e-5 * std::abs(losses[0][i]));
}

TEST(Interactive, TrainsWithoutACompiledFunction) {
  World world;
  Interactive there(world.mesh());
  const Parameter w("w", {DType::f32, {3}}, constant_init(1));
  optim::SGD sgd({w}, {.lr = 0.25});
  auto loss = [&](Tensor x) { return sum(w * w * x); };
  const Tensor x = three(1, 2, 0);
  for (int i = 0; i < 2; ++i) {
    const auto [value, gradients] = value_and_grad(loss, {.parameters = {w}})(x);
    EXPECT_FLOAT_EQ(value.item<float>(), i == 0 ? 3 : 0.25f);
    sgd.step(gradients);
  }
  // w <- w - 0.25 * 2 w x: times 1/2, 0 and 1, twice.
  EXPECT_THAT(floats(world.read(w)), ElementsAre(0.25, 0, 1));
  const auto programs = compiled(world.mesh());
  sgd.set_lr(0);
  sgd.step(value_and_grad(loss, {.parameters = {w}})(x).gradients);
  EXPECT_THAT(floats(world.read(w)), ElementsAre(0.25, 0, 1)) << "the rate is read at each call";
  EXPECT_EQ(compiled(world.mesh()), programs) << "the rate is not part of the program";
  const Parameter u("u", {DType::f32, {2}}, constant_init(1)), v("v", {DType::f32, {2}}, constant_init(1));
  optim::SGD both({u, v}, {.lr = 0.25});
  const auto product = [&](Tensor y) { return sum(u * v * 2 * y); };
  for (int i = 0; i < 2; ++i) both.step(value_and_grad(product, {.parameters = {u, v}})(Tensor(1)).gradients);
  EXPECT_THAT(floats(world.read(u)), ElementsAre(0.25, 0.25)) << "halved twice";
  EXPECT_THAT(floats(world.read(v)), ElementsAre(0.25, 0.25));
}

TEST(Interactive, GradientsOfFunctionsOfTensors) {
  World world;
  const Array x = on(world.mesh(), three(1, 2, 3));
  const Tensor scale = three(2, 2, 4);
  const auto [value, gradients] =
      value_and_grad([&](Tensor a, Tensor b) { return sum(a * a * b * scale); }, {.arguments = {0, 1}})(x, 3.0);
  EXPECT_EQ(value.item(), 3 * (2 + 8 + 36));
  EXPECT_THAT(floats(gradients[0]), ElementsAre(12, 24, 72));
  EXPECT_THAT(floats(gradients[1]), ElementsAre(46));
  // The result inside of a compiled function is the same.
  auto both = compile(
      world.mesh(), [](Tensor a) { return value_and_grad([](Tensor v) { return sum(exp(v) * v); })(a).gradients[0]; });
  const auto lazy = value_and_grad([](Tensor v) { return sum(exp(v) * v); })(x).gradients[0];
  EXPECT_TRUE(equal_bits(both(x).value().read(), lazy.read()));
  EXPECT_NEAR(lazy.read().data<float>()[0], 2 * std::exp(1.0), 1e-5);
}

TEST(Interactive, RandomNumbersDependOnTheWorldsSeedAndCount) {
  auto drawn = [](std::uint64_t seed) {
    World world({.seed = seed});
    Interactive there(world.mesh());
    const Tensor ones = full({64}, 1);
    const Tensor a = dropout(ones, 0.5), b = dropout(ones, 0.5);
    std::vector<float> out = floats(b);  // in the order of the calls, not of the reads
    for (float v : floats(a)) out.push_back(v);
    return out;
  };
  const auto once = drawn(1);
  EXPECT_EQ(once, drawn(1));
  EXPECT_NE(once, drawn(2));
  EXPECT_NE(std::vector(once.begin(), once.begin() + 64), std::vector(once.begin() + 64, once.end()));
  World world;
  const HostArray traced =
      compile(world.mesh(), [](Tensor x) { return dropout(x, 0.5); })(some({64}, 1)).value().read();
  world.reset();
  const Array x = on(world.mesh(), some({64}, 1));
  EXPECT_TRUE(equal_bits(dropout(x, 0.5).read(), traced)) << "equal to the first of a compiled function";
  Interactive train(world.mesh()), eval(world.mesh(), false);
  EXPECT_TRUE(equal_bits(dropout(x, 0.5).read(), x.read()));
}

TEST(Interactive, ErrorsOccurAtTheCallAndNameItsLine) {
  World world, other;
  const Array a = on(world.mesh(), three(1, 2, 3)), b = on(other.mesh(), three(1, 2, 3));
  const HostArray two = HostArray::of<float>({2}, {1, 2});
  expect_error([&] { return a + two; }, {"[3]", "[2]"});
  expect_error([&] { return a + b; }, {"arrays of different worlds"});
  const Tensor of_a = a * 2, of_b = b * 2, nowhere = Tensor(two) + 1, ones = full({2}, 1);
  expect_error([&] { return of_a + of_b; }, {"arrays of different worlds"});
  expect_error([&] { return nowhere.read(); }, {"the mesh of this computation is unknown", "Interactive on(mesh)"});
  expect_error([&] { return dropout(ones, 0.5); },
               {"random numbers outside of a compiled function: the mesh is unknown"});
  expect_error([&] { return with_layout(ones, P("data")); }, {"with_layout outside of a compiled function"});
  expect_error([&] { return Tensor().read(); }, {"an uninitialised tensor"});
  expect_error([&] { return relu(Tensor()); }, {"an uninitialised tensor"});
  EXPECT_THAT(error_of([&] { grad(sum(of_a), {of_a}); }), HasSubstr("value_and_grad(f)(x)"));
  EXPECT_THAT(error_of([&] { value_and_grad([](Tensor x) { return x; }, {.arguments = {1}})(a); }),
              HasSubstr("there is no argument 1; the number of arguments is 1"));
  const auto reads = [&](Tensor x) {
    return expect_error([&] { return sum(x).read(); }, {"whose gradient is being taken"}), sum(x);
  };
  value_and_grad(reads)(a);
  Interactive there(other.mesh());
  expect_error([&] { return a + 1; }, {"arrays of different worlds"});
  expect_error([&] { return of_a.read(), nowhere + of_a; }, {"arrays of different worlds"});
}

TEST(Interactive, ALaunchErrorNamesTheLineOfItsCallNotOfAnEqualOne) {
  World world;
  const Array table = on(world.mesh(), three(1, 2, 3));
  auto index = [](std::int64_t i) { return HostArray::of<std::int64_t>({1}, {i}); };
  EXPECT_THAT(floats(gather(table, index(2))), ElementsAre(3));
  std::string line = here();
  const Tensor wrong = gather(table, index(7));
  const std::string next = cat("interactive_test.cc:", std::stoi(line.substr(line.find(':') + 1)) + 1);
  EXPECT_THAT(error_of([&] { wrong.read(); }), AllOf(HasSubstr("7"), HasSubstr(next)));
}

TEST(Interactive, TracedAndLazyTensorsDoNotMix) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array a = on(mesh, three(1, 2, 3));
  const Tensor outside = a * 2;
  expect_error([&] { compile(mesh, [&](Tensor x) { return x + outside; })(a); },
               {"a tensor f32[3] from outside is not part of the program that is being traced: make it an argument"});
  EXPECT_THAT(error_of([&] { compile(mesh, [&](Tensor x) { return x + a; })(a); }), HasSubstr("from outside"));
  Tensor traced;
  compile(mesh, [&](Tensor x) { return traced = x + 1; })(a).wait();
  expect_error([&] { return traced + 1; }, {"a tensor f32[3] of a program that was traced is used outside of it"});
  expect_error([&] { return traced.read(); }, {"has no bytes: return it from the function"});
  std::string shown;
  auto reads = compile(mesh, [&](Tensor x) {
    shown = print(x);
    return x * outside.item();  // a body may read values that are computed outside
  });
  EXPECT_THAT(error_of([&] { reads(a); }), HasSubstr("item reads a single element"));
  EXPECT_EQ(shown, "f32[3] of a program that is being traced");
  const Tensor total = sum(outside);
  EXPECT_THAT(floats(compile(mesh, [&](Tensor x) { return x * total.item(); })(a).value().read()),
              ElementsAre(12, 24, 36));
}

TEST(Interactive, UseAfterItsWorldEndedIsAnError) {
  Tensor pending, done;
  {
    World world;
    const Array a = on(world.mesh(), three(1, 2, 3));
    pending = a * 2;
    done = a * 3;
    done.read();
  }
  EXPECT_THAT(error_of([&] { pending.read(); }), HasSubstr("of a world that no longer exists"));
  EXPECT_THAT(error_of([&] { done.read(); }), HasSubstr("of a world that no longer exists"));
  EXPECT_THAT(error_of([&] { (void)(pending + 1); }), HasSubstr("of a world that no longer exists"));
}

TEST(Interactive, HostBytesAreCopiedUnlessMoved) {
  World world;
  Interactive there(world.mesh());
  HostArray mine = three(1, 2, 3);
  const Tensor x = mine, y = x + 1;
  mine.data<float>()[0] = 100;
  EXPECT_THAT(floats(y), ElementsAre(2, 3, 4));
  x.read().data<float>()[0] = 100;
  EXPECT_THAT(floats(relu(x)), ElementsAre(1, 2, 3));
  EXPECT_THAT(floats(x), ElementsAre(1, 2, 3)) << "no call overwrites its argument";
  HostArray given = three(4, 5, 6);
  const std::byte* bytes = given.bytes();
  const Tensor z = std::move(given);
  EXPECT_EQ(z.lazy->host.bytes(), bytes);
  EXPECT_THAT(floats(z.array().read()), ElementsAre(4, 5, 6));
}

TEST(Interactive, ThreadsShareTensors) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("data=2");
  const Array a = on(mesh, three(1, 2, 3));
  for (int round = 0; round < 20; ++round) {
    const Tensor shared = exp(a) + round;
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        const Tensor mine = shared * t - shared;
        const auto got = floats(mine), all = floats(shared);
        for (std::size_t i = 0; i < 3; ++i) wrong += got[i] != all[i] * static_cast<float>(t) - all[i];
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Interactive, AResetDeletesProgramsNotTensors) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array a = on(mesh, three(1, 2, 3));
  const Tensor b = a + 1, c = a + 2;
  b.read();
  world.reset();
  EXPECT_THAT(floats(b), ElementsAre(2, 3, 4));
  EXPECT_THAT(floats(c), ElementsAre(3, 4, 5));
}

}  // namespace
}  // namespace karez
