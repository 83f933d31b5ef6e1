// Tests of canonicalise: dead nodes, common subexpressions and identities are removed, and nothing else changes.
#include "karez/passes/logical/canonicalise.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "karez/passes/logical/test_canonicalise.h"

namespace karez::passes {
namespace {

using testing::count_op;
using testing::table;
using Program = testing::CanonicaliseProgram;

TEST(Canonicalise, NodesThatNoOutputAndNoVariableNeedsAreRemoved) {
  Program p;
  ValueId x = p.input("x"), dead = build::exp(p.b, build::neg(p.b, x));
  (void)dead;
  ValueId w = testing::parameter(p.b, "w", testing::vector_type),
          unused = testing::parameter(p.b, "unused", testing::vector_type);
  (void)unused;
  p.graph.variables[0].updated = build::add(p.b, build::tanh(p.b, w), x);
  p.output(build::exp(p.b, x));
  Graph g = p.canonical();
  EXPECT_EQ(count_op(g, "neg"), 0);
  EXPECT_EQ(count_op(g, "exp"), 1);
  EXPECT_EQ(count_op(g, "tanh"), 1) << "a variable needs its result";
  EXPECT_EQ(count_op(g, "variable"), 1);
  EXPECT_FALSE(g.variables[1].read.valid());
  EXPECT_EQ(g.variables.size(), 2u) << "the variable itself stays in the list";
}

TEST(Canonicalise, AVariableThatIsOnlyWrittenKeepsItsNode) {
  Program p;
  ValueId x = p.input("x");
  testing::parameter(p.b, "w", testing::vector_type);
  p.graph.variables[0].updated = build::exp(p.b, x);
  EXPECT_EQ(count_op(p.canonical(), "variable"), 1);
}

TEST(Canonicalise, EqualNodesMergeEvenIfOperandsOfACommutativeOpAreSwapped) {
  Program p;
  ValueId x = p.input("x"), y = p.input("y");
  p.output(build::sub(p.b, build::exp(p.b, build::max(p.b, x, y)), build::exp(p.b, build::max(p.b, y, x))));
  p.output(build::div(p.b, build::div(p.b, x, y), build::div(p.b, y, x)), "z");
  Graph g = p.canonical();
  EXPECT_EQ(count_op(g, "max"), 1);
  EXPECT_EQ(count_op(g, "exp"), 1);
  EXPECT_EQ(count_op(g, "div"), 3) << "x / y is not y / x";
}

TEST(Canonicalise, RandomNodesMergeOnlyAtTheSameSite) {
  Program p;
  ValueId state = p.input("state", {DType::i64, {2}});
  auto draw = [&](int site) { return build::random_uniform(p.b, state, testing::vector_type, site); };
  p.output(build::sub(p.b, build::sub(p.b, draw(1), draw(2)), draw(1)));
  EXPECT_EQ(count_op(p.canonical(), "random_uniform"), 2);
}

TEST(Canonicalise, ImpureNodesNeverMerge) {
  std::vector<OpDef> rows;
  for (const OpDef* row : table().rows()) rows.push_back(*row);
  OpDef roll = table().at("exp");
  roll.name = "roll";
  roll.expr.clear();
  roll.pure = false;
  rows.push_back(roll);
  OpTable ops(rows);
  Graph graph;
  Builder b(graph, ops);
  ValueId x = build::input(b, "x", testing::vector_type);
  graph.outputs.push_back({"y", b.one("sub", {b.one("roll", {x}), b.one("roll", {x})})});
  EXPECT_EQ(count_op(canonicalise(graph, {&ops, {}}).graph, "roll"), 2);
}

TEST(Canonicalise, AValueWhoseLayoutTheUserFixedIsNeitherMergedNorRemoved) {
  Program p;
  p.graph.meshes = {Mesh::parse("data=2")};
  ValueId x = p.input("x");
  ValueId a = build::exp(p.b, x), fixed_exp = build::exp(p.b, x);
  p.graph.value(fixed_exp).layout = Layout{B()};
  ValueId plus_zero = build::add(p.b, fixed_exp, build::full_like(p.b, x, 0));
  p.graph.value(plus_zero).layout = Layout{S(0)};
  p.output(build::mul(p.b, a, plus_zero));
  Graph g = p.canonical();
  EXPECT_EQ(count_op(g, "exp"), 2);
  EXPECT_EQ(count_op(g, "add"), 1) << "the layout changes at the addition of zero";
  ValueId root = g.node(g.value(g.outputs[0].value).producer).inputs[1];
  ASSERT_TRUE(g.value(root).layout);
  EXPECT_EQ(*g.value(root).layout, Layout{S(0)});
}

TEST(Canonicalise, NodesThatReturnTheirOperandAreRemoved) {
  auto count_nodes = [](auto make_output) {
    Program p;
    ValueId x = p.input("x", {DType::f64, {2, 3}});
    auto make_splat = [&](double value) { return build::full_like(p.b, x, value); };
    p.output(make_output(p.b, x, make_splat));
    Graph g = p.canonical();
    return static_cast<int>(g.nodes.size());
  };
  using namespace build;
  EXPECT_EQ(count_nodes([](Builder& b, ValueId x, auto splat) { return add(b, x, splat(-0.0)); }), 1);
  EXPECT_EQ(count_nodes([](Builder& b, ValueId x, auto splat) { return add(b, splat(-0.0), x); }), 1);
  EXPECT_EQ(count_nodes([](Builder& b, ValueId x, auto splat) { return sub(b, x, splat(0)); }), 1);
  EXPECT_EQ(count_nodes([](Builder& b, ValueId x, auto splat) { return mul(b, x, splat(1)); }), 1);
  EXPECT_EQ(count_nodes([](Builder& b, ValueId x, auto splat) { return mul(b, splat(1), x); }), 1);
  EXPECT_EQ(count_nodes([](Builder& b, ValueId x, auto splat) { return div(b, x, splat(1)); }), 1);
  EXPECT_EQ(count_nodes([](Builder& b, ValueId x, auto) { return neg(b, neg(b, x)); }), 1);
  EXPECT_EQ(count_nodes([](Builder& b, ValueId x, auto) { return stop_gradient(b, x); }), 1);
  EXPECT_EQ(count_nodes([](Builder& b, ValueId x, auto) {
              return b.one("reshape", {x}, Attrs().set("shape", Ints{2, 3}));
            }),
            1);
  EXPECT_EQ(count_nodes([](Builder& b, ValueId x, auto) {
              return b.one("broadcast", {x}, Attrs().set("shape", Ints{2, 3}).set("dims", Ints{0, 1}));
            }),
            1);
  EXPECT_EQ(count_nodes([](Builder& b, ValueId x, auto) { return slice(b, x, {0, 0}, {2, 3}); }), 1);
  EXPECT_EQ(count_nodes([](Builder& b, ValueId x, auto) { return pad(b, x, {0, 0}, {0, 0}); }), 1);
  EXPECT_EQ(count_nodes([](Builder& b, ValueId x, auto) { return transpose(b, x, {0, 1}); }), 1);
  EXPECT_EQ(count_nodes([](Builder& b, ValueId x, auto) { return concat(b, std::vector{x}, 0); }), 1);
  // Similar expressions that are not identities.
  EXPECT_GT(count_nodes([](Builder& b, ValueId x, auto splat) { return add(b, x, splat(0)); }), 1) << "-0 + 0 is 0";
  EXPECT_GT(count_nodes([](Builder& b, ValueId x, auto splat) { return add(b, splat(0), x); }), 1);
  EXPECT_GT(count_nodes([](Builder& b, ValueId x, auto splat) { return sub(b, x, splat(-0.0)); }), 1);
  EXPECT_GT(count_nodes([](Builder& b, ValueId x, auto splat) { return sub(b, splat(0), x); }), 1);
  EXPECT_GT(count_nodes([](Builder& b, ValueId x, auto splat) { return div(b, splat(1), x); }), 1);
  EXPECT_GT(count_nodes([](Builder& b, ValueId x, auto splat) { return mul(b, x, splat(0)); }), 1)
      << "NaN times zero is NaN";
  EXPECT_GT(count_nodes([](Builder& b, ValueId x, auto) { return reshape(b, x, {3, 2}); }), 1);
  EXPECT_GT(count_nodes([](Builder& b, ValueId x, auto) { return neg(b, exp(b, neg(b, x))); }), 1);
}

TEST(Canonicalise, AnOutputOrVariableThatIsAnIdentityKeepsItsName) {
  Program p;
  ValueId w = testing::parameter(p.b, "w", testing::vector_type);
  ValueId times_one = build::mul(p.b, w, build::full_like(p.b, w, 1));
  p.graph.variables[0].updated = times_one;
  p.output(times_one);
  Graph g = p.canonical();
  EXPECT_EQ(g.variables[0].updated, g.variables[0].read);
  EXPECT_EQ(g.outputs[0].value, g.variables[0].read);
}

TEST(Canonicalise, RandomGraphsGiveTheSameResultsAfterwards) {
  const char* given_seed = std::getenv("KAREZ_SEED");
  std::uint64_t seed = given_seed ? std::strtoull(given_seed, nullptr, 10) : 20240607;
  RecordProperty("seed", std::to_string(seed));
  int shrunk = 0;
  for (std::uint64_t round = 0; round < 400; ++round) {
    std::mt19937_64 random(seed + round);
    auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    Program p;
    const Shape shape = {2, 3};
    std::vector<ValueId> pool;  // values of the same shape
    for (const char* name : {"a", "b", "c"}) pool.push_back(p.input(name, {DType::f64, shape}));
    pool.push_back(testing::parameter(p.b, "w", {DType::f64, shape}));
    for (double number : {0.0, 1.0, 2.0}) pool.push_back(build::full(p.b, DType::f64, shape, number));
    for (int step = 0; step < 25; ++step) {
      ValueId x = pool[below(pool.size())], y = pool[below(pool.size())];
      Builder& b = p.b;
      switch (below(12)) {
        case 0:
        case 1:
        case 2: pool.push_back(build::add(b, x, y)); break;
        case 3:
        case 4: pool.push_back(build::mul(b, x, y)); break;
        case 5: pool.push_back(build::sub(b, x, y)); break;
        case 6: pool.push_back(build::neg(b, x)); break;
        case 7: pool.push_back(build::max(b, x, y)); break;
        case 8: pool.push_back(build::tanh(b, x)); break;
        case 9: pool.push_back(build::broadcast(b, build::reduce_sum(b, x, {0}), shape, {1})); break;
        case 10: pool.push_back(build::transpose(b, build::transpose(b, x, {1, 0}), {1, 0})); break;
        default: pool.push_back(build::div(b, x, build::full(b, DType::f64, shape, 1))); break;
      }
    }
    for (int k = 0; k < 3; ++k) p.output(pool[below(pool.size())], cat("y", k));
    p.graph.variables[0].updated = pool[below(pool.size())];
    auto expected = testing::evaluate_graph(p.graph);
    Graph g = p.canonical();
    ASSERT_LT(testing::max_relative_difference(expected, testing::evaluate_graph(g)), 1e-12)
        << "KAREZ_SEED=" << seed + round << "\n"
        << print(p.graph) << print(g);
    shrunk += g.nodes.size() < p.graph.nodes.size();
  }
  EXPECT_GT(shrunk, 300);
}

}  // namespace
}  // namespace karez::passes
