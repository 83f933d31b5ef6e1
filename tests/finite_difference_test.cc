// Compares gradients of sum(op(x) * random weights) with central differences in f64 for every differentiable op.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <set>

#include "karez/ops/gradient.h"
#include "tests/evaluate.h"
#include "tests/op_cases.h"

namespace karez::tests {
namespace {

// The program for a case of an op: a loss that weights every element of every float result, and its gradients.
struct Program {
  Graph forward;  // the graph up to the loss
  Graph full;     // the graph with the gradients
  ValueId loss;
  std::vector<std::size_t> operands;  // the f64 operands, which have a gradient
  std::vector<ValueId> gradients;
};

ValueId weighted_sum(Builder& b, std::span<const ValueId> results, std::mt19937_64& random) {
  ValueId loss;
  for (ValueId y : results) {
    const TensorType type = b.type(y);
    if (!is_float(type.dtype)) continue;
    HostArray weights(type);
    for (double& w : weights.data<double>()) w = static_cast<double>(random() % 2000) / 1000 - 1;
    const ValueId w =
        build::constant(b, type, std::span<const std::byte>(weights.bytes(), static_cast<std::size_t>(type.bytes())));
    Ints axes(type.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    const ValueId sum = build::reduce_sum(b, build::mul(b, y, w), axes);
    loss = loss.valid() ? build::add(b, loss, sum) : sum;
  }
  return loss;
}

Program program_of(const OpCase& c, const OpTable& ops, std::mt19937_64& random) {
  Program p;
  p.full = graph_of(c, ops);
  const std::vector<ValueId> results = p.full.nodes.back().outputs, inputs = p.full.nodes.back().inputs;
  Builder b(p.full, ops);
  p.loss = weighted_sum(b, results, random);
  if (!p.loss.valid()) return p;
  p.forward = p.full;
  std::vector<ValueId> wrt;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (c.in[i].dtype != DType::f64) continue;
    p.operands.push_back(i);
    wrt.push_back(inputs[i]);
  }
  p.gradients = gradient(b, p.loss, wrt);
  verify(p.full);
  return p;
}

double loss_of(const KernelTable& table, const Program& p, const std::map<std::string, HostArray>& feed) {
  return evaluate(table, p.forward, feed)[p.loss].data<double>()[0];
}

// Compares up to `max_elements` random elements of each operand. Returns the number of comparisons.
int check(const KernelTable& table, const OpCase& c, const Program& p, std::size_t max_elements,
          std::mt19937_64& random) {
  std::map<std::string, HostArray> feed;
  const auto inputs = random_inputs(c, random);
  for (std::size_t i = 0; i < inputs.size(); ++i) feed[cat(i)] = inputs[i];
  const auto values = evaluate(table, p.full, feed);
  int compared = 0;
  for (std::size_t k = 0; k < p.operands.size(); ++k) {
    const auto x = inputs[p.operands[k]].data<double>();
    const auto g = values[p.gradients[k]].data<double>();
    require(g.size() == x.size(), "the gradient of operand ", p.operands[k], " must have ", x.size(),
            " elements like the operand, got ", g.size());
    std::vector<std::size_t> elements(x.size());
    std::iota(elements.begin(), elements.end(), std::size_t{0});
    std::shuffle(elements.begin(), elements.end(), random);
    elements.resize(std::min(elements.size(), max_elements));
    for (std::size_t e : elements) {
      constexpr double step = 1e-5;
      const double at = x[e];
      x[e] = at + step;
      const double above = loss_of(table, p, feed);
      x[e] = at - step;
      const double below = loss_of(table, p, feed);
      x[e] = at;
      const double difference = (above - below) / (2 * step);
      require(std::abs(g[e] - difference) <= 1e-6 * std::max(1.0, std::abs(difference)), "operand ", p.operands[k],
              ", element ", e, " = ", at, ": the gradient is ", g[e], ", but the difference quotient is ", difference);
      ++compared;
    }
  }
  return compared;
}

// Returns the reason why this test does not compare the gradient of an op: the gradient is by definition not the
// derivative, or other tests compare it. Returns "" for other ops.
std::string reason_without_difference(const std::string& op) {
  if (op == "transfer") return "its operand is on another mesh; Placements.* and Pipelines.* train through it";
  if (op == "scan") return "a pass unrolls its region; karez/api/scan_test.cc compares it with difference quotients";
  return op == "stop_gradient" ? "it has no gradient" : "";
}

TEST(Gradient, TheGradientOfEveryDifferentiableOpEqualsItsCentralDifference) {
  const OpTable ops = all_ops();
  const KernelTable table(plain_kernels());
  const char* seed_text = std::getenv("KAREZ_SEED");
  const std::uint64_t seed = seed_text ? std::stoull(seed_text) : std::random_device()();
  std::cout << "KAREZ_SEED=" << seed << "\n";
  std::mt19937_64 random(seed);
  const std::size_t max_elements = std::getenv("KAREZ_ALL") != nullptr ? 1u << 20 : 12;

  std::set<std::string> covered;
  int compared = 0;
  for (const OpCase& c : op_cases()) {
    const OpDef& op = ops.at(c.op);
    if (!op.grad || !reason_without_difference(c.op).empty() || c.values == "t") continue;
    SCOPED_TRACE(cat("seed ", seed, ": ", print(c)));
    try {
      const Program p = program_of(c, ops, random);
      if (!p.loss.valid() || p.operands.empty()) continue;  // the case has only integers
      compared += check(table, c, p, max_elements, random);
      covered.insert(c.op);
    } catch (const Error& error) { ADD_FAILURE() << error.what(); }
  }
  int reasons = 0;
  for (const OpDef* op : ops.rows()) {
    EXPECT_NE(static_cast<bool>(op->grad), !op->no_grad.empty())
        << op->name << " must have either a gradient or a reason for having none";
    const bool is_excused = !op->grad || !reason_without_difference(op->name).empty();
    EXPECT_NE(covered.contains(op->name), is_excused)
        << op->name << " must have either a case or a reason for having none";
    reasons += !op->grad;
  }
  std::cout << "finite differences: " << covered.size() << " ops, " << compared << " elements; " << reasons
            << " ops state why they have no gradient\n";
}

TEST(Gradient, TheGradientOfStopGradientIsZero) {
  const OpTable ops = all_ops();
  std::mt19937_64 random(1);
  const OpCase c{"stop_gradient", {{DType::f64, {3}}}};
  const Program p = program_of(c, ops, random);
  const auto values = evaluate(KernelTable(plain_kernels()), p.full, {{"0", HostArray::of<double>({3}, {1, 2, 3})}});
  for (double g : values[p.gradients[0]].data<double>()) EXPECT_EQ(g, 0);
}

}  // namespace
}  // namespace karez::tests
