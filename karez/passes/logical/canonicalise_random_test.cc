// Tests that ten thousand random programs give the same results before and after canonicalise, and that every rule is
// applied at least a hundred times.
#include <gtest/gtest.h>

#include <cstdlib>

#include "karez/passes/logical/algebra/rules.h"
#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

const Shape shape = {2, 3};

// Evaluates the f64 calls that are folded in the programs below: pointwise calls, sums, padding, and concatenation of
// one operand.
std::vector<HostBytes> evaluate_calls(const CallSpec& call, const std::vector<HostBytes>& in) {
  require(call.out[0].dtype == DType::f64, "the test does not evaluate ", print(call));
  std::vector<testing::Array> arrays;
  for (std::size_t i = 0; i < in.size(); ++i) {
    arrays.push_back({call.in[i].shape, std::vector<double>(in[i].size() / 8)});
    std::memcpy(arrays.back().data.data(), in[i].data(), in[i].size());
  }
  testing::Array out;
  if (call.op == "pointwise") out = testing::run_pointwise(call.attrs.text("expr"), arrays);
  else if (call.op == "pad") out = testing::run_pad(arrays[0], call.out[0].shape, call.attrs);
  else if (call.op == "concat") out = testing::concat_arrays(arrays, call.out[0].shape, call.attrs);
  else if (call.op == "matmul") out = testing::run_matmul(arrays[0], arrays[1], call.out[0].shape, call.attrs);
  else if (call.op == "reduce_sum")
    out = testing::run_reduction(arrays[0], call.out[0].shape, call.attrs.ints("axes"), 0,
                                 [](double a, double b) { return a + b; });
  else fail("the test does not evaluate ", print(call));
  HostBytes bytes(out.data.size() * 8);
  std::memcpy(bytes.data(), out.data.data(), bytes.size());
  return {bytes};
}

class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : random_(seed) {
    graph.meshes = {Mesh::parse("data=2")};
    for (const char* name : {"x", "y"}) pool_.push_back(build::input(b_, name, {DType::f64, shape}));
    pool_.push_back(testing::parameter(b_, "w", {DType::f64, shape}));
    for (double number : {0.0, -0.0, 1.0, 0.5}) pool_.push_back(build::full(b_, DType::f64, shape, number));
    for (int step = 0; step < 14; ++step) pool_.push_back(maybe_fix_layout(random_op(any_value(), any_value())));
    if (random_below(4) == 0) add_pooling();
    if (random_below(8) == 0) add_shared_terms();
    for (int k = 0; k < 2; ++k) graph.outputs.push_back({cat("y", k), pool_[pool_.size() - 1 - random_below(4)]});
    for (int k = 0; k < 4; ++k) graph.outputs.push_back({cat("any", k), any_value()});
    if (random_below(2)) graph.variables[0].updated = any_value();
  }
  Graph graph;

 private:
  std::size_t random_below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  ValueId any_value() { return pool_[random_below(pool_.size())]; }
  ValueId maybe_fix_layout(ValueId value) {
    if (random_below(12) == 0) graph.value(value).layout = Layout{B()};
    return value;
  }

  ValueId random_op(ValueId x, ValueId y) {
    switch (random_below(23)) {
      case 0:
      case 1: return build::add(b_, x, y);
      case 2: return build::add(b_, maybe_fix_layout(build::add(b_, x, y)), any_value());
      case 3: return build::mul(b_, x, y);
      case 4: return build::mul(b_, maybe_fix_layout(build::mul(b_, x, y)), any_value());
      case 5: return build::sub(b_, x, y);
      case 6: return build::neg(b_, x);
      case 7: return build::neg(b_, maybe_fix_layout(build::neg(b_, x)));
      case 8: return build::max(b_, x, y);
      case 9: return build::tanh(b_, x);
      case 10: return build::broadcast(b_, build::reduce_sum(b_, x, {0}), shape, {1});
      case 11: return build::transpose(b_, build::transpose(b_, x, {0, 1}), {0, 1});
      case 12: return build::div(b_, x, build::full(b_, DType::f64, shape, random_below(2) ? 1 : 4));
      case 13: return build::stop_gradient(b_, x);
      case 14: return build::concat(b_, std::vector{x}, 0);
      case 15:
        return random_below(2) ? b_.one("reshape", {x}, Attrs().set("shape", shape))
                               : build::pad(b_, build::slice(b_, x, {0, 1}, {2, 2}), {0, 1}, {0, 0});
      case 16: return build::slice(b_, x, {0, 0}, shape);
      case 17: return build::reshape(b_, maybe_fix_layout(build::reshape(b_, x, {6})), shape);
      case 18: return build::transpose(b_, maybe_fix_layout(build::transpose(b_, x, {1, 0})), {1, 0});
      case 19:
        return build::slice(b_, build::concat(b_, std::vector{x, build::neg(b_, x), x}, 0),
                            {static_cast<std::int64_t>(random_below(5)), 0}, shape);
      case 20: {
        const ValueId half = build::input(b_, cat("half", pool_.size()), {DType::f16, shape});
        return build::cast(b_, maybe_fix_layout(build::cast(b_, half, DType::f32)), DType::f64);
      }
      case 21: {
        const ValueId index = build::input(b_, cat("index", pool_.size()), {DType::i64, {2}});
        return build::cast(b_, maybe_fix_layout(build::one_hot(b_, index, 3, DType::i64)), DType::f64);
      }
      default:
        return build::matmul(b_,
                             build::matmul(b_, x, maybe_fix_layout(build::transpose(b_, build::tanh(b_, y), {1, 0}))),
                             build::tanh(b_, x));
    }
  }

  // Adds the outputs (x + z) + y and (w + y) + x.
  void add_shared_terms() {
    const ValueId x = any_value(), y = any_value();
    for (const ValueId first : {x, y}) {
      const ValueId sum = build::add(b_, maybe_fix_layout(build::add(b_, first, any_value())), first == x ? y : x);
      graph.outputs.push_back({cat("sum", graph.outputs.size()), sum});
    }
  }

  // Adds the bias of a convolution, a ReLU, pooling, and the gradient of the bias.
  void add_pooling() {
    ValueId bias = build::input(b_, "bias", {DType::f64, {2}}),
            image = build::input(b_, "image", {DType::f64, {1, 2, 4, 4}});
    ValueId sum = build::add(b_, image, build::broadcast(b_, bias, {1, 2, 4, 4}, {1}));
    auto pool = build::max_pool(b_, maybe_fix_layout(build::relu(b_, sum)));
    ValueId loss = build::sum(b_, build::mul(b_, pool.value, build::input(b_, "weights", {DType::f64, {1, 2, 2, 2}})));
    graph.outputs.push_back({"loss", loss});
    graph.outputs.push_back({"dbias", gradient(b_, loss, std::vector{bias})[0]});
  }

  Builder b_{graph, table()};
  std::mt19937_64 random_;
  std::vector<ValueId> pool_;  // values of the same shape
};

int count_fixed_layouts(const Graph& graph) {
  int count = 0;
  for (const Value& value : graph.values) count += value.layout.has_value();
  return count;
}

TEST(Canonicalise, TenThousandRandomProgramsGiveTheSameResultsAndEveryRuleIsApplied) {
  const char* given_seed = std::getenv("KAREZ_SEED");
  std::uint64_t seed = given_seed ? std::strtoull(given_seed, nullptr, 10) : 20250311;
  RecordProperty("seed", std::to_string(seed));
  RuleCounts total;
  for (std::uint64_t round = 0; round < 10000; ++round) {
    RandomProgram program(seed + round);
    CanonicalGraph result = canonicalise(program.graph, {&table(), evaluate_calls, 4096});
    auto results_before = testing::evaluate_graph(program.graph), results_after = testing::evaluate_graph(result.graph);
    double tolerance = 0;  // reordered sums differ by rounding, relative to the largest intermediate result
    if (result.rule_counts["reassociate_shared_terms"] > 0 || result.rule_counts["pooled_gradient_sum"] > 0) {
      double largest = 1;
      for (const testing::Array& array : testing::run_graph(program.graph, testing::random_array))
        for (double number : array.data) largest = std::max(largest, std::abs(number));
      tolerance = 1e-12 * largest * largest;
    }
    for (const auto& [name, expected] : results_before) {
      const auto& actual = results_after.at(name);
      for (std::size_t i = 0; i < expected.data.size(); ++i) {
        double expected_number = expected.data[i], actual_number = actual.data[i];
        // The maximum of 0 and -0 may be either of the two, so the numbers are compared with == and not bit by bit.
        bool is_equal = expected_number == actual_number ||
                        (std::isnan(expected_number) && std::isnan(actual_number)) ||
                        std::abs(expected_number - actual_number) <= tolerance;
        ASSERT_TRUE(is_equal) << name << " was " << expected_number << " before canonicalise and is " << actual_number
                              << " after it; KAREZ_SEED=" << seed + round << "\n"
                              << print(program.graph) << print(result.graph);
      }
    }
    Graph live_graph = program.graph;
    remove_dead(live_graph);
    ASSERT_EQ(count_fixed_layouts(live_graph), count_fixed_layouts(result.graph))
        << "a layout that the user fixed was lost; KAREZ_SEED=" << seed + round << "\n"
        << print(live_graph) << print(result.graph);
    for (const auto& [rule, times] : result.rule_counts) total[rule] += times;
  }
  for (const AlgebraRule& rule : algebra_rules()) EXPECT_GE(total[rule.name], 100) << rule.name;
  for (const char* step :
       {"fold_constants", "reassociate_shared_terms", "eliminate_common_subexpressions", "remove_dead"})
    EXPECT_GE(total[step], 100) << step;
  std::string counts = cat("seed ", seed, ":");
  for (const auto& [rule, times] : total) counts += cat(" ", rule, " ", times);
  std::printf("%s\n", counts.c_str());
}

}  // namespace
}  // namespace karez::passes
