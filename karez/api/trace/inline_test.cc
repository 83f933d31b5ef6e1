// Tests of a function's body while it is traced: it may read and write variables and call or inline other functions,
// and several threads may trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "karez/api/compile.h"
#include "karez/api/functions.h"
#include "karez/api/namespace.h"
#include "karez/api/optim.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/trace/trace.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Parameter make_parameter(const char* name, double first) { return {name, {DType::f32, {2}}, constant_init(first)}; }

TEST(Arguments, OnlyTheTypeOfAnUnusedArgumentMatters) {
  World world;
  int traces = 0;
  auto f = compile(world.mesh(), [&](Tensor, Tensor y, Tensor z) { return ++traces, y + z * 0.0 * 1.0; });
  EXPECT_THAT(list(f(vector_of(1, 2), vector_of(3, 4), vector_of(5, 6)).value().read()), ElementsAre(3, 4));
  EXPECT_THAT(list(f(vector_of(7, 8), vector_of(9, 10), vector_of(5, 6)).value().read()), ElementsAre(9, 10));
  EXPECT_EQ(traces, 1);
  EXPECT_THAT(list(f(1.0f, vector_of(3, 4), vector_of(5, 6)).value().read()), ElementsAre(3, 4));
  EXPECT_EQ(traces, 2) << "the type of the unused argument belongs to the signature";
}

TEST(Arguments, AllArgumentsMayBeUnused) {
  World world;
  Parameter w = make_parameter("w", 3);
  EXPECT_THAT(list(compile(world.mesh(), [&](Tensor) { return w * 2; })(1.0f).value().read()), ElementsAre(6, 6));
  EXPECT_THAT(list(compile(world.mesh(), [](Tensor) { return full({2}, 4); })(1.0f).value().read()), ElementsAre(4, 4));
  EXPECT_THAT(list(compile(world.mesh(), [] { return full({2}, 5); })().value().read()), ElementsAre(5, 5));
}

TEST(Body, ABodyCanReadWriteAndQueryTheWorldDuringTheTrace) {
  World world;
  Parameter w = make_parameter("w", 3);
  compile(world.mesh(), [&](Tensor x) { return x * w; })(vector_of(1, 1)).wait();
  auto f = compile(world.mesh(), [&](Tensor x) {
    float old_value = world.read(w).data<float>()[0];
    world.write(w, vector_of(10, 20));
    EXPECT_EQ(world.layout("w"), Layout{});
    EXPECT_THAT(world.variables(), ElementsAre("w"));
    return x * w + old_value;
  });
  EXPECT_THAT(list(f(vector_of(1, 1)).value().read()), ElementsAre(13, 23));
}

TEST(Body, ABodyCanCallAnotherFunctionWithConcreteValues) {
  World world;
  auto twice = compile(world.mesh(), [](Tensor x) { return x * 2; });
  auto f = compile(world.mesh(), [&](Tensor x) {
    auto values = list(twice(vector_of(1, 2)).value().read());  // compiled and run during the trace
    return x * values[0] + values[1];
  });
  EXPECT_THAT(list(f(vector_of(1, 2)).value().read()), ElementsAre(6, 8));
}

TEST(Body, ABodyThatCallsItselfIsAnError) {
  World world;
  std::unique_ptr<Function> f, g;
  f = std::make_unique<Function>(
      compile(world.mesh(), [&](Tensor x) { return x + (*f)(vector_of(1, 2)).value().read().data<float>()[0]; },
              {.name = "f"}));
  EXPECT_THAT(error_of([&] { (*f)(vector_of(1, 2)); }), HasSubstr("function 'f' calls itself while it is traced"));
  g = std::make_unique<Function>(compile(world.mesh(), [&](Tensor x) -> Tensor { return (*g)(x + 1); }, {.name = "g"}));
  EXPECT_THAT(error_of([&] { (*g)(vector_of(1, 2)); }), HasSubstr("function 'g' calls itself while it is traced"));
  EXPECT_THAT(error_of([&] { (*g)(vector_of(1, 2)); }), HasSubstr("function 'g' calls itself"))
      << "the first error must release every lock";
}

TEST(Body, AnInitialiserMustNotUseTheWorld) {
  World world;
  Parameter w("w", {DType::f32, {2}}, [&](Builder& b, const TensorType& type, const std::string&, ValueId) {
    world.variables();
    return build::constant(b, type, 1);
  });
  EXPECT_THAT(error_of([&] { compile(world.mesh(), [&](Tensor x) { return x * w; })(vector_of(1, 1)); }),
              HasSubstr("an initialiser or a rule of an op must not call compiled functions"));
  Parameter valid_parameter = make_parameter("good", 2);
  EXPECT_THAT(
      list(compile(world.mesh(), [&](Tensor x) { return x * valid_parameter; })(vector_of(1, 2)).value().read()),
      ElementsAre(2, 4));
}

TEST(Inlined, ACallWithATensorIsPartOfTheProgram) {
  World world;
  auto affine = compile(world.mesh(), [](Tensor x, Tensor y) { return x * 2 + y; });
  auto pair = compile(world.mesh(), [](Tensor x) { return std::pair(x + 1, x - 1); });
  auto f = compile(world.mesh(), [&](Tensor x) {
    Tensor a = affine(x, 1.0);
    Tensors outputs = pair(a);
    EXPECT_EQ(outputs.size(), 2u);
    return outputs[0] * outputs[1] + relu(affine(a, x)) + pair(affine(x, x))[0];
  });
  // a = 2 * x + 1; the result is (a + 1) * (a - 1) + (2 * a + x) + (3 * x + 1)
  EXPECT_THAT(list(f(vector_of(1, 2)).value().read()), ElementsAre(8 + 7 + 4, 24 + 12 + 7));
  EXPECT_EQ(affine.signatures(), 0) << "an inlined function must not be compiled separately";
  EXPECT_EQ(f.signatures(), 1);
}

TEST(Inlined, AnInlinedFunctionTrainsAsPartOfTheEnclosingProgram) {
  World world;
  Parameter w = make_parameter("w", 4);
  optim::SGD sgd({w}, {.lr = 0.5});
  auto step = compile(world.mesh(), [&](Tensor x) {
    Tensor loss = sum(x * w);
    sgd.step(grad(loss, {w}));
    return loss;
  });
  auto twice = compile(world.mesh(), [&](Tensor x) { return step(x) + step(x); });
  EXPECT_EQ(twice(vector_of(1, 2)).item(), 12.0 + 9.5);  // w: (4, 4), then (3.5, 3)
  EXPECT_THAT(list(world.read(w)), ElementsAre(3, 2));
}

TEST(Inlined, DropoutIsActiveIfTheInnerFunctionTrains) {
  World world;
  auto drop = [](Tensor x) { return dropout(x, 0.5); };
  auto training = compile(world.mesh(), drop), evaluating = compile(world.mesh(), drop, {.train = false});
  auto counts = [&](auto& inner, bool outer_trains) {
    auto f = compile(world.mesh(), [&](Tensor x) { return std::pair<Tensor, Tensor>(inner(x), dropout(x, 0.5)); },
                     {.train = outer_trains});
    f(vector_of(1, 2)).wait();
    int n = 0;
    for (const auto& node : f.graph().nodes) n += node.op->name == "random_uniform";
    return n;
  };
  EXPECT_EQ(counts(training, true), 2);
  EXPECT_EQ(counts(training, false), 1);
  EXPECT_EQ(counts(evaluating, true), 1);
  EXPECT_EQ(counts(evaluating, false), 0);
}

TEST(Inlined, SitesOfRandomNodesDependOnlyOnTheProgram) {
  auto sites = [] {
    World world;
    auto inner = compile(world.mesh(), [](Tensor x) { return dropout(x, 0.5) + dropout(x, 0.5); });
    auto f = compile(world.mesh(), [&](Tensor x) { return Tensor(inner(x)) + Tensor(inner(x)) + dropout(x, 0.5); });
    f(vector_of(1, 2)).wait();
    std::vector<std::int64_t> out;
    for (const auto& node : f.graph().nodes)
      if (node.op->name == "random_uniform") out.push_back(node.attrs.integer("site"));
    return out;
  };
  auto first_sites = sites();
  EXPECT_EQ(first_sites, sites());
  EXPECT_EQ(std::set<std::int64_t>(first_sites.begin(), first_sites.end()).size(), 5u);
}

TEST(Inlined, RulesOfTheInnerFunctionApplyToItsParameters) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("model=2");
  Parameter a("fc.a", {DType::f32, {4, 2}}, constant_init(1)), b("fc.b", {DType::f32, {4, 2}}, constant_init(1));
  auto inner = compile(mesh, [&](Tensor x) { return matmul(x, a); },
                       {.rules = {{"fc.*", P("model", nullptr)}}, .name = "inner"});
  HostArray x(TensorType{DType::f32, {3, 4}});
  auto f = compile(mesh, [&](Tensor v) { return inner(v) + matmul(v, b); }, {.rules = {{"fc.b", P(nullptr, "model")}}});
  f(x).wait();
  EXPECT_EQ(world.layout("fc.a"), Layout{S(0)});
  EXPECT_EQ(world.layout("fc.b"), Layout{S(1)});

  Parameter c("fc.c", {DType::f32, {4, 2}}, constant_init(1));
  auto rows = compile(mesh, [&](Tensor v) { return matmul(v, c); }, {.rules = {{"fc.c", P("model", nullptr)}}});
  auto outer = compile(mesh, [&](Tensor v) { return rows(v) + 0; }, {.rules = {{"fc.c", P(nullptr, "model")}}});
  EXPECT_THAT(error_of([&] { outer(x); }), AllOf(HasSubstr("f32[4@model, 2]"), HasSubstr("f32[4, 2@model]")));
  auto late_function =
      compile(mesh, [&](Tensor v) { return matmul(v, a); }, {.rules = {{"fc.a", P(nullptr, "model")}}});
  auto enclosing = compile(mesh, [&](Tensor v) { return late_function(v) + 0; });
  EXPECT_THAT(error_of([&] { enclosing(x); }), AllOf(HasSubstr("a rule of a function in it"),
                                                     HasSubstr("an earlier function stored it as f32[4@model, 2]")));
}

TEST(Inlined, MismatchesAreErrors) {
  World world({.devices = 2}), other_world;
  auto f = compile(world.mesh(), [](Tensor x) { return x + 1; }, {.name = "f"});
  auto pair_function = compile(world.mesh(), [](Tensor x) { return std::pair(x, x); });
  auto traced = [&](auto body) { return error_of([&] { compile(world.mesh(), body)(vector_of(1, 2)); }); };
  EXPECT_THAT(
      traced([&](Tensor x) -> Tensor { return f(x, x); }),
      AllOf(HasSubstr("function 'f' (inline_test.cc:"), HasSubstr("called with tensors, expects 1 argument, got 2")));
  EXPECT_THAT(traced([&](Tensor x) -> Tensor { return pair_function(x); }),
              HasSubstr("a function returns 2 tensors, but one is required"));
  auto split = compile(world.mesh("data=2"), [](Tensor x) { return x + 1; });
  EXPECT_THAT(traced([&](Tensor x) -> Tensor { return split(x); }),
              HasSubstr("is compiled for mesh(data=2), but the program that is being traced is for mesh()"));
  auto foreign = compile(other_world.mesh(), [](Tensor x) { return x + 1; });
  EXPECT_THAT(traced([&](Tensor x) -> Tensor { return foreign(x); }), HasSubstr("belongs to another world"));
  EXPECT_THAT(error_of([&] { f(Tensor()); }), HasSubstr("an uninitialised tensor"));
}

TEST(Threads, ThreadsCompileAndCallDifferentFunctionsConcurrently) {
  World world({.devices = 2});
  Parameter shared = make_parameter("shared", 1);
  std::atomic<int> mismatches = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      auto f = compile(world.mesh("data=2"), [&](Tensor x) { return x * shared + t; });
      for (int size : {2, 2, 3, 2}) {  // broadcasting: [size, 2]
        HostArray x(TensorType{DType::f32, {size, 2}});
        for (float& v : x.data<float>()) v = 5;
        for (float v : list(f(x).value().read())) mismatches += v != static_cast<float>(5 + t);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(mismatches, 0);
  EXPECT_THAT(world.variables(), ElementsAre("shared"));
}

TEST(Threads, OneFunctionCalledBySeveralThreadsIsTracedOnce) {
  World world;
  std::atomic<int> active = 0, max_active = 0, traces = 0;
  auto f = compile(world.mesh(), [&](Tensor x) {
    max_active = std::max(max_active.load(), ++active);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --active, ++traces;
    return x * 2;
  });
  std::vector<std::thread> threads;
  std::atomic<int> correct_results = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      correct_results += list(f(vector_of(1, 2)).value().read()) == std::vector<float>{2, 4};
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(correct_results, 4);
  EXPECT_EQ(traces, 1);
  EXPECT_EQ(max_active, 1);
}

TEST(Threads, FunctionsThatCallEachOtherOnTwoThreadsGiveAnErrorAndDoNotHang) {
  World world;
  std::unique_ptr<Function> f, g;
  std::atomic<int> bodies_begun = 0;
  auto wait_for_both = [&] {  // ensures that both functions are being traced before one calls the other
    ++bodies_begun;
    for (int i = 0; i < 2000 && bodies_begun < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  auto calls = [&](std::unique_ptr<Function>& callee) {
    return [&](Tensor x) -> Tensor {
      return wait_for_both(), x + (*callee)(vector_of(1, 2)).value().read().data<float>()[0];
    };
  };
  f = std::make_unique<Function>(compile(world.mesh(), calls(g), {.name = "f"}));
  g = std::make_unique<Function>(compile(world.mesh(), calls(f), {.name = "g"}));
  std::string error_of_f, error_of_g;
  std::thread thread([&] { error_of_g = error_of([&] { (*g)(vector_of(1, 2)); }); });
  error_of_f = error_of([&] { (*f)(vector_of(1, 2)); });
  thread.join();
  EXPECT_THAT(error_of_f, HasSubstr("calls itself"));
  EXPECT_THAT(error_of_g, HasSubstr("calls itself"));
  EXPECT_THAT(error_of_f + error_of_g,  // the first error ends the trace for which the other thread waits
              ::testing::ContainsRegex("function '[fg]' calls itself by way of '[fg]' while it is traced; compiled "
                                       "functions cannot be recursive"));
}

}  // namespace
}  // namespace karez
