// Tests that each rewrite rule is applied, keeps every bit of the results for special numbers, and never bypasses a
// value whose layout the user fixed.
#include "karez/passes/logical/algebra/rules.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

const TensorType grid{DType::f64, {6, 8}};
const TensorType image{DType::f64, {1, 2, 6, 6}};

// Evaluates pointwise calls on f64, which is sufficient for folding here.
std::vector<HostBytes> evaluate_pointwise(const CallSpec& call, const std::vector<HostBytes>& in) {
  require(call.op == "pointwise" && call.out[0].dtype == DType::f64, "the test does not evaluate ", print(call));
  std::vector<testing::Array> arrays;
  for (const HostBytes& bytes : in) {
    arrays.push_back({call.out[0].shape, std::vector<double>(bytes.size() / 8)});
    std::memcpy(arrays.back().data.data(), bytes.data(), bytes.size());
  }
  testing::Array out = testing::run_pointwise(call.attrs.text("expr"), arrays);
  HostBytes bytes(out.data.size() * 8);
  std::memcpy(bytes.data(), out.data.data(), bytes.size());
  return {bytes};
}

struct Program {
  Graph graph;
  Builder b{graph, table()};
  ValueId x, y;
  std::vector<ValueId> bypassed;  // values that the rule bypasses; it does not apply if one of them has a fixed layout
  Program() {
    graph.meshes = {Mesh::parse("data=2")};
    x = build::input(b, "x", grid), y = build::input(b, "y", grid);
  }
  ValueId splat(double value) { return build::full_like(b, x, value); }
  void output(ValueId value) { graph.outputs.push_back({cat("out", graph.outputs.size()), value}); }
  // Adds an output whose node is removed by a rule.
  void output_removed(ValueId value) {
    output(value);
    bypassed.push_back(value);
  }
  void fix_layout(ValueId value) { graph.value(value).layout = Layout{B()}; }
  CanonicalGraph canonical() const { return canonicalise(graph, {&table(), evaluate_pointwise, 4096, reassociate}); }
  bool reassociate = false;
};

// Adds a splat, and the constant that it shows, to the bypassed values.
void add_bypassed_splat(Program& p, ValueId splat) {
  p.bypassed.push_back(splat);
  const Node& node = p.graph.node(p.graph.value(splat).producer);
  if (!node.inputs.empty()) p.bypassed.push_back(node.inputs[0]);
}

struct Case {
  const char* rule;
  const char* what;
  std::function<void(Program&)> make;
  bool reorders_sums = false;  // results are equal only up to rounding, but NaN and infinities agree
};

const std::vector<Case>& cases() {
  using namespace build;
  static const std::vector<Case> list = {
      {"stop_gradient", "", [](Program& p) { p.output_removed(build::stop_gradient(p.b, p.x)); }},
      {"same_type", "reshape",
       [](Program& p) { p.output_removed(p.b.one("reshape", {p.x}, Attrs().set("shape", grid.shape))); }},
      {"same_type", "broadcast",
       [](Program& p) {
         p.output_removed(p.b.one("broadcast", {p.x}, Attrs().set("shape", grid.shape).set("dims", Ints{0, 1})));
       }},
      {"same_type", "slice",
       [](Program& p) {
         p.output_removed(slice(p.b, p.x, {0, 0}, grid.shape));
       }},
      {"same_type", "pad",
       [](Program& p) {
         p.output_removed(pad(p.b, p.x, {0, 0}, {0, 0}, 7));
       }},
      {"same_order", "",
       [](Program& p) {
         p.output_removed(transpose(p.b, p.x, {0, 1}));
       }},
      {"one_part", "", [](Program& p) { p.output_removed(concat(p.b, std::vector{p.x}, 1)); }},
      {"add_zero", "x + -0",
       [](Program& p) {
         ValueId zero = p.splat(-0.0);
         p.output_removed(add(p.b, p.x, zero)), add_bypassed_splat(p, zero);
       }},
      {"add_zero", "-0 + x",
       [](Program& p) {
         ValueId zero = p.splat(-0.0);
         p.output_removed(add(p.b, zero, p.x)), add_bypassed_splat(p, zero);
       }},
      {"add_zero", "x - 0",
       [](Program& p) {
         ValueId zero = p.splat(0);
         p.output_removed(sub(p.b, p.x, zero)), add_bypassed_splat(p, zero);
       }},
      {"multiply_by_one", "x * 1",
       [](Program& p) {
         ValueId one = p.splat(1);
         p.output_removed(mul(p.b, p.x, one)), add_bypassed_splat(p, one);
       }},
      {"multiply_by_one", "1 * x",
       [](Program& p) {
         ValueId one = p.splat(1);
         p.output_removed(mul(p.b, one, p.x)), add_bypassed_splat(p, one);
       }},
      {"multiply_by_one", "x / 1",
       [](Program& p) {
         ValueId one = p.splat(1);
         p.output_removed(div(p.b, p.x, one)), add_bypassed_splat(p, one);
       }},
      {"double_negation", "",
       [](Program& p) {
         ValueId inner = neg(p.b, p.x);
         p.output_removed(neg(p.b, inner)), p.bypassed.push_back(inner);
       }},
      {"transpose_of_transpose", "",
       [](Program& p) {
         ValueId cube = reshape(p.b, p.x, {2, 3, 8}), inner = transpose(p.b, cube, {2, 0, 1});
         p.output(transpose(p.b, inner, {1, 0, 2})), p.bypassed.push_back(inner);
       }},
      {"reshape_of_reshape", "",
       [](Program& p) {
         ValueId inner = reshape(p.b, p.x, {2, 24});
         p.output(reshape(p.b, inner, {3, 16})), p.bypassed.push_back(inner);
       }},
      {"slice_of_concat", "the second part",
       [](Program& p) {
         ValueId both = concat(p.b, std::vector{p.x, p.y}, 1);
         p.output(slice(p.b, both, {1, 9}, {2, 5})), p.bypassed.push_back(both);
       }},
      {"cast_of_cast", "to a third type",
       [](Program& p) {
         ValueId half = input(p.b, "half", {DType::bf16, grid.shape}), wide = cast(p.b, half, DType::f32);
         p.output(cast(p.b, wide, DType::f64)), p.bypassed.push_back(wide);
       }},
      {"cast_of_cast", "back",
       [](Program& p) {
         ValueId single = input(p.b, "single", {DType::f32, grid.shape}), wide = cast(p.b, single, DType::f64);
         p.output_removed(cast(p.b, wide, DType::f32)), p.bypassed.push_back(wide);
       }},
      {"cast_of_one_hot", "from integers",
       [](Program& p) {
         ValueId ones = one_hot(p.b, input(p.b, "index", {DType::i64, {6}}), 3, DType::i64);
         p.output_removed(cast(p.b, ones, DType::f64)), p.bypassed.push_back(ones);
       }},
      {"transposed_factor", "a",
       [](Program& p) {
         ValueId inner = transpose(p.b, p.x, {1, 0});
         p.output(matmul(p.b, inner, p.y)), p.bypassed.push_back(inner);
       }},
      {"transposed_factor", "b",
       [](Program& p) {
         ValueId inner = transpose(p.b, p.y, {1, 0});
         p.output(matmul(p.b, p.x, inner)), p.bypassed.push_back(inner);
       }},
      {"transposed_factor", "a with the flag",
       [](Program& p) {
         ValueId inner = transpose(p.b, p.x, {1, 0});
         p.output(matmul(p.b, inner, p.y, {.transpose_a = true, .transpose_b = true})), p.bypassed.push_back(inner);
       }},
      {"pooled_gradient_sum", "",
       [](Program& p) {
         PoolOptions options;
         auto pool = max_pool(p.b, input(p.b, "image", image), options);
         ValueId dy = input(p.b, "dy", p.graph.type(pool.value));
         ValueId dx = max_pool_grad(p.b, dy, pool.index, options, image.shape);
         p.output(reduce_sum(p.b, dx, {0, 2, 3})), p.output(pool.value);
         p.bypassed.push_back(dx);
       },
       true},
      {"pool_before_relu", "",
       [](Program& p) {
         PoolOptions options{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};  // windows overlap
         ValueId before = input(p.b, "image", image), active = relu(p.b, before);
         auto pool = max_pool(p.b, active, options);
         ValueId dy = input(p.b, "dy", p.graph.type(pool.value));
         ValueId dpool = max_pool_grad(p.b, dy, pool.index, options, image.shape);
         ValueId dx = p.b.one("relu_grad", {active, dpool});
         p.output(pool.value), p.output(dx);
         p.bypassed = {active, pool.value, pool.index, dpool, dx};
       }},
      {"fold_constants", "data",
       [](Program& p) {
         std::vector<double> numbers = testing::special_numbers();
         ValueId data = constant(p.b, {DType::f64, {static_cast<std::int64_t>(numbers.size())}},
                                 std::as_bytes(std::span(numbers)));
         ValueId folded = exp(p.b, data);
         p.output(folded);
         p.bypassed = {data, folded};
       }},
      {"reassociate_shared_terms", "sums",
       [](Program& p) {
         ValueId z = input(p.b, "z", grid), w = input(p.b, "w", grid), first = add(p.b, p.x, p.y),
                 second = add(p.b, w, p.y);
         p.output(add(p.b, first, z)), p.output(add(p.b, second, p.x));
         p.bypassed = {first, second};
       },
       true},
      {"reassociate_shared_terms", "products",
       [](Program& p) {
         p.reassociate = true;
         ValueId z = input(p.b, "z", grid), w = input(p.b, "w", grid), first = mul(p.b, p.x, p.y),
                 second = mul(p.b, w, p.y);
         p.output(mul(p.b, first, z)), p.output(mul(p.b, second, p.x));
         p.bypassed = {first, second};
       },
       true},
      {"eliminate_common_subexpressions", "",
       [](Program& p) {
         ValueId first = mul(p.b, p.x, p.y), second = mul(p.b, p.y, p.x);
         p.output(neg(p.b, first)), p.output(exp(p.b, second));
         p.bypassed = {second};
       }},
  };
  return list;
}

TEST(Rules, EveryRuleOfTheTableAppliesToATestCase) {
  for (const AlgebraRule& rule : algebra_rules()) {
    EXPECT_NE(rule.at_node == nullptr, rule.on_graph == nullptr) << rule.name;
    EXPECT_TRUE(std::any_of(cases().begin(), cases().end(), [&](const Case& c) {
      return c.rule == std::string(rule.name) && c.reorders_sums == rule.reorders_sums;
    })) << rule.name;
  }
  for (const Case& c : cases()) {
    Program p;
    c.make(p);
    EXPECT_GE(p.canonical().rule_counts[c.rule], 1) << c.rule << " " << c.what;
  }
}

// Each element is drawn from the special numbers, so that pairs and windows of special numbers occur too.
TEST(Rules, RulesKeepEveryBitOfResultsForSpecialNumbers) {
  const char* given_seed = std::getenv("KAREZ_SEED");
  std::uint64_t seed = given_seed ? std::strtoull(given_seed, nullptr, 10) : 7;
  for (const Case& c : cases()) {
    Program p;
    c.make(p);
    Graph after = p.canonical().graph;
    for (std::uint64_t round = 0; round < 60; ++round) {
      auto fill = [&](const std::string& name, const Shape& shape) {
        std::mt19937_64 random(std::hash<std::string>()(name) + seed + round);
        const auto& numbers = testing::special_numbers();
        return testing::make_array(shape, [&](const auto&) {
          double number = numbers[random() % numbers.size()];
          // If products and sums are regrouped, different intermediate results may overflow or underflow (1e308 + 1e308
          // - 1e308).
          while (c.reorders_sums && std::isfinite(number) && number != 0 &&
                 (std::abs(number) > 1e300 || std::abs(number) < 1e-300))
            number = numbers[random() % numbers.size()];
          return number;
        });
      };
      auto results_before = testing::evaluate_graph(p.graph, fill),
           results_after = testing::evaluate_graph(after, fill);
      ASSERT_EQ(results_before.size(), results_after.size());
      for (const auto& [name, expected] : results_before) {
        const auto& actual = results_after.at(name);
        ASSERT_EQ(expected.shape, actual.shape);
        for (std::size_t i = 0; i < expected.data.size(); ++i) {
          double expected_number = expected.data[i], actual_number = actual.data[i];
          bool is_close = std::isfinite(expected_number) && std::isfinite(actual_number) &&
                          std::abs(expected_number - actual_number) <= 1e-15 * std::max(std::abs(expected_number), 1e5);
          ASSERT_TRUE(testing::same_bits(expected_number, actual_number) || (c.reorders_sums && is_close))
              << c.rule << " " << c.what << ": " << name << "[" << i << "] was " << expected_number
              << " before canonicalise and is " << actual_number << " after it; KAREZ_SEED=" << seed << "\n"
              << print(p.graph) << print(after);
        }
      }
    }
  }
}

// (x z) y is finite although x y is not, so it must not share the factor x y with (w y) x.
TEST(Rules, ProductsAreRegroupedOnlyOnRequest) {
  for (const bool requested : {false, true}) {
    Program p;
    p.reassociate = requested;
    const ValueId z = build::input(p.b, "z", grid), w = build::input(p.b, "w", grid);
    p.output(build::mul(p.b, build::mul(p.b, p.x, z), p.y));
    p.output(build::mul(p.b, build::mul(p.b, w, p.y), p.x));
    CanonicalGraph result = p.canonical();
    EXPECT_EQ(result.rule_counts["reassociate_shared_terms"] > 0, requested);
    const auto fill = [](const std::string& name, const Shape& shape) {
      return testing::make_array(shape, [&](const auto&) { return name == "x" || name == "y" ? 1e200 : 1e-200; });
    };
    const auto results_before = testing::evaluate_graph(p.graph, fill),
               results_after = testing::evaluate_graph(result.graph, fill);
    for (const auto& [name, expected] : results_before) {
      ASSERT_TRUE(std::isfinite(expected.data[0])) << name;
      EXPECT_EQ(std::isfinite(results_after.at(name).data[0]), !requested) << name;
    }
  }
}

TEST(Rules, NoRuleBypassesAValueWhoseLayoutTheUserFixed) {
  for (const Case& c : cases()) {
    Program unfixed;
    c.make(unfixed);
    for (std::size_t k = 0; k < unfixed.bypassed.size(); ++k) {
      Program p;
      c.make(p);
      p.fix_layout(p.bypassed[k]);
      CanonicalGraph result = p.canonical();
      EXPECT_EQ(result.rule_counts[c.rule], 0)
          << c.rule << " " << c.what << " with a fixed layout of bypassed value " << k << "\n"
          << print(p.graph) << print(result.graph);
      int fixed_layouts = 0;
      for (const Value& value : result.graph.values) fixed_layouts += value.layout.has_value();
      EXPECT_EQ(fixed_layouts, 1) << c.rule << " " << c.what << " lost the fixed layout of bypassed value " << k << "\n"
                                  << print(result.graph);
    }
  }
}

TEST(Rules, ExpressionsThatOnlyResembleARuleAreNotChanged) {
  using namespace build;
  auto count_nodes = [](auto make) {
    Program p;
    p.output(make(p));
    return static_cast<int>(p.canonical().graph.nodes.size());
  };
  EXPECT_GT(count_nodes([](Program& p) { return add(p.b, p.x, p.splat(0)); }), 1) << "-0 + 0 is 0";
  EXPECT_GT(count_nodes([](Program& p) { return add(p.b, p.splat(0), p.x); }), 1);
  EXPECT_GT(count_nodes([](Program& p) { return sub(p.b, p.x, p.splat(-0.0)); }), 1) << "-0 - -0 is 0";
  EXPECT_GT(count_nodes([](Program& p) { return mul(p.b, p.x, p.splat(0)); }), 1) << "NaN times zero is NaN";
  EXPECT_GT(count_nodes([](Program& p) { return sub(p.b, p.x, p.x); }), 1) << "inf - inf is NaN";
  EXPECT_GT(count_nodes([](Program& p) { return div(p.b, p.x, p.x); }), 1) << "0 / 0 is NaN";
  EXPECT_GT(count_nodes([](Program& p) { return eq(p.b, p.x, p.x); }), 1) << "NaN is not NaN";
  EXPECT_GT(count_nodes([](Program& p) { return max(p.b, p.x, p.splat(-INFINITY)); }), 1);
  EXPECT_GT(count_nodes([](Program& p) { return div(p.b, p.splat(1), p.x); }), 1);
  EXPECT_GT(count_nodes([](Program& p) { return pow(p.b, p.x, p.splat(1)); }), 1);
  EXPECT_GT(count_nodes([](Program& p) { return neg(p.b, exp(p.b, neg(p.b, p.x))); }), 1);
  EXPECT_GT(count_nodes([](Program& p) { return reshape(p.b, p.x, {8, 6}); }), 1);
  EXPECT_GT(count_nodes([](Program& p) { return transpose(p.b, p.x, {1, 0}); }), 1);
  EXPECT_GT(count_nodes([](Program& p) { return pad(p.b, p.x, {0, 1}, {0, 0}); }), 1);
  EXPECT_GT(count_nodes([](Program& p) { return slice(p.b, p.x, {0, 1}, {6, 7}); }), 1);
  EXPECT_EQ(count_nodes([](Program& p) {
              return slice(p.b, concat(p.b, std::vector{p.x, p.y}, 1), {0, 7}, {6, 2});
            }),
            4)
      << "the slice has elements of both parts";
}

TEST(Rules, AdditionsOfAnyIntegerZeroAreRemoved) {
  Program p;
  ValueId n = build::input(p.b, "n", {DType::i32, {4}}), zero = build::full_like(p.b, n, 0);
  p.output(build::sub(p.b, build::add(p.b, zero, build::add(p.b, n, zero)), zero));
  CanonicalGraph result = p.canonical();
  EXPECT_EQ(result.rule_counts["add_zero"], 3);
  EXPECT_EQ(result.graph.nodes.size(), 1u);
}

TEST(Rules, ASumOverAxesOtherThanThePixelsIsNotReplaced) {
  for (Ints axes : {Ints{0, 2}, Ints{0, 3}, Ints{0, 1}}) {
    Program p;
    build::PoolOptions options;
    auto pool = build::max_pool(p.b, build::input(p.b, "image", image), options);
    ValueId dy = build::input(p.b, "dy", p.graph.type(pool.value));
    p.output(build::reduce_sum(p.b, build::max_pool_grad(p.b, dy, pool.index, options, image.shape), axes));
    EXPECT_EQ(p.canonical().rule_counts["pooled_gradient_sum"], 0);
  }
}

TEST(Rules, ConstantsThatDifferInOneBitAreNotMerged) {
  Program p;
  double number = 0.1, next = std::nextafter(0.1, 1.0);
  p.output(build::mul(p.b, p.x, p.splat(number))), p.output(build::mul(p.b, p.x, p.splat(next)));
  p.output(build::div(p.b, p.x, p.splat(0))), p.output(build::div(p.b, p.x, p.splat(-0.0)));
  EXPECT_EQ(testing::count_op(p.canonical().graph, "constant"), 4);
}

}  // namespace
}  // namespace karez::passes
