// Tests of tracing: the graph that functions, modules and optimisers write, with its source lines, paths and dtypes,
// and the errors of invalid calls.
#include "karez/api/trace/trace.h"
#include "karez/api/namespace.h"
#include "karez/api/trace/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "karez/api/functions.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/testing/test_texts.h"
#include "karez/base/text.h"
#include "karez/ops/all_ops.h"

namespace karez {
namespace {
using ::testing::HasSubstr;

// A trace that is open during the object's lifetime.
struct OpenTrace {
  OpTable ops = all_ops();
  Trace trace;
  Trace::Scope scope;
  explicit OpenTrace(TraceOptions options = {}) : trace(ops, std::move(options)), scope(trace) {}
  Tensor input(std::string_view name, DType dtype, Shape shape) { return trace.input(name, {dtype, std::move(shape)}); }
};

std::string current_line(SourceLine line = SourceLine::current()) { return print(line); }

// Returns the names of the nodes' ops in order, separated by spaces.
std::string ops_of(const Graph& graph) {
  return join(graph.nodes, " ", [](const Node& node) { return node.op->name; });
}

TEST(Trace, AFunctionOfTensorsWritesNodesWithTheUsersLine) {
  OpenTrace o;
  Tensor x = o.input("x", DType::f32, {4, 3});
  Tensor y = relu(x);
  std::string line = current_line();  // of this line; the call is on the line above
  o.trace.finish({y + 1.0});
  EXPECT_EQ(ops_of(o.trace.graph), "input relu constant broadcast add");
  EXPECT_EQ(o.trace.graph.nodes[NodeId(1)].where,
            cat("trace_test.cc:", std::stoi(line.substr(line.find(':') + 1)) - 1));
  ASSERT_EQ(o.trace.graph.outputs.size(), 1u);
  EXPECT_EQ(o.trace.graph.outputs[0].name, "out0");
  verify(o.trace.graph);
}

TEST(Trace, AnErrorQuotesTheLineOfTheUsersCallAndNotALineOfTheLibrary) {
  OpenTrace o;
  Tensor a = o.input("a", DType::f32, {4, 3}), b = o.input("b", DType::f32, {5, 2});
  std::string line;
  std::string error = error_of([&] { line = current_line(), matmul(a, b); });
  EXPECT_THAT(error, HasSubstr("3 and 5"));
  EXPECT_THAT(error, HasSubstr("at " + line));
  error = error_of([&] { line = current_line(), a + b; });
  EXPECT_THAT(error, HasSubstr("[4, 3]"));
  EXPECT_THAT(error, HasSubstr("[5, 2]"));
  EXPECT_THAT(error, HasSubstr("at " + line));
}

TEST(Trace, AnErrorInALayerNamesTheModuleAndTheLineOfItsCall) {
  OpenTrace o;
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 8, 2};
  } net;
  std::string line;
  std::string error = error_of([&] { line = current_line(), net.fc(o.input("x", DType::f32, {4, 7})); });
  EXPECT_THAT(error, HasSubstr("at " + line));
  EXPECT_THAT(error, HasSubstr("fc"));
}

TEST(Trace, OutsideOfATraceAFunctionWritesASeparateExpression) {
  const Tensor tensor = full({2}, 1);
  ASSERT_NE(tensor.lazy, nullptr);
  EXPECT_EQ(ops_of(tensor.lazy->producer()->trace.graph), "input broadcast");
  EXPECT_EQ(Trace::open(), nullptr);
  EXPECT_THAT(error_of([] { Trace::current(); }), HasSubstr("no program is being traced on this thread"));
}

TEST(Trace, ATensorOfAnotherTraceIsAnError) {
  Tensor foreign;
  {
    OpenTrace first;
    foreign = first.input("x", DType::f32, {2});
  }
  OpenTrace second;
  EXPECT_THAT(error_of([&] { relu(foreign); }), HasSubstr("a tensor f32[2] belongs to another trace"));
  EXPECT_THAT(error_of([&] { relu(Tensor()); }), HasSubstr("uninitialised"));
}

TEST(Trace, EachThreadHasASeparateTrace) {
  OpenTrace o;
  bool lazy = false;
  std::thread([&] { lazy = full({2}, 1).lazy != nullptr; }).join();
  EXPECT_TRUE(lazy);
  EXPECT_EQ(full({2}, 1).lazy, nullptr);
}

TEST(Trace, AScopeRestoresTheEnclosingScopeAtItsEnd) {
  OpenTrace outer;
  {
    OpenTrace inner;
    full({2}, 1);
  }
  full({3}, 1);
  EXPECT_EQ(outer.trace.graph.values.back().type.shape, Shape{3});
}

TEST(Promotion, PromotionFollowsPyTorch) {
  OpenTrace o;
  Tensor f = o.input("f", DType::f32, {2}), d = o.input("d", DType::f64, {2}), i = o.input("i", DType::i32, {2}),
         l = o.input("l", DType::i64, {2});
  Tensor scalar = o.input("s", DType::f64, {}), b = f > 0, integer_scalar = o.input("w", DType::i64, {});
  EXPECT_EQ((f + d).dtype(), DType::f64);
  EXPECT_EQ((i + l).dtype(), DType::i64);
  EXPECT_EQ((i + f).dtype(), DType::f32);
  EXPECT_EQ((l + 1).dtype(), DType::i64);
  EXPECT_EQ((i + 1).dtype(), DType::i32);
  EXPECT_EQ((i + 0.5).dtype(), DType::f32);
  EXPECT_EQ((d * 2).dtype(), DType::f64);
  EXPECT_EQ((f + scalar).dtype(), DType::f32);  // a scalar tensor does not widen within its kind
  EXPECT_EQ((i + integer_scalar).dtype(), DType::i32);
  EXPECT_EQ((i + scalar).dtype(), DType::f64);  // a scalar of a higher kind determines the dtype
  EXPECT_EQ((b + 1).dtype(), DType::i64);
  EXPECT_EQ((i / i).dtype(), DType::f32);
  EXPECT_EQ((f < 1).dtype(), DType::b8);
  EXPECT_EQ(exp(i).dtype(), DType::f32);
  EXPECT_EQ(select(b, f, 0.0).dtype(), DType::f32);
}

TEST(Functions, ShapesFollowNumPyAndPyTorch) {
  OpenTrace o;
  Tensor x = o.input("x", DType::f32, {2, 3, 8, 8});
  EXPECT_EQ(flatten(x).shape(), (Shape{2, 192}));
  EXPECT_EQ(reshape(x, {6, -1}).shape(), (Shape{6, 64}));
  EXPECT_EQ(max_pool(x, 2).shape(), (Shape{2, 3, 4, 4}));
  EXPECT_EQ(max_pool(x, 3, 2, 1).shape(), (Shape{2, 3, 4, 4}));
  EXPECT_EQ(avg_pool(x, 4).shape(), (Shape{2, 3, 2, 2}));
  EXPECT_EQ(transpose(x).shape(), (Shape{2, 3, 8, 8}));
  EXPECT_EQ(transpose(x, {1, 0, 2, 3}).shape(), (Shape{3, 2, 8, 8}));
  EXPECT_EQ(sum(x).shape(), Shape{});
  EXPECT_EQ(sum(x, {-1, 0}).shape(), (Shape{3, 8}));
  EXPECT_EQ(mean(x, {1}, true).shape(), (Shape{2, 1, 8, 8}));
  EXPECT_EQ(max(x, {2, 3}).shape(), (Shape{2, 3}));
  EXPECT_EQ(arg_max(x).shape(), (Shape{2, 3, 8}));
  EXPECT_EQ(concat({x, x}, 1).shape(), (Shape{2, 6, 8, 8}));
  EXPECT_EQ(slice(x, {0, 1, 0, 0}, {2, 2, 8, 8}).shape(), (Shape{2, 2, 8, 8}));
  EXPECT_EQ(pad(x, {0, 0, 1, 1}, {0, 0, 1, 1}).shape(), (Shape{2, 3, 10, 10}));
  EXPECT_EQ((x + full({3, 1, 1}, 2)).shape(), (Shape{2, 3, 8, 8}));
  EXPECT_EQ(softmax(x, 1).shape(), x.shape());
  EXPECT_EQ(one_hot(arg_max(x), 8).shape(), (Shape{2, 3, 8, 8}));
  EXPECT_EQ(gather(full({5, 7}, 0), iota({4}, 0, DType::i32)).shape(), (Shape{4, 7}));
  EXPECT_EQ(x.size(-3), 3);
  EXPECT_THAT(error_of([&] { reshape(x, {5, -1}); }), HasSubstr("384 elements"));
  EXPECT_THAT(error_of([&] { reshape(x, {-1, -1}); }), HasSubstr("only one size may be -1"));
  EXPECT_THAT(error_of([&] { sum(x, {4}); }), HasSubstr("axis 4 of a tensor with 4 dimensions"));
  EXPECT_THAT(error_of([&] { mean(cast(x, DType::i32)); }), HasSubstr("cast it to a float first"));
  EXPECT_THAT(error_of([&] { dropout(x, 1.0); }), HasSubstr("must be in [0, 1), got 1.0"));
}

TEST(Functions, WithLayoutSetsTheLayoutOfItsResultFromAPartitionSpec) {
  OpenTrace o({.mesh = Mesh::parse("data=2,model=2")});
  Tensor x = o.input("x", DType::f32, {8, 6});
  auto layout_of = [&](const Tensor& t) { return *o.trace.graph.value(t.id).layout; };
  Tensor rows = with_layout(x, P("data", nullptr)), columns = with_layout(x, P(nullptr, "data+model"));
  EXPECT_EQ(layout_of(rows), (Layout{S(0), B()}));
  EXPECT_EQ(layout_of(columns), (Layout{S(1), S(1)}));
  EXPECT_FALSE(o.trace.graph.value(x.id).layout.has_value()) << "the planner must still choose the operand's layout";
  EXPECT_THAT(error_of([&] { with_layout(x, P("pipe", nullptr)); }), HasSubstr("pipe"));
  EXPECT_EQ(layout_of(with_layout(x, P("model"))), (Layout{B(), S(0)}))
      << "dimensions after the last one in the partition spec must not be split";
  EXPECT_THAT(error_of([&] { with_layout(x, P("data", "model", nullptr)); }),
              HasSubstr("a layout for f32[8, 6] names 3 dimensions, but the rank is 2"));
  EXPECT_THAT(error_of([&] { with_layout(x, P("data", "data")); }), HasSubstr("names the mesh axis 'data' twice"));
}

TEST(Parameters, AParameterHasOneVariableNodeAndReadsAfterAnUpdateReturnTheNewValue) {
  OpenTrace o;
  Parameter w("w", {DType::f32, {2}}, constant_init(0));
  Tensor a = w * 2.0, b = w * 3.0;
  EXPECT_EQ(ops_of(o.trace.graph), "variable constant broadcast mul constant broadcast mul");
  o.trace.update(w, a.id);
  EXPECT_EQ(o.trace.read(w), a.id);  // reads after the update return the new value
  EXPECT_EQ(o.trace.graph.variables[0].updated, a.id);
  o.trace.update(w, b.id);
  EXPECT_EQ(o.trace.graph.variables[0].updated, b.id);
  EXPECT_THAT(error_of([&] { o.trace.update(w, sum(w).id); }),
              HasSubstr("parameter 'w' is f32[2]; its update is f32[]"));
}

TEST(Parameters, TwoParametersWithTheSameNameAreTwoVariables) {
  OpenTrace o;
  Parameter a("w", {DType::f32, {2}}, constant_init(0)), b("w", {DType::f32, {3}}, constant_init(0));
  relu(b), relu(a), relu(b);
  o.trace.update(a, full({2}, 1).id);
  EXPECT_EQ(o.trace.parameters(), (std::vector<Parameter>{b, a}));
  EXPECT_FALSE(o.trace.graph.variables[0].updated.valid());
  EXPECT_THAT(print(o.trace.graph),
              HasSubstr("  variable \"w\" : f32[3] read %0\n  variable \"w#1\" : f32[2] read %2 updated %"));
  verify(o.trace.graph);
}

TEST(Parameters, OrdinalsNumberParametersWithTheSameNameOnEachThread) {
  auto make = [](const char* name) { return Parameter(name, {DType::f32, {}}, constant_init(0)).ordinal(); };
  int first_ordinal = make("counted");
  make("other");
  EXPECT_EQ(make("counted"), first_ordinal + 1);
  int ordinal_on_thread = -1;
  std::thread([&] { make("counted"), ordinal_on_thread = make("counted"); }).join();
  EXPECT_EQ(ordinal_on_thread, 1) << "ordinals must not depend on other threads";
  EXPECT_EQ(make("counted"), first_ordinal + 2);
}

TEST(Dropout, EachDropoutHasASeparateSiteAndTheCounterAdvances) {
  OpenTrace o;
  Tensor x = o.input("x", DType::f32, {4});
  o.trace.finish({dropout(x, 0.5) + dropout(x, 0.5)});
  std::vector<std::int64_t> sites;
  for (const auto& node : o.trace.graph.nodes)
    if (node.op->name == "random_uniform") sites.push_back(node.attrs.integer("site"));
  ASSERT_EQ(sites.size(), 2u);
  EXPECT_NE(sites[0], sites[1]);
  EXPECT_GE(std::min(sites[0], sites[1]), 0);
  ASSERT_EQ(o.trace.graph.variables.size(), 1u);
  EXPECT_EQ(o.trace.graph.variables[0].name, "rng");
  EXPECT_TRUE(o.trace.graph.variables[0].updated.valid());
  verify(o.trace.graph);
}

TEST(Dropout, DropoutIsTheIdentityOutsideOfTraining) {
  OpenTrace o({.train = false});
  Tensor x = o.input("x", DType::f32, {4});
  o.trace.finish({dropout(x, 0.5)});
  EXPECT_EQ(ops_of(o.trace.graph), "input");
  EXPECT_TRUE(o.trace.graph.variables.empty());
}

TEST(Gradients, GradientsAreInTheOrderOfTheParameters) {
  OpenTrace o;
  Parameter w("w", {DType::f32, {3, 2}}, constant_init(0)), b("b", {DType::f32, {2}}, constant_init(0));
  Tensor x = o.input("x", DType::f32, {4, 3});
  auto grads = grad(mean(matmul(x, w) + b), {b, w});
  ASSERT_EQ(grads.size(), 2u);
  EXPECT_EQ(grads[0].type, b.type());
  EXPECT_EQ(grads[1].type, w.type());
  EXPECT_THAT(error_of([&] { grad(x, std::vector<Parameter>{w}); }), HasSubstr("trace_test.cc"));
}

}  // namespace
}  // namespace karez
