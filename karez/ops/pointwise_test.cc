// Tests of the pointwise table: gradients and linear groups agree numerically with the expression of the row.
#include "karez/ops/pointwise.h"
#include "karez/base/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

namespace karez::ops {
namespace {

unsigned seed() {
  const char* text = std::getenv("KAREZ_SEED");
  unsigned value = text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : 20240501u;
  std::cout << "seed " << value << " (KAREZ_SEED)\n";
  return value;
}

double at(const std::string& expr, const std::vector<double>& values) {
  return evaluate<double>(parse_expr(expr), std::span<const double>(values));
}

// Returns whether an operand is a bool: the condition of a select, or an operand of &&, || or !.
bool is_condition(const Pointwise& row, int operand) {
  return bool_operands(parse_expr(row.expr))[static_cast<std::size_t>(operand)];
}

TEST(Pointwise, ExpressionsAreCanonical) {
  for (const Pointwise& row : pointwise_rows()) {
    EXPECT_EQ(print(parse_expr(row.expr)), row.expr) << row.name;
    EXPECT_EQ(variable_count(parse_expr(row.expr)), row.operands) << row.name;
    if (row.has_function) { EXPECT_LE(row.operands, 2) << row.name << ": the function must be written by hand"; }
    EXPECT_EQ(pointwise_row(row.name), &row) << "two rows are called " << row.name;
  }
  EXPECT_EQ(pointwise_row("matmul"), nullptr);
}

// A gradient that is a product uses mul; the others are separate ops over the values that they read.
TEST(Pointwise, GradientsUseExistingRows) {
  auto grads = [](const char* name) {
    return join(pointwise_row(name)->grads, "; ", [](const PointwiseGradient& g) {
      return g.op.empty() ? "none" : cat(g.op, "(", join(g.operands, ", "), ")");
    });
  };
  EXPECT_EQ(grads("add"), "=(dy); =(dy)");
  EXPECT_EQ(grads("sub"), "=(dy); neg(dy)");
  EXPECT_EQ(grads("mul"), "mul(dy, y); mul(x, dy)");
  EXPECT_EQ(grads("div"), "div(dy, y); div_grad(dy, r, y)");
  EXPECT_EQ(grads("exp"), "mul(r, dy)");
  EXPECT_EQ(grads("log"), "div(dy, x)");
  EXPECT_EQ(grads("relu"), "relu_grad(r, dy)");
  EXPECT_EQ(grads("tanh"), "tanh_grad(r, dy)");
  EXPECT_EQ(grads("gelu"), "gelu_grad(x, dy)");
  EXPECT_EQ(grads("max"), "max_grad(x, y, dy); max_grad(y, x, dy)");
  EXPECT_EQ(grads("select"), "none; select_grad(x, dy); select_grad2(x, dy)");
  EXPECT_EQ(grads("stop_gradient"), "none");
  for (const Pointwise& row : pointwise_rows())
    for (const auto& grad : row.grads)
      EXPECT_TRUE(grad.op.empty() || grad.op == "=" || pointwise_row(grad.op) != nullptr)
          << row.name << " requires " << grad.op;
}

TEST(Pointwise, GradientsAreDerivatives) {
  std::mt19937 random(seed());
  std::uniform_real_distribution<double> positive(0.3, 2.0), any(-2.0, 2.0);
  int compared = 0;
  for (const Pointwise& row : pointwise_rows()) {
    if (row.grads.empty() || row.name == "stop_gradient") continue;
    for (int round = 0; round < 50; ++round) {
      std::vector<double> x;
      for (int i = 0; i < row.operands; ++i)
        x.push_back(is_condition(row, i) ? random() % 2 : row.positive ? positive(random) : any(random));
      double dy = any(random), r = at(row.expr, x);
      for (std::size_t i = 0; i < row.grads.size(); ++i) {
        const PointwiseGradient& grad = row.grads[i];
        if (grad.op.empty()) continue;
        std::vector<double> operands;
        for (const auto& name : grad.operands)
          operands.push_back(name == "dy" ? dy : name == "r" ? r : x[static_cast<std::size_t>(name[0] - 'x')]);
        double gradient = grad.op == "=" ? dy : at(pointwise_row(grad.op)->expr, operands);
        const double h = 1e-6;
        auto above = x, below = x;
        above[i] += h, below[i] -= h;
        double expected = dy * (at(row.expr, above) - at(row.expr, below)) / (2 * h);
        EXPECT_NEAR(gradient, expected, 1e-6 * (1 + std::abs(expected)))
            << row.name << " operand " << i << " at " << join(x, ", ");
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 1000);
}

TEST(Pointwise, GradientsAtCornersAreAsDocumented) {
  EXPECT_EQ(at(pointwise_row("relu_grad")->expr, {0, 5}), 0);
  EXPECT_EQ(at(pointwise_row("relu_grad")->expr, {0, INFINITY}), 0) << "0 * inf must not be computed";
  EXPECT_EQ(at(pointwise_row("abs_grad")->expr, {0, 5}), 0);
  EXPECT_EQ(at(pointwise_row("max_grad")->expr, {1, 1, 4}), 2) << "equal operands share the gradient";
  const double nan = std::nan("");
  EXPECT_EQ(at(pointwise_row("relu_grad")->expr, {nan, 5}), 5) << "a NaN passes the gradient, as in PyTorch";
  for (const char* op : {"max_grad", "min_grad"}) {
    EXPECT_EQ(at(pointwise_row(op)->expr, {nan, 1, 4}), 4) << "if one operand is NaN, both get the full gradient";
    EXPECT_EQ(at(pointwise_row(op)->expr, {1, nan, 4}), 4);
  }
  EXPECT_EQ(at(pointwise_row("min_grad")->expr, {1, 2, 4}), 4);
  EXPECT_EQ(at(pointwise_row("min_grad")->expr, {2, 1, 4}), 0);
  EXPECT_EQ(at(pointwise_row("pow_grad")->expr, {0, 0, 1}), 0) << "pow(x, 0) is constant; the operands are y, x, dy";
  EXPECT_EQ(at(pointwise_row("pow_grad2")->expr, {0, 0, 3}), 0) << "0 to any power is constant in the power";
}

// Values and gradients are finite if the exact results are finite.
TEST(Pointwise, LargeArgumentsGiveFiniteResults) {
  for (double x : {-HUGE_VAL, -1e300, -1e3, -88.0, -1e-6, -5e-324, 0.0, 5e-324, 1e-6, 88.0, 1e3, HUGE_VAL}) {
    for (const char* op : {"tanh", "sigmoid", "erf"})
      EXPECT_TRUE(std::abs(at(pointwise_row(op)->expr, {x})) <= 1) << op << " of " << x;
    for (const char* op : {"tanh", "sigmoid"}) {
      const double slope = at(pointwise_row(cat(op, "_grad"))->expr, {at(pointwise_row(op)->expr, {x}), 3});
      EXPECT_TRUE(slope >= 0 && slope <= 3) << op << " at " << x;
    }
    EXPECT_TRUE(at(pointwise_row("erf_grad")->expr, {x, 3}) >= 0) << x;
    for (const char* op : {"gelu", "gelu_tanh", "silu"}) {
      const double y = at(pointwise_row(op)->expr, {x}), slope = at(pointwise_row(cat(op, "_grad"))->expr, {x, 1});
      EXPECT_TRUE(x > 0 ? y <= x : y <= 0 && y > -0.3) << op << " of " << x << " is " << y;
      EXPECT_TRUE(slope > -0.2 && slope < 1.2) << "slope of " << op << " at " << x << " is " << slope;
    }
  }
  EXPECT_NEAR(at(pointwise_row("gelu")->expr, {-10}) / -7.61985302416052606597e-23, 1, 1e-13);
}

std::string groups(const char* expr) {
  return join(linear_groups(parse_expr(expr)), " ", [](const auto& g) { return cat("{", join(g, ","), "}"); });
}

TEST(LinearGroups, LinearGroupsAreDerivedFromTheFormOfTheExpression) {
  EXPECT_EQ(groups("x0 + x1"), "{0,1}");
  EXPECT_EQ(groups("x0 * x1"), "{0} {1}");
  EXPECT_EQ(groups("x0 / x1"), "{0}");
  EXPECT_EQ(groups("select(x0, x1, x2)"), "{1,2}");
  EXPECT_EQ(groups("x0 * x1 + x2"), "{0,2} {1,2}");
  EXPECT_EQ(groups("-(x0 - 2 * x1) / x2"), "{0,1}");
  EXPECT_EQ(groups("select(x0 > 0, x1, 0)"), "{1}");
  EXPECT_EQ(groups("x0 + 1"), "");
  EXPECT_EQ(groups("max(x0, x1)"), "");
  EXPECT_EQ(groups("select(x0 > 0, x1, 1)"), "");
  EXPECT_EQ(groups("x0 * x0"), "");
  EXPECT_EQ(groups("1 / x0"), "");
}

// Checks f(a + b) = f(a) + f(b) numerically for every group of every row.
TEST(LinearGroups, ExpressionsAreLinearInTheirGroups) {
  std::mt19937 random(seed());
  std::uniform_real_distribution<double> positive(0.3, 2.0), any(-2.0, 2.0);
  int compared = 0;
  for (const Pointwise& row : pointwise_rows())
    for (const auto& group : linear_groups(parse_expr(row.expr)))
      for (int round = 0; round < 20; ++round, ++compared) {
        std::vector<double> a;
        for (int i = 0; i < row.operands; ++i)
          a.push_back(is_condition(row, i) ? random() % 2 : row.positive ? positive(random) : any(random));
        auto b = a, both = a;
        for (int i : group) {
          b[static_cast<std::size_t>(i)] = any(random);
          both[static_cast<std::size_t>(i)] = a[static_cast<std::size_t>(i)] + b[static_cast<std::size_t>(i)];
        }
        double of_sum = at(row.expr, both), sum_of_parts = at(row.expr, a) + at(row.expr, b);
        EXPECT_NEAR(of_sum, sum_of_parts, 1e-9 * (1 + std::abs(of_sum)))
            << row.name << " in {" << join(group, ",") << "}";
      }
  EXPECT_GT(compared, 300);
}

}  // namespace
}  // namespace karez::ops
