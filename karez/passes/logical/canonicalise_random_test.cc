// Tests that ten thousand random programs mean the same before and after canonicalise, and that every rule is applied
// at least a hundred times.
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

// Evaluates the calls that the programs below fold: pointwise calls, sums, padding and concatenation of one operand,
// all on f64.
std::vector<HostBytes> evaluate_calls(const CallSpec& call, const std::vector<HostBytes>& in) {
  require(call.out[0].dtype == DType::f64, "the test does not evaluate ", print(call));
  std::vector<testing::Array> arrays;
  for (std::size_t i = 0; i < in.size(); ++i) {
    arrays.push_back({call.in[i].shape, std::vector<double>(in[i].size() / 8)});
    std::memcpy(arrays.back().data.data(), in[i].data(), in[i].size());
  }
  testing::Array out;
  if (call.op == "pointwise") out = testing::pointwise_of(call.attrs.text("expr"), arrays);
  else if (call.op == "pad") out = testing::padded(arrays[0], call.out[0].shape, call.attrs);
  else if (call.op == "concat" && in.size() == 1) out = arrays[0];
  else if (call.op == "reduce_sum")
    out = testing::reduced(arrays[0], call.out[0].shape, call.attrs.ints("axes"), 0,
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
    for (int step = 0; step < 14; ++step) pool_.push_back(maybe_pinned(step_of(any(), any())));
    if (below(4) == 0) pooled();
    for (int k = 0; k < 2; ++k) graph.outputs.push_back({cat("y", k), pool_[pool_.size() - 1 - below(4)]});
    graph.outputs.push_back({"any", any()});
    if (below(2)) graph.variables[0].updated = any();
  }
  Graph graph;

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  ValueId any() { return pool_[below(pool_.size())]; }
  ValueId maybe_pinned(ValueId value) {
    if (below(12) == 0) graph.value(value).layout = Layout{B()};
    return value;
  }

  ValueId step_of(ValueId x, ValueId y) {
    switch (below(17)) {
      case 0:
      case 1: return build::add(b_, x, y);
      case 2: return build::add(b_, maybe_pinned(build::add(b_, x, y)), any());
      case 3: return build::mul(b_, x, y);
      case 4: return build::mul(b_, maybe_pinned(build::mul(b_, x, y)), any());
      case 5: return build::sub(b_, x, y);
      case 6: return build::neg(b_, x);
      case 7: return build::neg(b_, maybe_pinned(build::neg(b_, x)));
      case 8: return build::max(b_, x, y);
      case 9: return build::tanh(b_, x);
      case 10: return build::broadcast(b_, build::reduce_sum(b_, x, {0}), shape, {1});
      case 11: return build::transpose(b_, build::transpose(b_, x, {0, 1}), {0, 1});
      case 12: return build::div(b_, x, build::full(b_, DType::f64, shape, below(2) ? 1 : 4));
      case 13: return build::stop_gradient(b_, x);
      case 14: return build::concat(b_, std::vector{x}, 0);
      case 15:
        return below(2) ? b_.one("reshape", {x}, Attrs().set("shape", shape))
                        : build::pad(b_, build::slice(b_, x, {0, 1}, {2, 2}), {0, 1}, {0, 0});
      default: return build::slice(b_, x, {0, 0}, shape);
    }
  }

  // A convolution's bias, its ReLU, pooling, and the gradient of the bias.
  void pooled() {
    ValueId bias = build::input(b_, "bias", {DType::f64, {2}}),
            image = build::input(b_, "image", {DType::f64, {1, 2, 4, 4}});
    ValueId sum = build::add(b_, image, build::broadcast(b_, bias, {1, 2, 4, 4}, {1}));
    auto pool = build::max_pool(b_, maybe_pinned(build::relu(b_, sum)));
    ValueId loss = build::sum(b_, build::mul(b_, pool.value, build::input(b_, "weights", {DType::f64, {1, 2, 2, 2}})));
    graph.outputs.push_back({"loss", loss});
    graph.outputs.push_back({"dbias", gradient(b_, loss, std::vector{bias})[0]});
  }

  Builder b_{graph, table()};
  std::mt19937_64 random_;
  std::vector<ValueId> pool_;  // all of one shape
};

int pinned_in(const Graph& graph) {
  int count = 0;
  for (const Value& value : graph.values) count += value.layout.has_value();
  return count;
}

TEST(Canonicalise, TenThousandRandomProgramsKeepTheirMeaningAndEveryRuleIsApplied) {
  const char* given = std::getenv("KAREZ_SEED");
  std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 20250311;
  RecordProperty("seed", std::to_string(seed));
  RuleCounts total;
  for (std::uint64_t round = 0; round < 10000; ++round) {
    RandomProgram program(seed + round);
    CanonicalGraph done = canonicalise(program.graph, {&table(), evaluate_calls, 4096});
    auto before = testing::meaning_of(program.graph), after = testing::meaning_of(done.graph);
    double near = 0;  // reordered sums and products differ by rounding, relative to the largest intermediate numbers
    if (done.rule_counts["reassociate_shared_terms"] > 0 || done.rule_counts["pooled_gradient_sum"] > 0) {
      double largest = 1;
      for (const testing::Array& array : testing::run_graph(program.graph, testing::drawn))
        for (double number : array.data) largest = std::max(largest, std::abs(number));
      near = 1e-12 * largest * largest;
    }
    for (const auto& [name, was] : before) {
      const auto& is = after.at(name);
      for (std::size_t i = 0; i < was.data.size(); ++i) {
        double a = was.data[i], b = is.data[i];
        // The maximum of 0 and -0 may be either zero, so this compares by == and not by bits.
        bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= near;
        ASSERT_TRUE(same) << name << " was " << a << " and is " << b << "; KAREZ_SEED=" << seed + round << "\n"
                          << print(program.graph) << print(done.graph);
      }
    }
    Graph live = program.graph;
    remove_dead(live);
    ASSERT_EQ(pinned_in(live), pinned_in(done.graph))
        << "a layout that the user fixed was lost; KAREZ_SEED=" << seed + round << "\n"
        << print(live) << print(done.graph);
    for (const auto& [rule, times] : done.rule_counts) total[rule] += times;
  }
  for (const AlgebraRule& rule : algebra_rules()) EXPECT_GE(total[rule.name], 100) << rule.name;
  for (const char* part :
       {"fold_constants", "reassociate_shared_terms", "eliminate_common_subexpressions", "remove_dead"})
    EXPECT_GE(total[part], 100) << part;
  std::string counts = cat("seed ", seed, ":");
  for (const auto& [rule, times] : total) counts += cat(" ", rule, " ", times);
  std::printf("%s\n", counts.c_str());
}

}  // namespace
}  // namespace karez::passes
