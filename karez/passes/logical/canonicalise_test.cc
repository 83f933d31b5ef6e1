// Tests of canonicalise: removal, sharing, folding, and that nothing else changes.
#include "karez/passes/logical/canonicalise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "karez/base/test_golden.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::count_op;
using testing::table;

const TensorType vec{DType::f64, {4}};

// Evaluates pointwise calls and sums of f64 host bytes, which is sufficient for folding here.
std::vector<HostBytes> tiny_evaluate(const CallSpec& call, const std::vector<HostBytes>& in) {
  require(call.out[0].dtype == DType::f64, "the test evaluates only f64, not ", print(call));
  if (call.op == "reduce_sum") {
    testing::Array x{call.in[0].shape, std::vector<double>(in[0].size() / 8)};
    std::memcpy(x.data.data(), in[0].data(), in[0].size());
    testing::Array y =
        testing::reduced(x, call.out[0].shape, call.attrs.ints("axes"), 0, [](double a, double b) { return a + b; });
    HostBytes out(y.data.size() * 8);
    std::memcpy(out.data(), y.data.data(), out.size());
    return {out};
  }
  require(call.op == "pointwise", "the test does not evaluate ", print(call));
  ExprProgram program = flatten(parse_expr(call.attrs.text("expr")));
  HostBytes out(static_cast<std::size_t>(call.out[0].count()) * 8);
  for (std::size_t i = 0; i < out.size(); i += 8) {
    std::vector<double> x(in.size());
    for (std::size_t k = 0; k < in.size(); ++k) std::memcpy(&x[k], &in[k][i], 8);
    double y = evaluate<double>(program, x);
    std::memcpy(&out[i], &y, 8);
  }
  return {out};
}

struct Program {
  Graph graph;
  Builder b{graph, table()};
  RuleCounts rule_counts;
  ValueId input(const std::string& name, const TensorType& type = vec) { return build::input(b, name, type); }
  void output(ValueId value, const std::string& name = "y") { graph.outputs.push_back({name, value}); }
  Graph canonical() {
    verify(graph);
    CanonicalGraph done = canonicalise(graph, {&table(), tiny_evaluate});
    verify(done.graph);
    rule_counts = std::move(done.rule_counts);
    return std::move(done.graph);
  }
};

std::string body(const Graph& graph) {  // without the first line
  std::string text = print(graph);
  return text.substr(text.find('\n') + 1);
}

TEST(Canonicalise, NodesThatNoOutputAndNoVariableNeedsAreRemoved) {
  Program p;
  ValueId x = p.input("x"), dead = build::exp(p.b, build::neg(p.b, x));
  (void)dead;
  ValueId w = testing::parameter(p.b, "w", vec), unused = testing::parameter(p.b, "unused", vec);
  (void)unused;
  p.graph.variables[0].updated = build::add(p.b, build::tanh(p.b, w), x);
  p.output(build::exp(p.b, x));
  Graph g = p.canonical();
  EXPECT_EQ(count_op(g, "neg"), 0);
  EXPECT_EQ(count_op(g, "exp"), 1);
  EXPECT_EQ(count_op(g, "tanh"), 1) << "a variable needs it";
  EXPECT_EQ(count_op(g, "variable"), 1);
  EXPECT_FALSE(g.variables[1].read.valid());
  EXPECT_EQ(g.variables.size(), 2u) << "the variable itself stays in the list";
}

TEST(Canonicalise, AVariableThatIsOnlyWrittenKeepsItsNode) {
  Program p;
  ValueId x = p.input("x");
  testing::parameter(p.b, "w", vec);
  p.graph.variables[0].updated = build::exp(p.b, x);
  EXPECT_EQ(count_op(p.canonical(), "variable"), 1);
}

TEST(Canonicalise, EqualNodesMergeAndOperandsOfCommutativeOnesMayBeSwapped) {
  Program p;
  ValueId x = p.input("x"), y = p.input("y");
  p.output(build::sub(p.b, build::exp(p.b, build::max(p.b, x, y)), build::exp(p.b, build::max(p.b, y, x))));
  p.output(build::div(p.b, build::div(p.b, x, y), build::div(p.b, y, x)), "z");
  Graph g = p.canonical();
  EXPECT_EQ(count_op(g, "max"), 1);
  EXPECT_EQ(count_op(g, "exp"), 1);
  EXPECT_EQ(count_op(g, "div"), 3) << "x / y is not y / x";
}

TEST(Canonicalise, SumsShareCommonTermsInAnyOrder) {
  for (int form = 0; form < 4; ++form) {
    Program p;
    ValueId a = p.input("a"), b = p.input("b"), c = p.input("c"), d = p.input("d");
    auto add = [&](ValueId x, ValueId y) { return build::add(p.b, x, y); };
    ValueId x = add(add(a, b), c);
    ValueId y = form == 0   ? add(add(a, b), d)
                : form == 1 ? add(add(d, b), a)
                : form == 2 ? add(b, add(d, a))
                            : add(a, add(b, d));
    p.output(build::mul(p.b, x, y));
    auto before = testing::meaning_of(p.graph);
    EXPECT_EQ(count_op(p.graph, "add"), 4);
    Graph g = p.canonical();
    EXPECT_EQ(count_op(g, "add"), 3) << "form " << form << "\n" << print(g);
    EXPECT_LT(testing::difference(before, testing::meaning_of(g)), 1e-14);
  }
}

TEST(Canonicalise, ProductsShareCommonFactorsOnRequestIncludingRepeatedOnes) {
  Program p;
  ValueId a = p.input("a"), b = p.input("b"), c = p.input("c");
  auto mul = [&](ValueId x, ValueId y) { return build::mul(p.b, x, y); };
  p.output(mul(mul(a, b), a));  // a a b
  p.output(mul(a, mul(c, a)), "z");
  auto before = testing::meaning_of(p.graph);
  EXPECT_EQ(count_op(p.canonical(), "mul"), 4);
  Graph g = canonicalise(p.graph, {&table(), tiny_evaluate, 4096, true}).graph;
  EXPECT_EQ(count_op(g, "mul"), 3) << print(g);
  EXPECT_LT(testing::difference(before, testing::meaning_of(g)), 1e-14);
}

TEST(Canonicalise, ASingleSumIsNotChanged) {
  Program p;
  ValueId a = p.input("a"), b = p.input("b"), c = p.input("c");
  p.output(build::add(p.b, c, build::add(p.b, b, a)));
  std::string before = print(p.graph);
  EXPECT_EQ(print(p.canonical()), before);
}

TEST(Canonicalise, ASumThatIsAnOutputIsNotRegrouped) {
  Program p;
  ValueId a = p.input("a"), b = p.input("b"), c = p.input("c");
  ValueId inner = build::add(p.b, a, b);
  p.output(inner, "inner");
  p.output(build::add(p.b, inner, c));
  Graph g = p.canonical();
  EXPECT_EQ(count_op(g, "add"), 2);
  EXPECT_EQ(g.outputs[0].name, "inner");
}

TEST(Canonicalise, RandomNodesMergeOnlyAtTheSameSite) {
  Program p;
  ValueId state = p.input("state", {DType::i64, {2}});
  auto draw = [&](int site) { return build::random_uniform(p.b, state, vec, site); };
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
  ValueId x = build::input(b, "x", vec);
  graph.outputs.push_back({"y", b.one("sub", {b.one("roll", {x}), b.one("roll", {x})})});
  EXPECT_EQ(count_op(canonicalise(graph, {&ops, {}}).graph, "roll"), 2);
}

TEST(Canonicalise, AValueWhoseLayoutTheUserFixedIsNeitherMergedNorRemoved) {
  Program p;
  p.graph.meshes = {Mesh::parse("data=2")};
  ValueId x = p.input("x");
  ValueId a = build::exp(p.b, x), fixed = build::exp(p.b, x);
  p.graph.value(fixed).layout = Layout{B()};
  ValueId same = build::add(p.b, fixed, build::full_like(p.b, x, 0));
  p.graph.value(same).layout = Layout{S(0)};
  p.output(build::mul(p.b, a, same));
  Graph g = p.canonical();
  EXPECT_EQ(count_op(g, "exp"), 2);
  EXPECT_EQ(count_op(g, "add"), 1) << "the layout changes at the addition of zero";
  ValueId root = g.node(g.value(g.outputs[0].value).producer).inputs[1];
  ASSERT_TRUE(g.value(root).layout);
  EXPECT_EQ(*g.value(root).layout, Layout{S(0)});
}

TEST(Canonicalise, ConstantsFoldAndSplatsOfAnySizeStaySplats) {
  Program p;
  ValueId x = p.input("x", {DType::f64, {100, 100}});
  ValueId two = build::full(p.b, DType::f64, {100, 100}, 2), three = build::full(p.b, DType::f64, {100, 100}, 3);
  p.output(build::mul(p.b, x, build::exp(p.b, build::mul(p.b, two, three))));
  Graph g = p.canonical();
  EXPECT_EQ(count_op(g, "exp"), 0);
  EXPECT_EQ(count_op(g, "mul"), 1);
  EXPECT_EQ(count_op(g, "constant"), 1);
  for (const Node& node : g.nodes) {
    if (node.op->name == "constant") { EXPECT_EQ(node.attrs.real("value"), std::exp(6.0)); }
  }
}

TEST(Canonicalise, DataIsFoldedUpToTheLimitAndNotBeyond) {
  for (std::int64_t size : {512, 513}) {  // 4096 and 4104 bytes
    Program p;
    TensorType type{DType::f64, {size}};
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < size; ++i) numbers.push_back(static_cast<double>(i) / 7);
    ValueId data = build::constant(p.b, type, std::as_bytes(std::span(numbers)));
    p.output(build::add(p.b, build::sqrt(p.b, data), p.input("x", type)));
    auto before = testing::meaning_of(p.graph);
    Graph g = p.canonical();
    EXPECT_EQ(count_op(g, "sqrt"), size == 512 ? 0 : 1);
    EXPECT_EQ(testing::difference(before, testing::meaning_of(g)), 0);
  }
}

// Evaluates exact sums of i64.
std::vector<HostBytes> add_i64(const CallSpec& call, const std::vector<HostBytes>& in) {
  require(call.op == "pointwise" && call.attrs.text("expr") == "x0 + x1" && call.out[0].dtype == DType::i64, "not ",
          print(call));
  HostBytes out(in[0].size());
  for (std::size_t i = 0; i < out.size(); i += 8) {
    std::int64_t a, b;
    std::memcpy(&a, &in[0][i], 8), std::memcpy(&b, &in[1][i], 8);
    a += b;
    std::memcpy(&out[i], &a, 8);
  }
  return {out};
}

TEST(Canonicalise, FoldingKeepsIntegersThatNoDoubleRepresents) {
  const std::int64_t large = std::int64_t{1} << 53;  // no double represents large + 1
  for (std::int64_t count : {1, 2}) {
    for (std::int64_t sum : {large + 1, -large - 1, std::int64_t{41}}) {
      Graph graph;
      Builder b(graph, table());
      TensorType type{DType::i64, {count}};
      std::vector<std::int64_t> less(static_cast<std::size_t>(count), sum - 1);
      ValueId folded = build::add(b, build::constant(b, type, std::as_bytes(std::span(less))),
                                  build::full(b, DType::i64, {count}, 1));
      graph.outputs.push_back({"y", build::add(b, folded, build::input(b, "x", type))});
      Graph g = canonicalise(graph, {&table(), add_i64}).graph;
      ASSERT_EQ(count_op(g, "constant"), 1) << print(g);
      const Attrs& attrs =
          std::find_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op->name == "constant"; })->attrs;
      std::int64_t is = 0;
      if (attrs.has("value")) {
        is = static_cast<std::int64_t>(attrs.real("value"));
      } else {
        std::uint64_t bits = 0;
        for (std::size_t byte = 0; byte < 8; ++byte)
          bits |= std::stoull(attrs.text("data").substr(2 * byte, 2), nullptr, 16) << (8 * byte);
        is = static_cast<std::int64_t>(bits);
      }
      EXPECT_EQ(is, sum) << attrs.print();
    }
  }
  Graph graph;  // if no double represents the sum of two large splats, the sum is not folded
  Builder b(graph, table());
  TensorType type{DType::i64, {1000}};
  ValueId sum = build::add(b, build::full(b, DType::i64, type.shape, static_cast<double>(large)),
                           build::full(b, DType::i64, type.shape, 1));
  graph.outputs.push_back({"y", build::add(b, sum, build::input(b, "x", type))});
  EXPECT_EQ(count_op(canonicalise(graph, {&table(), add_i64}).graph, "add"), 2);
}

TEST(Canonicalise, SmallDataThatWouldExceedTheLimitIsNotFolded) {
  Program p;
  std::vector<double> numbers(500, 0.25);
  ValueId data = build::constant(p.b, {DType::f64, {500}}, std::as_bytes(std::span(numbers)));
  p.output(build::add(p.b, build::pad(p.b, data, {0}, {100}), p.input("x", {DType::f64, {600}})));
  EXPECT_EQ(count_op(p.canonical(), "pad"), 1);
}

TEST(Canonicalise, WithoutAnEvaluatorOnlyWindowsOnSplatsFold) {
  Program p;
  ValueId two = build::full(p.b, DType::f64, {4}, 2);
  p.output(build::add(p.b, p.input("x"), build::exp(p.b, two)));
  Graph g = canonicalise(p.graph, {&table(), {}}).graph;
  EXPECT_EQ(count_op(g, "exp"), 1);
  EXPECT_EQ(count_op(g, "broadcast"), 0);
}

TEST(Canonicalise, IdentitiesAreRemoved) {
  auto f = [](auto make) {
    Program p;
    ValueId x = p.input("x", {DType::f64, {2, 3}});
    auto splat = [&](double value) { return build::full_like(p.b, x, value); };
    p.output(make(p.b, x, splat));
    Graph g = p.canonical();
    return static_cast<int>(g.nodes.size());
  };
  using namespace build;
  EXPECT_EQ(f([](Builder& b, ValueId x, auto n) { return add(b, x, n(-0.0)); }), 1);
  EXPECT_EQ(f([](Builder& b, ValueId x, auto n) { return add(b, n(-0.0), x); }), 1);
  EXPECT_EQ(f([](Builder& b, ValueId x, auto n) { return sub(b, x, n(0)); }), 1);
  EXPECT_EQ(f([](Builder& b, ValueId x, auto n) { return mul(b, x, n(1)); }), 1);
  EXPECT_EQ(f([](Builder& b, ValueId x, auto n) { return mul(b, n(1), x); }), 1);
  EXPECT_EQ(f([](Builder& b, ValueId x, auto n) { return div(b, x, n(1)); }), 1);
  EXPECT_EQ(f([](Builder& b, ValueId x, auto) { return neg(b, neg(b, x)); }), 1);
  EXPECT_EQ(f([](Builder& b, ValueId x, auto) { return stop_gradient(b, x); }), 1);
  EXPECT_EQ(f([](Builder& b, ValueId x, auto) { return b.one("reshape", {x}, Attrs().set("shape", Ints{2, 3})); }), 1);
  EXPECT_EQ(f([](Builder& b, ValueId x, auto) {
              return b.one("broadcast", {x}, Attrs().set("shape", Ints{2, 3}).set("dims", Ints{0, 1}));
            }),
            1);
  EXPECT_EQ(f([](Builder& b, ValueId x, auto) { return slice(b, x, {0, 0}, {2, 3}); }), 1);
  EXPECT_EQ(f([](Builder& b, ValueId x, auto) { return pad(b, x, {0, 0}, {0, 0}); }), 1);
  EXPECT_EQ(f([](Builder& b, ValueId x, auto) { return transpose(b, x, {0, 1}); }), 1);
  EXPECT_EQ(f([](Builder& b, ValueId x, auto) { return concat(b, std::vector{x}, 0); }), 1);
  // Similar expressions that are not identities.
  EXPECT_GT(f([](Builder& b, ValueId x, auto n) { return add(b, x, n(0)); }), 1) << "-0 + 0 is 0";
  EXPECT_GT(f([](Builder& b, ValueId x, auto n) { return add(b, n(0), x); }), 1);
  EXPECT_GT(f([](Builder& b, ValueId x, auto n) { return sub(b, x, n(-0.0)); }), 1);
  EXPECT_GT(f([](Builder& b, ValueId x, auto n) { return sub(b, n(0), x); }), 1);
  EXPECT_GT(f([](Builder& b, ValueId x, auto n) { return div(b, n(1), x); }), 1);
  EXPECT_GT(f([](Builder& b, ValueId x, auto n) { return mul(b, x, n(0)); }), 1) << "NaN times zero is NaN";
  EXPECT_GT(f([](Builder& b, ValueId x, auto) { return reshape(b, x, {3, 2}); }), 1);
  EXPECT_GT(f([](Builder& b, ValueId x, auto) { return neg(b, exp(b, neg(b, x))); }), 1);
}

TEST(Canonicalise, AnOutputOrVariableThatIsAnIdentityKeepsItsName) {
  Program p;
  ValueId w = testing::parameter(p.b, "w", vec);
  ValueId same = build::mul(p.b, w, build::full_like(p.b, w, 1));
  p.graph.variables[0].updated = same;
  p.output(same);
  Graph g = p.canonical();
  EXPECT_EQ(g.variables[0].updated, g.variables[0].read);
  EXPECT_EQ(g.outputs[0].value, g.variables[0].read);
}

// x -> relu -> max_pool -> weighted sum, with gradients to x.
struct Pooled : Program {
  ValueId x, weights, active, pooled, index, loss, dx;
  Pooled() {
    x = input("x", {DType::f64, {2, 3, 4, 4}});
    active = build::relu(b, x);
    auto pool = build::max_pool(b, active);
    pooled = pool.value, index = pool.index;
    weights = input("weights", {DType::f64, {2, 3, 2, 2}});
    loss = build::sum(b, build::mul(b, pooled, weights));
    dx = gradient(b, loss, std::vector{x})[0];
    output(loss, "loss");
    output(dx, "dx");
  }
  bool fires() {
    auto before = testing::meaning_of(graph);
    Graph g = canonical();
    EXPECT_LT(testing::difference(before, testing::meaning_of(g)), 1e-14) << print(g);
    for (const Node& node : g.nodes)
      if (node.op->name == "relu") return g.type(node.outputs[0]).shape == Shape{2, 3, 2, 2};
    return false;
  }
};

TEST(Canonicalise, ReluMovesAfterMaxPoolingForwardAndBackward) {
  Pooled p;
  EXPECT_TRUE(
      golden(body(p.canonical()), R"(  %0 = input() {dtype="f64", name="x", shape=[2, 3, 4, 4]} : f64[2, 3, 4, 4]
  %1, %2 = max_pool(%0) {kernel=[2, 2], padding=[0, 0], stride=[2, 2]} : f64[2, 3, 2, 2], i32[2, 3, 2, 2]
  %3 = relu(%1) : f64[2, 3, 2, 2]
  %4 = input() {dtype="f64", name="weights", shape=[2, 3, 2, 2]} : f64[2, 3, 2, 2]
  %5 = mul(%3, %4) : f64[2, 3, 2, 2]
  %6 = reduce_sum(%5) {axes=[0, 1, 2, 3]} : f64[]
  %7 = relu_grad(%3, %4) : f64[2, 3, 2, 2] in "grad"
  %8 = max_pool_grad(%7, %2) {kernel=[2, 2], padding=[0, 0], shape=[2, 3, 4, 4], stride=[2, 2]} : f64[2, 3, 4, 4] in "grad"
  output "loss" %6
  output "dx" %8
}
)"));
  EXPECT_TRUE(Pooled().fires());
}

TEST(Canonicalise, ReluStaysBeforePoolingIfAnotherReaderWouldSeeTheDifference) {
  Pooled also_read;
  also_read.output(build::exp(also_read.b, also_read.active), "active");
  EXPECT_FALSE(also_read.fires());
  Pooled shown;
  shown.output(shown.active, "active");
  EXPECT_FALSE(shown.fires());
  Pooled index_shown;
  index_shown.output(index_shown.index, "index");
  EXPECT_FALSE(index_shown.fires());
  Pooled index_read;
  index_read.output(build::cast(index_read.b, index_read.index, DType::f64), "index");
  EXPECT_FALSE(index_read.fires());
  Pooled pool_grad_shown;
  ValueId pool_grad = pool_grad_shown.graph.node(pool_grad_shown.graph.value(pool_grad_shown.dx).producer).inputs[1];
  pool_grad_shown.output(pool_grad, "between");
  EXPECT_FALSE(pool_grad_shown.fires());
  Pooled twice;
  auto again = build::max_pool(twice.b, twice.active, {.kernel = {4, 4}, .stride = {4, 4}});
  twice.output(again.value, "again");
  EXPECT_FALSE(twice.fires());
  for (int which = 0; which < 5; ++which) {
    Pooled fixed;
    fixed.graph.meshes = {Mesh::parse("data=2")};
    ValueId before_relu = fixed.graph.node(fixed.graph.value(fixed.dx).producer).inputs[1];
    ValueId values[] = {fixed.active, fixed.pooled, fixed.index, fixed.dx, before_relu};
    fixed.graph.value(values[which]).layout = Layout{S(0)};
    EXPECT_FALSE(fixed.fires()) << which;
  }
}

TEST(Canonicalise, ReluMovesAfterMaxPoolingWithoutGradientsToo) {
  Program p;
  auto pool = build::max_pool(p.b, build::relu(p.b, p.input("x", {DType::f64, {1, 1, 4, 4}})));
  p.output(pool.value);
  Graph g = p.canonical();
  ASSERT_EQ(g.nodes.size(), 3u);
  EXPECT_EQ(g.nodes[NodeId(1)].op->name, "max_pool");
  EXPECT_EQ(g.nodes[NodeId(2)].op->name, "relu");
}

TEST(Canonicalise, RandomGraphsKeepTheirMeaning) {
  const char* given = std::getenv("KAREZ_SEED");
  std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 20240607;
  RecordProperty("seed", std::to_string(seed));
  int shrunk = 0;
  for (std::uint64_t round = 0; round < 400; ++round) {
    std::mt19937_64 random(seed + round);
    auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    Program p;
    const Shape shape = {2, 3};
    std::vector<ValueId> pool;  // all of one shape
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
    auto before = testing::meaning_of(p.graph);
    Graph g = p.canonical();
    ASSERT_LT(testing::difference(before, testing::meaning_of(g)), 1e-12) << "KAREZ_SEED=" << seed + round << "\n"
                                                                          << print(p.graph) << print(g);
    shrunk += g.nodes.size() < p.graph.nodes.size();
  }
  EXPECT_GT(shrunk, 300);
}

}  // namespace
}  // namespace karez::passes
