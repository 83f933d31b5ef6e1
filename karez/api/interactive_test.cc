// Tests of tensors outside of compiled functions: values, meshes, gradients, random numbers, threads, and errors.
#include "karez/api/interactive.h"
#include "karez/api/namespace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "karez/api/functions.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/state/world_state.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/trace/expression_plans.h"
#include "karez/api/trace/trace.h"
#include "karez/base/text.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string current_line(SourceLine line = SourceLine::current()) { return print(line); }

// Checks that the error's message contains `parts` and the line on which expect_error is called.
template <class Call>
void expect_error(Call call, const std::vector<std::string>& parts, SourceLine line = SourceLine::current()) {
  const std::string text = error_of(call);
  for (const std::string& part : parts) EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, HasSubstr(cat("at interactive_test.cc:", line.line())));
}

TEST(Interactive, ExpressionsCanMixArraysHostArraysAndNumbers) {
  World world;
  const Array a = array_on(world.mesh(), vector_of(1, 2, 3));
  const Tensor b = vector_of(10, 20, 30);
  const Tensor c = a * 2 + b;
  EXPECT_EQ(c.type, (TensorType{DType::f32, {3}}));
  EXPECT_THAT(list(c), ElementsAre(12, 24, 36));
  EXPECT_THAT(list(2.5 - a), ElementsAre(1.5, 0.5, -0.5));
  EXPECT_EQ(sum(c).item<int>(), 72);
  EXPECT_EQ((a < 2).read().dtype(), DType::b8);
  EXPECT_EQ(sum(Tensor(7) + a).item(), 27);
}

// Functions that must give bit for bit the same result with and without compile.
using TestedFunction = Tensor (*)(const Tensor&, const Tensor&);
const std::pair<const char*, TestedFunction> functions[] = {
    {"arithmetic", [](const Tensor& x, const Tensor& y) { return (x + 1.5) * y / (x * x + 2) - y; }},
    {"activations", [](const Tensor& x, const Tensor& y) { return gelu(x) + tanh(y) * sigmoid(x) - silu(y); }},
    {"softmax", [](const Tensor& x, const Tensor& y) { return log_softmax(x * 3) + softmax(y, 0); }},
    {"matmul", [](const Tensor& x, const Tensor& y) { return matmul(transpose(x), y) + 1; }},
    {"norm", [](const Tensor& x, const Tensor& y) { return norm(x - y, 2, {1}) / stddev(x); }},
    {"concat",
     [](const Tensor& x, const Tensor& y) {
       return reshape(concat({slice(x, {1, 0}, {3, 4}), y}), {-1, 2}) * 0.1;
     }},
    {"sort",
     [](const Tensor& x, const Tensor& y) { return sort(x).values + cumsum(y, 0) + cast(arg_max(x, 0), DType::f32); }},
    {"where", [](const Tensor& x, const Tensor& y) { return where(x < y, clip(x, -0.5, 0.5), 0.25); }},
    {"gather", [](const Tensor& x, const Tensor& y) { return gather(x, arg_max(y)) + 1; }},
    {"einsum",
     [](const Tensor& x, const Tensor& y) {
       return einsum("ij,ij->i", {x, y}) * full({6}, 2.5);
     }},
    {"pow", [](const Tensor& x, const Tensor& y) { return pow(abs(x), 2) + pow(abs(y) + 0.5, 0.3); }},
    {"iota",
     [](const Tensor& x, const Tensor& y) {
       return x * iota({6, 4}, 1) + y;
     }},
};

class SameAsCompiled : public ::testing::TestWithParam<int> {};
TEST_P(SameAsCompiled, ResultsAreEqualBitForBitOnEveryMesh) {
  const auto [name, function] = functions[GetParam()];
  const HostArray x = random_floats({6, 4}, 1), y = random_floats({6, 4}, 2);
  World world({.devices = 4, .team = 1});
  for (const char* text : {"", "data=2", "data=2,model=2"})
    for (bool split : {false, true}) {
      const DeviceMesh mesh = world.mesh(text);
      if (split && mesh.mesh.size() == 1) continue;
      const std::vector<std::string> axes = split ? P("data", nullptr) : P(nullptr, nullptr);
      const Array a = array_on(mesh, x, axes), b = array_on(mesh, y, axes);
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
  const Array a = array_on(mesh, random_floats({8, 4}, 1), P("data", nullptr));
  ASSERT_EQ(sbp::print(a.type(), a.mesh(), a.layout()), "f32[8@data, 4]");
  const Tensor split = with_layout(a * 2, P(nullptr, "data"));
  EXPECT_EQ(sbp::print(split.type, split.array().mesh(), split.array().layout()), "f32[8, 4@data]");
  EXPECT_TRUE(equal_bits((split / 2).read(), a.read()));
  Interactive scope(mesh);
  const HostArray host = random_floats({4, 2}, 3);
  const Array distributed = with_layout(host, P("data", nullptr)).array();
  EXPECT_EQ(distributed.local()[1].shape(), (Shape{2, 2}));
  EXPECT_TRUE(equal_bits(distributed.read(), host));
}

TEST(Interactive, ArraysOfOtherMeshesAreTransferred) {
  World world({.devices = 4});
  const DeviceMesh first = world.mesh("data=2"), second = world.mesh("data=2", {.first = 2});
  const Array a = array_on(first, vector_of(1, 2, 3)), b = array_on(second, vector_of(10, 20, 30));
  const Tensor c = a + b;
  EXPECT_THAT(list(c), ElementsAre(11, 22, 33));
  EXPECT_EQ(c.array().mesh(), first.mesh) << "a result must be on the mesh of the first operand";
  const Tensor twice = b * 2, total = a + twice;
  EXPECT_THAT(list(total), ElementsAre(21, 42, 63));
  EXPECT_EQ(twice.array().mesh(), second.mesh) << "a result must be computed on the mesh of its operands";
}

TEST(Interactive, CompiledFunctionsAcceptAndReturnTensors) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("data=2");
  auto f = compile(mesh, [](Tensor x, Tensor y) { return std::pair(x + y, x * y); }, {.name = "pair"});
  const Array a = array_on(mesh, vector_of(1, 2, 3));
  const Tensors out = f(Tensor(a) * 2, vector_of(1, 1, 1));
  EXPECT_THAT(list(out[0]), ElementsAre(3, 5, 7));
  EXPECT_THAT(list(out[1] + 1), ElementsAre(3, 5, 7));
  Interactive scope(mesh);
  EXPECT_THAT(list(f(full({3}, 2) + 1, 4)[1]), ElementsAre(12, 12, 12));
  const Parameter w("w", {DType::f32, {3}}, constant_init(5));
  EXPECT_THAT(list(f(w, Tensor(a))[0]), ElementsAre(6, 7, 8));
}

TEST(Interactive, GradientsOfFunctionsOfTensorsAreCorrect) {
  World world;
  const Array x = array_on(world.mesh(), vector_of(1, 2, 3));
  const Tensor scale = vector_of(2, 2, 4);
  const auto [value, gradients] =
      value_and_grad([&](Tensor a, Tensor b) { return sum(a * a * b * scale); }, {.arguments = {0, 1}})(x, 3.0);
  EXPECT_EQ(value.item(), 3 * (2 + 8 + 36));
  EXPECT_THAT(list(gradients[0]), ElementsAre(12, 24, 72));
  EXPECT_THAT(list(gradients[1]), ElementsAre(46));
  // The result inside of a compiled function is the same.
  auto traced_gradient = compile(
      world.mesh(), [](Tensor a) { return value_and_grad([](Tensor v) { return sum(exp(v) * v); })(a).gradients[0]; });
  const auto lazy = value_and_grad([](Tensor v) { return sum(exp(v) * v); })(x).gradients[0];
  EXPECT_TRUE(equal_bits(traced_gradient(x).value().read(), lazy.read()));
  EXPECT_NEAR(lazy.read().data<float>()[0], 2 * std::exp(1.0), 1e-5);
}

TEST(Interactive, RandomNumbersDependOnTheWorldsSeedAndCounter) {
  auto draw = [](std::uint64_t seed) {
    World world({.seed = seed});
    Interactive scope(world.mesh());
    const Tensor ones = full({64}, 1);
    const Tensor a = dropout(ones, 0.5), b = dropout(ones, 0.5);
    std::vector<float> out = list(b);  // in the order of the calls, not of the reads
    for (float v : list(a)) out.push_back(v);
    return out;
  };
  const auto numbers = draw(1);
  EXPECT_EQ(numbers, draw(1));
  EXPECT_NE(numbers, draw(2));
  EXPECT_NE(std::vector(numbers.begin(), numbers.begin() + 64), std::vector(numbers.begin() + 64, numbers.end()));
  World world;
  const HostArray traced =
      compile(world.mesh(), [](Tensor x) { return dropout(x, 0.5); })(random_floats({64}, 1)).value().read();
  world.reset();
  const Array x = array_on(world.mesh(), random_floats({64}, 1));
  EXPECT_TRUE(equal_bits(dropout(x, 0.5).read(), traced)) << "must equal the first dropout of a compiled function";
  Interactive train(world.mesh()), eval(world.mesh(), false);
  EXPECT_TRUE(equal_bits(dropout(x, 0.5).read(), x.read()));
}

TEST(Interactive, ErrorsAreThrownByTheCallAndQuoteItsLine) {
  World world, other_world;
  const Array a = array_on(world.mesh(), vector_of(1, 2, 3)), b = array_on(other_world.mesh(), vector_of(1, 2, 3));
  const HostArray two = HostArray::of<float>({2}, {1, 2});
  expect_error([&] { return a + two; }, {"[3]", "[2]"});
  expect_error([&] { return a + b; }, {"arrays of different worlds"});
  const Tensor twice_a = a * 2, twice_b = b * 2, without_mesh = Tensor(two) + 1, ones = full({2}, 1);
  expect_error([&] { return twice_a + twice_b; }, {"arrays of different worlds"});
  expect_error([&] { return without_mesh.read(); },
               {"the mesh of this computation is unknown", "Interactive on(mesh)"});
  expect_error([&] { return dropout(ones, 0.5); },
               {"random numbers outside of a compiled function: the mesh is unknown"});
  expect_error([&] { return with_layout(ones, P("data")); }, {"with_layout outside of a compiled function"});
  expect_error([&] { return Tensor().read(); }, {"an uninitialised tensor"});
  expect_error([&] { return relu(Tensor()); }, {"an uninitialised tensor"});
  EXPECT_THAT(error_of([&] { grad(sum(twice_a), {twice_a}); }), HasSubstr("value_and_grad(f)(x)"));
  EXPECT_THAT(error_of([&] { value_and_grad([](Tensor x) { return x; }, {.arguments = {1}})(a); }),
              HasSubstr("there is no argument 1; the number of arguments is 1"));
  const auto reads = [&](Tensor x) {
    return expect_error([&] { return sum(x).read(); }, {"whose gradient is being taken"}), sum(x);
  };
  value_and_grad(reads)(a);
  Interactive scope(other_world.mesh());
  expect_error([&] { return a + 1; }, {"arrays of different worlds"});
  expect_error([&] { return twice_a.read(), without_mesh + twice_a; }, {"arrays of different worlds"});
}

TEST(Interactive, ALaunchErrorQuotesTheLineOfItsCallAndNotThatOfAnEarlierCallWithTheSameProgram) {
  World world;
  const Array table = array_on(world.mesh(), vector_of(1, 2, 3));
  auto index = [](std::int64_t i) { return HostArray::of<std::int64_t>({1}, {i}); };
  EXPECT_THAT(list(gather(table, index(2))), ElementsAre(3));
  std::string line = current_line();
  const Tensor out_of_range = gather(table, index(7));
  const std::string next = cat("interactive_test.cc:", std::stoi(line.substr(line.find(':') + 1)) + 1);
  EXPECT_THAT(error_of([&] { out_of_range.read(); }), AllOf(HasSubstr("7"), HasSubstr(next)));
}

TEST(Interactive, TracedAndLazyTensorsCannotBeMixed) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array a = array_on(mesh, vector_of(1, 2, 3));
  const Tensor outside = a * 2;
  expect_error([&] { compile(mesh, [&](Tensor x) { return x + outside; })(a); },
               {"a tensor f32[3] from outside is not part of the program that is being traced: make it an argument"});
  EXPECT_THAT(error_of([&] { compile(mesh, [&](Tensor x) { return x + a; })(a); }), HasSubstr("from outside"));
  Tensor traced;
  compile(mesh, [&](Tensor x) { return traced = x + 1; })(a).wait();
  expect_error([&] { return traced + 1; },
               {"a tensor f32[3] of a program that was traced is used outside of the program"});
  expect_error([&] { return traced.read(); }, {"has no bytes: return it from the function"});
  std::string text_in_trace;
  auto reads = compile(mesh, [&](Tensor x) {
    text_in_trace = print(x);
    return x * outside.item();  // a body may read values that are computed outside
  });
  EXPECT_THAT(error_of([&] { reads(a); }), HasSubstr("item: the tensor must have exactly one element, got f32[3]"));
  EXPECT_EQ(text_in_trace, "f32[3] of a program that is being traced");
  const Tensor total = sum(outside);
  EXPECT_THAT(list(compile(mesh, [&](Tensor x) { return x * total.item(); })(a).value().read()),
              ElementsAre(12, 24, 36));
}

TEST(Interactive, UseOfATensorAfterItsWorldEndedIsAnError) {
  Tensor pending, finished;
  {
    World world;
    const Array a = array_on(world.mesh(), vector_of(1, 2, 3));
    pending = a * 2;
    finished = a * 3;
    finished.read();
  }
  EXPECT_THAT(error_of([&] { pending.read(); }), HasSubstr("belongs to a world that no longer exists"));
  EXPECT_THAT(error_of([&] { finished.read(); }), HasSubstr("belongs to a world that no longer exists"));
  EXPECT_THAT(error_of([&] { (void)(pending + 1); }), HasSubstr("belongs to a world that no longer exists"));
}

TEST(Interactive, HostBytesAreCopiedUnlessMoved) {
  World world;
  Interactive scope(world.mesh());
  HostArray host = vector_of(1, 2, 3);
  const Tensor x = host, y = x + 1;
  host.data<float>()[0] = 100;
  EXPECT_THAT(list(y), ElementsAre(2, 3, 4));
  x.read().data<float>()[0] = 100;
  EXPECT_THAT(list(relu(x)), ElementsAre(1, 2, 3));
  EXPECT_THAT(list(x), ElementsAre(1, 2, 3)) << "a call must not overwrite its argument";
  HostArray moved = vector_of(4, 5, 6);
  const std::byte* bytes = moved.bytes();
  const Tensor z = std::move(moved);
  EXPECT_EQ(z.lazy->host.bytes(), bytes);
  EXPECT_THAT(list(z.array().read()), ElementsAre(4, 5, 6));
}

TEST(Interactive, ThreadsCanShareTensors) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("data=2");
  const Array a = array_on(mesh, vector_of(1, 2, 3));
  for (int round = 0; round < 20; ++round) {
    const Tensor shared = exp(a) + round;
    std::atomic<int> mismatches = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        const Tensor product = shared * t - shared;
        const auto result = list(product), values = list(shared);
        for (std::size_t i = 0; i < 3; ++i) mismatches += result[i] != values[i] * static_cast<float>(t) - values[i];
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(mismatches, 0);
  }
}

}  // namespace
}  // namespace karez
