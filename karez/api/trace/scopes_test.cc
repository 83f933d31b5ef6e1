// Tests of scopes of module paths and placements, of paths of parameters, and of the source lines of tensors.
#include "karez/api/scopes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/compile.h"
#include "karez/api/interactive.h"
#include "karez/api/namespace.h"
#include "karez/api/random.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/testing/test_values.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/all_ops.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Scopes, PathsAreRestoredAtTheEndOfEachScope) {
  const OpTable ops = all_ops();
  Trace trace(ops, {});
  const Trace::Scope scope(trace);
  const Tensor x = trace.input("x", {DType::f32, {2}});
  relu(x);
  {
    const Within outer("outer");
    relu(x);
    {
      const Within inner("inner.part");
      relu(x);
    }
    relu(x);
  }
  relu(x);
  std::vector<std::string> paths;
  for (const Node& node : trace.graph.nodes)
    if (node.op->name == "relu") paths.push_back(node.path);
  EXPECT_THAT(paths, ElementsAre("", "outer", "inner.part", "outer", ""));
}

TEST(Scopes, APathDeterminesTheMeshUntilTheEndOfItsScope) {
  World world({.devices = 4});
  const auto f = compile(world.mesh(),
                         [&](Tensor own, Tensor x) {
                           const Tensor before = own * 2;
                           Tensor in_path, nested, on_scope;
                           {
                             const Within path("block");
                             in_path = x * 3;
                             const Placed scope(world.mesh("", {.first = 2}));
                             nested = x * 4;  // the rule for the path overrides the scope
                           }
                           {
                             const Placed scope(world.mesh("", {.first = 2}));
                             on_scope = x * 5;
                             const Within path("other");
                             on_scope = on_scope + x;
                           }
                           return std::vector{before, in_path, nested, on_scope, own * 6};
                         },
                         {.placements = {{"block", world.mesh("", {.first = 1})}}});
  const Future result = f(vector_of(1, 2), vector_of(1, 2));
  const int devices[] = {0, 1, 1, 2, 0};
  const float factors[] = {2, 3, 4, 6, 6};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(result.value(i).mesh().devices[0].device, devices[i]) << i;
    EXPECT_THAT(list(result.value(i).read()), ElementsAre(factors[i], 2 * factors[i])) << i;
  }
}

TEST(Scopes, RulesMatchThePathsOfParameters) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("d=2");
  const Parameter a("a", {DType::f32, {4}}, constant_init(1)), b("b", {DType::f32, {4}}, constant_init(2));
  const auto body = [&] {
    set_trace_paths({{a, "net.weight"}});
    set_trace_paths({{a, "ignored"}, {b, "net.bias"}});
    return a + b;
  };
  EXPECT_THAT(list(compile(mesh, body, {.rules = {{"net.weight", {"d"}}, {"net.bias", {""}}}})().value().read()),
              ElementsAre(3, 3, 3, 3));
  EXPECT_EQ(world.layout(a), Layout{S(0)});
  EXPECT_EQ(world.layout(b), Layout{B()});
  EXPECT_THAT(error_of([&] {
                compile(mesh, body, {.rules = {{"a", {"d"}}}})();
              }),
              HasSubstr("rule 'a' matches no parameter; there are 2: "));
  EXPECT_EQ(error_of([] { set_trace_paths({{Parameter(), ""}}); }), "no program is being traced on this thread");
}

TEST(Scopes, TensorsOfATraceHaveASourceLine) {
  World world;
  std::string line, line_of_sum, line_of_host;
  const Tensor outside = vector_of(1, 2);
  compile(world.mesh(),
          [&](Tensor x) {
            const Tensor sum = (line = print(SourceLine::current()), x + 1);
            line_of_sum = line_of(sum), line_of_host = line_of(outside);
            return sum;
          })(vector_of(1, 2))
      .wait();
  EXPECT_EQ(line_of_sum, line);
  EXPECT_EQ(line_of_host, "");
  EXPECT_EQ(line_of(outside), "");
  EXPECT_THAT(line, HasSubstr("scopes_test.cc:"));
}

TEST(Scopes, TracingIsTrueOnlyInTheBodyOfAFunction) {
  World world;
  bool in_body = false;
  const Interactive scope(world.mesh());
  compile(world.mesh(), [&](Tensor x) { return in_body = tracing(), x + 1; })(vector_of(1)).wait();
  EXPECT_TRUE(in_body);
  EXPECT_FALSE(tracing());
  EXPECT_EQ(Interactive::mesh()->mesh, world.mesh().mesh);
  EXPECT_TRUE(Interactive::training());
  {
    const Interactive evaluation(world.mesh(), false);
    EXPECT_FALSE(Interactive::training());
  }
  EXPECT_TRUE(Interactive::training());
}

// Random numbers of half types must stay below 1, and normal ones have mean 0 and variance 1.
TEST(RandomNumbers, TheyHaveTheirDistribution) {
  World world;
  const Interactive scope(world.mesh());
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const Tensor uniform = random_uniform({4096}, dtype), normal = random_normal({4096}, dtype);
    EXPECT_EQ(uniform.dtype(), dtype);
    EXPECT_EQ(normal.dtype(), dtype);
    double sum = 0, normal_sum = 0, squares = 0;
    for (double number : numbers_of(uniform.read())) {
      EXPECT_GE(number, 0);
      EXPECT_LT(number, 1);
      sum += number;
    }
    for (double number : numbers_of(normal.read())) normal_sum += number, squares += number * number;
    EXPECT_NEAR(sum / 4096, 0.5, 0.03) << name_of(dtype);
    EXPECT_NEAR(normal_sum / 4096, 0, 0.08) << name_of(dtype);
    EXPECT_NEAR(squares / 4096, 1, 0.12) << name_of(dtype);
  }
  EXPECT_EQ(random_uniform({2, 3}).type, (TensorType{DType::f32, {2, 3}}));
  const Parameter w("w", {DType::f32, {64, 64}}, normal_init(3));
  double squares = 0;
  for (double number : numbers_of(world.first_values({w})[0])) squares += number * number;
  EXPECT_NEAR(squares / 4096, 9, 1);
}

}  // namespace
}  // namespace karez
