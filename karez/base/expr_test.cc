// Tests of scalar expressions.
#include "karez/base/expr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "karez/base/test_error.h"

namespace karez::base {
namespace {

using ::testing::HasSubstr;

double value_of(std::string_view text, std::vector<double> x = {}) { return evaluate<double>(parse_expr(text), x); }

// A random tree over x0..x2 whose values stay moderate; functions with poles get shifted operands.
Expr random_expr(std::mt19937_64& random, int depth, bool smooth) {
  auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  if (depth == 0 || pick(6) == 0) return pick(3) == 0 ? expr_constant((pick(9) - 4) * 0.5) : expr_variable(pick(3));
  auto next = [&] { return random_expr(random, depth - 1, smooth); };
  switch (int kind = pick(smooth ? 12 : 22)) {
    case 0: return expr_of(ExprKind::neg, next());
    case 1: return expr_of(ExprKind::tanh, next());
    case 2: return expr_of(ExprKind::sigmoid, next());
    case 3: return expr_of(ExprKind::erf, next());
    case 4: return expr_of(ExprKind::sin, next());
    case 5: return expr_of(ExprKind::cos, next());
    case 6: return expr_of(ExprKind::add, next(), next());
    case 7: return expr_of(ExprKind::sub, next(), next());
    case 8: return expr_of(ExprKind::mul, next(), next());
    case 9:
      return expr_of(ExprKind::log, expr_of(ExprKind::add, expr_constant(1.5), expr_of(ExprKind::sigmoid, next())));
    case 10:
      return expr_of(ExprKind::div, next(),
                     expr_of(ExprKind::add, expr_constant(1.5), expr_of(ExprKind::tanh, next())));
    case 11:
      return expr_of(ExprKind::pow, expr_of(ExprKind::exp, expr_of(ExprKind::sin, next())),
                     expr_of(ExprKind::tanh, next()));
    case 12: return expr_of(ExprKind::select, next(), next(), next());
    case 13: return expr_of(ExprKind::not_, next());
    default: {
      auto binary = static_cast<ExprKind>(static_cast<int>(ExprKind::lt) + (kind - 14) % 11);
      return expr_of(binary, next(), next());
    }
  }
}

std::uint64_t seed() {
  const char* text = std::getenv("KAREZ_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 20240;
}

TEST(Expr, FmodIsExactAndBitOperationsRejectFloats) {
  EXPECT_EQ(value_of("fmod(x, y)", {1e30, 3}), std::fmod(1e30, 3.0));
  EXPECT_EQ(value_of("fmod(x, y)", {1, 0.1}), 0.09999999999999995);
  EXPECT_EQ(value_of("fmod(x, y)", {-3, HUGE_VAL}), -3);
  EXPECT_TRUE(std::isnan(value_of("fmod(x, y)", {3, 0})));
  const auto evaluate_ints = [](std::string_view text, std::int64_t x, std::int64_t y) {
    return evaluate<std::int64_t>(parse_expr(text), std::vector{x, y});
  };
  constexpr std::int64_t min_int = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(evaluate_ints("fmod(x, y)", -7, 3), -1);
  EXPECT_EQ(evaluate_ints("fmod(x, y)", min_int, -1), 0);
  EXPECT_EQ(evaluate_ints("bitxor(x, y)", 6, 3), 5);
  EXPECT_EQ(evaluate_ints("bitand(x, y)", -1, min_int), min_int);
  EXPECT_EQ(evaluate_ints("bitor(x, y)", 4, 3), 7);
  EXPECT_THAT(error_of([&] { evaluate_ints("fmod(x, y)", 3, 0); }), HasSubstr("divided by zero"));
  EXPECT_THAT(error_of([&] { value_of("bitxor(x, y)", {1, 2}); }), HasSubstr("is not defined for floats"));
  EXPECT_EQ(evaluate<double>(derive(parse_expr("fmod(x, y)"), 1), std::vector{-7.5, 2.0}), 3) << "-trunc(-7.5 / 2)";
  EXPECT_EQ(evaluate<double>(derive(parse_expr("fmod(x, y)"), 0), std::vector{-7.5, 2.0}), 1);
}

TEST(Expr, TheSlopeOfAPowerIsFiniteIfThePowerIsConstant) {
  const Expr slope = derive(parse_expr("pow(x, y)"), 0), second = derive(slope, 0);
  for (double y : {0.0, 1.0}) EXPECT_EQ(evaluate<double>(slope, std::vector{0.0, y}), y);
  EXPECT_EQ(evaluate<double>(second, std::vector{0.0, 1.0}), 0) << "x has no curvature at 0 either";
  EXPECT_EQ(evaluate<double>(second, std::vector{3.0, 2.0}), 2);
  EXPECT_EQ(evaluate<double>(derive(parse_expr("pow(x, y)"), 1), std::vector{0.0, 2.0}), 0);
}

TEST(Expr, OperatorsBindAsInC) {
  EXPECT_EQ(value_of("1 + 2 * 3"), 7);
  EXPECT_EQ(value_of("(1 + 2) * 3"), 9);
  EXPECT_EQ(value_of("8 - 3 - 2"), 3);
  EXPECT_EQ(value_of("8 / 4 / 2"), 1);
  EXPECT_EQ(value_of("-2 * 3 + 1"), -5);
  EXPECT_EQ(value_of("1 < 2 == 3 > 2"), 1);
  EXPECT_EQ(value_of("0 && 1 || 1"), 1);
  EXPECT_EQ(value_of("!0 + 1"), 2);
  EXPECT_EQ(value_of("select(2 >= 2, 5, 6) + max(1, 2) - min(1, 2)"), 6);
  EXPECT_DOUBLE_EQ(value_of("rsqrt(4) + pow(2, 10) + sigmoid(0)"), 1025);
}

TEST(Expr, XYAndZAreTheFirstThreeVariables) {
  EXPECT_EQ(print(parse_expr("x*y+z")), "x0 * x1 + x2");
  EXPECT_EQ(value_of("x * y + z - x9", {2, 3, 4, 0, 0, 0, 0, 0, 0, 1}), 9);
  EXPECT_EQ(variable_count(parse_expr("x0+x4")), 5);
  EXPECT_EQ(variable_count(parse_expr("3")), 0);
}

TEST(Expr, CanonicalTextHasTheFewestParentheses) {
  auto canonical = [](std::string_view text) { return print(parse_expr(text)); };
  EXPECT_EQ(canonical("((x))*((y+(1)))"), "x0 * (x1 + 1)");
  EXPECT_EQ(canonical("(x-y)-z"), "x0 - x1 - x2");
  EXPECT_EQ(canonical("x-(y-z)"), "x0 - (x1 - x2)");
  EXPECT_EQ(canonical("x-(-2)"), "x0 - -2");
  EXPECT_EQ(canonical("-(2)"), "-(2)");
  EXPECT_EQ(canonical("-(x+y)"), "-(x0 + x1)");
  EXPECT_EQ(canonical("--x"), "--x0");
  EXPECT_EQ(canonical("x>0&&!(y||z)"), "x0 > 0 && !(x1 || x2)");
  EXPECT_EQ(canonical("max(x,0.5e-7)"), "max(x0, 5e-08)");
  EXPECT_EQ(canonical("-inf+inf"), "-inf + inf");
  EXPECT_EQ(canonical("-0.0"), "-0.0");
}

TEST(Expr, PrintedTextParsesToTheSameTree) {
  std::mt19937_64 random(seed());
  for (int i = 0; i < 3000; ++i) {
    Expr e = random_expr(random, 5, false);
    std::string text = print(e);
    ASSERT_TRUE(same(parse_expr(text), e)) << text << " with KAREZ_SEED=" << seed();
    ASSERT_EQ(print(parse_expr(text)), text);
  }
}

TEST(Expr, DerivativesAgreeWithFiniteDifferences) {
  std::mt19937_64 random(seed());
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int i = 0; i < 600; ++i) {
    Expr e = random_expr(random, 4, true);
    std::vector<double> at{uniform(random), uniform(random), uniform(random)};
    for (int v = 0; v < 3; ++v) {
      double got = evaluate<double>(derive(e, v), at), step = 1e-5;
      std::vector<double> high = at, low = at;
      high[static_cast<std::size_t>(v)] += step;
      low[static_cast<std::size_t>(v)] -= step;
      double reference = (evaluate<double>(e, high) - evaluate<double>(e, low)) / (2 * step);
      if (std::abs(reference) > 1e3) continue;  // too steep for an accurate difference quotient
      ASSERT_NEAR(got, reference, 1e-5 * (1 + std::abs(reference)))
          << print(e) << " by x" << v << " with KAREZ_SEED=" << seed();
    }
  }
}

TEST(Expr, DerivativesAreSimplified) {
  auto by_x = [](std::string_view text) { return print(derive(parse_expr(text), 0)); };
  EXPECT_EQ(by_x("max(x, 0)"), "select(x0 >= 0, 1, 0)");
  EXPECT_EQ(by_x("min(x, y)"), "select(x0 <= x1, 1, 0)");
  EXPECT_EQ(by_x("x * y + 3"), "x1");
  EXPECT_EQ(by_x("x - x"), "0");
  EXPECT_EQ(by_x("x / y"), "1 / x1");
  EXPECT_EQ(by_x("exp(x)"), "exp(x0)");
  EXPECT_EQ(by_x("-x"), "-1");
  EXPECT_EQ(by_x("pow(x, 2)"), "2 * x0");
  EXPECT_EQ(by_x("pow(x, 3)"), "3 * pow(x0, 2)");
  EXPECT_EQ(by_x("tanh(x)"), "1 - tanh(x0) * tanh(x0)");
  EXPECT_EQ(by_x("(x > 1) * y"), "0");
  EXPECT_EQ(by_x("cos(y)"), "0");
}

TEST(Expr, DerivativesOfRootsAndKinksAreCorrect) {
  for (const char* text : {"sqrt(x)", "rsqrt(x)", "log(x)", "abs(x)", "abs(-x)", "1 / x", "pow(x, -0.5)", "pow(2, x)",
                           "select(x > 0, x * x, 0)"}) {
    Expr e = parse_expr(text);
    double x = 0.7, step = 1e-6;
    double reference =
        (evaluate<double>(e, std::vector{x + step}) - evaluate<double>(e, std::vector{x - step})) / (2 * step);
    EXPECT_NEAR(evaluate<double>(derive(e, 0), std::vector{x}), reference, 1e-6) << text;
  }
  EXPECT_EQ(evaluate<double>(derive(parse_expr("abs(x)"), 0), std::vector{0.0}), 0);
  EXPECT_EQ(evaluate<double>(derive(parse_expr("pow(x, 2)"), 0), std::vector{-3.0}), -6);
}

TEST(Expr, SubstitutionComposes) {
  std::vector<Expr> with{parse_expr("x0 + x1"), parse_expr("-2")};
  EXPECT_EQ(print(substitute(parse_expr("x * y"), with)), "(x0 + x1) * -2");
  EXPECT_EQ(print(substitute(parse_expr("-y"), with)), "-(-2)");
  EXPECT_THAT(error_of([&] { substitute(parse_expr("x + x3"), with); }),
              HasSubstr("no replacement is given for x3 of x0 + x3"));
}

TEST(Expr, RepeatedSubstitutionStaysSmall) {  // a tree of 2^60 leaves with only 61 distinct nodes
  Expr e = expr_variable(0);
  for (int i = 0; i < 60; ++i) e = substitute(parse_expr("x0 + x0"), std::vector{e});
  EXPECT_EQ(flatten(e).ops.size(), 60u);
  EXPECT_EQ(evaluate<double>(e, std::vector{1.0}), std::ldexp(1.0, 60));
  EXPECT_EQ(evaluate<double>(derive(e, 0), std::vector{1.0}), std::ldexp(1.0, 60));
}

TEST(Expr, FlatteningSharesEqualSubtreesAndReusesRegisters) {
  ExprProgram program = flatten(parse_expr("tanh(x + y) * tanh(x + y) + 2 * (x + y) + 2"));
  std::vector<ExprKind> kinds;
  for (const auto& op : program.ops) kinds.push_back(op.op);
  EXPECT_THAT(kinds, ::testing::UnorderedElementsAre(ExprKind::add, ExprKind::tanh, ExprKind::mul, ExprKind::mul,
                                                     ExprKind::add, ExprKind::add));
  EXPECT_EQ(program.variables, 2);
  EXPECT_EQ(program.constants, std::vector<double>{2});
  EXPECT_EQ(program.registers, 2 + 1 + 2);
  for (const auto& op : program.ops) EXPECT_GE(op.dst, 3) << "an operation must not write an input or a constant";
}

TEST(Expr, ALongChainNeedsOneTemporary) {
  std::string text = "x";
  for (int i = 0; i < 100; ++i) text += i % 2 ? " + y" : " - x";
  EXPECT_EQ(flatten(parse_expr(text)).registers, 3);
  EXPECT_EQ(flatten(parse_expr("x + (y + (x + (y + (x * y))))")).registers, 3)
      << "the deepest operand must be computed first";
}

TEST(Expr, ALeafNeedsNoOperation) {
  EXPECT_EQ(flatten(parse_expr("y")).ops.size(), 0u);
  EXPECT_EQ(value_of("y", {1, 7}), 7);
  EXPECT_EQ(value_of("42"), 42);
}

TEST(Expr, RegistersNeverLoseALiveValue) {  // compares the program with direct recursion
  std::mt19937_64 random(seed());
  auto direct = [](auto&& self, const Expr& e, const std::vector<double>& x) -> double {
    if (e->kind == ExprKind::constant) return e->value;
    if (e->kind == ExprKind::variable) return x[static_cast<std::size_t>(e->variable)];
    std::array<double, 3> v{};
    for (int k = 0; k < operands_of(e->kind); ++k)
      v[static_cast<std::size_t>(k)] = self(self, e->operands[static_cast<std::size_t>(k)], x);
    return apply<double>(e->kind, v[0], v[1], v[2]);
  };
  for (int i = 0; i < 2000; ++i) {
    Expr e = random_expr(random, 6, false);
    std::vector<double> x{0.3, -1.2, 2};
    double got = evaluate<double>(e, x), reference = direct(direct, e, x);
    ASSERT_TRUE(got == reference || (std::isnan(got) && std::isnan(reference)))
        << print(e) << " with KAREZ_SEED=" << seed();
  }
}

TEST(Expr, IntegersWrapAroundAndKeepAllTheirBits) {
  std::int64_t max_int64 = 9223372036854775807;
  EXPECT_EQ(evaluate<std::int64_t>(parse_expr("x + 1"), std::vector{max_int64}),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(evaluate<std::int64_t>(parse_expr("max(x, 0)"), std::vector{max_int64}), max_int64);
  EXPECT_EQ(evaluate<std::int32_t>(parse_expr("x / y"), std::vector<std::int32_t>{-7, 2}), -3);
  EXPECT_EQ(evaluate<std::int32_t>(parse_expr("x / -1"), std::vector{std::numeric_limits<std::int32_t>::min()}),
            std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(evaluate<std::int32_t>(parse_expr("pow(x, 3)"), std::vector<std::int32_t>{-3}), -27);
  EXPECT_EQ(evaluate<std::int32_t>(parse_expr("-x"), std::vector<std::int32_t>{5}), -5);
  EXPECT_EQ(evaluate<std::int64_t>(parse_expr("-x"), std::vector{std::numeric_limits<std::int64_t>::min()}),
            std::numeric_limits<std::int64_t>::min());
}

TEST(Expr, OperationsNotDefinedForIntegersAreErrors) {
  auto error = [](std::string_view text, std::int32_t x) {
    return error_of([&] { evaluate<std::int32_t>(parse_expr(text), std::vector{x}); });
  };
  EXPECT_EQ(error("1 / x", 0), "an integer is divided by zero: 1 / 0");
  EXPECT_EQ(error("exp(x)", 0), "'exp' is not defined for integers");
  EXPECT_EQ(error("x * 0.5", 1), "the constant 0.5 is not a 32-bit integer");
  EXPECT_EQ(error("x + 4000000000", 1), "the constant 4e+09 is not a 32-bit integer");
  EXPECT_EQ(error("pow(x, -1)", 2), "an integer is raised to a negative power: pow(2, -1)");
}

TEST(Expr, MaxAndMinPropagateNan) {
  double nan = std::nan("");
  EXPECT_TRUE(std::isnan(value_of("max(x, 0)", {nan})));
  EXPECT_TRUE(std::isnan(value_of("min(0, x)", {nan})));
}

TEST(Expr, FloatsAreComputedInFloatPrecision) {
  EXPECT_EQ(evaluate<float>(parse_expr("x + 1"), std::vector{16777216.0f}), 16777216.0f);
  EXPECT_EQ(evaluate<float>(parse_expr("0.1"), {}), 0.1f);
}

TEST(Expr, BadTextIsRejectedWithItsPosition) {
  auto error = [](std::string_view text) { return error_of([&] { parse_expr(text); }); };
  EXPECT_EQ(error("x +"), "expression: line 1, column 4: expected a number, a variable, a function or '(' at the end");
  EXPECT_EQ(error("foo(x)"),
            "expression: line 1, column 1: 'foo' is neither a variable (x0 to x63) nor a function at 'foo(x)'");
  EXPECT_EQ(error("x64"),
            "expression: line 1, column 1: 'x64' is neither a variable (x0 to x63) nor a function at 'x64'");
  EXPECT_EQ(error("max(x)"), "expression: line 1, column 6: expected ',' at ')'");
  EXPECT_EQ(error("exp(x, y)"), "expression: line 1, column 6: expected ')' at ', y)'");
  EXPECT_EQ(error("x y"), "expression: line 1, column 3: unexpected text after the expression at 'y'");
  EXPECT_THAT(error("1.2.3"), HasSubstr("column 1: a number is malformed"));
  EXPECT_THAT(error("9007199254740993"), HasSubstr("beyond 2^53"));
  EXPECT_THAT(error(std::string(100000, '(')), HasSubstr("nested too deeply"));
  std::string chain = "x";
  for (int i = 0; i < 5000; ++i) chain += "+x";
  EXPECT_EQ(error(chain), "an expression is nested deeper than 1000");
  EXPECT_THAT(error_of([] { value_of("x + y", {1}); }), HasSubstr("over 2 variables needs a value for each, got 1"));
}

}  // namespace
}  // namespace karez::base
