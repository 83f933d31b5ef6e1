// Compares the generated pointwise kernels with their expressions, evaluated in double.
#include "karez/kernels/cpu/pointwise_generated.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "karez/base/expr.h"
#include "karez/device/processor.h"
#include "karez/device/test_highway.h"
#include "karez/kernels/cpu/library_versions.h"

namespace karez::kernels {
namespace {

// Limits the instruction set, as cpu_kernels() does: these tests use the generated table directly.
struct IsaLimitEnvironment : ::testing::Environment {
  void SetUp() override { limit_instructions(); }
};
const auto* limited = ::testing::AddGlobalTestEnvironment(new IsaLimitEnvironment);

unsigned seed() {
  const char* text = std::getenv("KAREZ_SEED");
  unsigned value = text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : 20240501u;
  std::cout << "seed " << value << " (KAREZ_SEED)\n";
  return value;
}

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
const float specials[] = {0.0f,    -0.0f,           1.0f,    -1.0f,    0.5f,   2.0f,    inf,    -inf,    nan,   1e-40f,
                          -1e-40f, 1.17549435e-38f, 3.4e38f, -3.4e38f, 88.7f,  89.0f,   -87.5f, -104.0f, 10.0f, -10.0f,
                          0.999f,  1.001f,          4.0f,    1e-6f,    -1e-6f, 40000.0f};

// An operand as the kernel reads it: floats or bytes.
struct Operand {
  bool is_bool = false;
  std::vector<float> floats;
  std::vector<std::uint8_t> bools;
  const void* data() const { return is_bool ? static_cast<const void*>(bools.data()) : floats.data(); }
  double at(std::size_t i) const { return is_bool ? bools[i] : static_cast<double>(floats[i]); }
};

struct PointwiseRun {
  const GeneratedPointwise* row;
  std::vector<Operand> in;
  std::vector<std::uint8_t> scalar;

  bool out_bool() const { return std::string(row->types).back() == 'b'; }
  std::size_t width() const { return out_bool() ? 1 : sizeof(float); }
  std::vector<unsigned char> operator()(std::size_t count) const {
    std::vector<unsigned char> out(count * width() + 8, 0xee);
    std::vector<const void*> data;
    for (const Operand& operand : in) data.push_back(operand.data());
    row->run(0, static_cast<std::int64_t>(count), data.data(), scalar.data(), out.data());
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(out[count * width() + static_cast<std::size_t>(i)], 0xee) << row->expr << " writes past the end";
    out.resize(count * width());
    return out;
  }
};

int operands_of(const GeneratedPointwise& row) { return static_cast<int>(std::string(row.types).find('>')); }

// A value computed in double, with a bound on the error of a correct f32 kernel. Each operation adds at most
// ulps_of(kind) roundings. It propagates the errors of its operands: the operation is evaluated at both ends of their
// intervals.
struct BoundedValue {
  double value = 0, error = 0;
};

constexpr double rounding = 1.2e-7, smallest = 1.5e-45;

double ulps_of(ExprKind kind) {
  static const bool fused = device::processor().isa != "baseline";  // fused multiply-add: one rounding
  switch (kind) {
    case ExprKind::phi: return fused ? 7 : 60;  // if not fused, rounding errors of an exponent up to 98 remain
    case ExprKind::tanh:
    case ExprKind::sigmoid: return 4;
    case ExprKind::exp:
    case ExprKind::log:
    case ExprKind::erf:
    case ExprKind::rsqrt: return 2;
    default: return 1;
  }
}

BoundedValue evaluate_bounded(const ExprProgram& program, const std::vector<double>& x) {
  std::vector<BoundedValue> r(static_cast<std::size_t>(program.registers));
  std::size_t next = 0;
  for (int i = 0; i < program.variables; ++i) r[next++] = {x[static_cast<std::size_t>(i)], 0};
  for (double c : program.constants) r[next++] = {c, std::abs(c) * rounding / 2};
  for (const ExprOp& op : program.ops) {
    auto read = [&](int i) { return i < 0 ? BoundedValue{} : r[static_cast<std::size_t>(i)]; };
    BoundedValue a = read(op.a), b = read(op.b), c = read(op.c), out;
    out.value = apply<double>(op.op, a.value, b.value, c.value);
    for (int ends = 0; ends < 8; ++ends) {
      auto end = [&](const BoundedValue& v, int bit) {
        return ends >> bit & 1 ? v.value + v.error : v.value - v.error;
      };
      double end_value = apply<double>(op.op, end(a, 0), end(b, 1), end(c, 2));
      if (std::isfinite(out.value) && std::isfinite(end_value))
        out.error = std::max(out.error, std::abs(end_value - out.value));
      else if (!(std::isnan(out.value) && std::isnan(end_value)) && out.value != end_value) out.error = inf;
    }
    // If the error of an operand is infinite, the error of the result is infinite, unless a select ignores the operand.
    bool is_exact_select = op.op == ExprKind::select && a.error == 0;
    for (const BoundedValue* v : {&a, &b, &c})
      if (std::isinf(v->error) && !(is_exact_select && v == (a.value != 0 ? &c : &b))) out.error = inf;
    // A power of a negative number depends on whether the exponent is an integer, which rounding may change.
    if (op.op == ExprKind::pow && a.value < 0 && b.error > 0 && std::abs(b.value - std::round(b.value)) <= 2 * b.error)
      out.error = inf;
    bool is_exact = is_boolean(op.op) || op.op == ExprKind::select || op.op == ExprKind::max ||
                    op.op == ExprKind::min || op.op == ExprKind::neg || op.op == ExprKind::abs;
    // sin and cos are accurate relative to 1, not relative to their values, which may be near zero.
    bool is_absolute = op.op == ExprKind::sin || op.op == ExprKind::cos;
    if (!is_exact && std::isfinite(out.value))
      out.error +=
          is_absolute ? 4 * rounding : ulps_of(op.op) * rounding * std::abs(out.value) + ulps_of(op.op) * smallest;
    r[static_cast<std::size_t>(op.dst)] = out;
  }
  return r[static_cast<std::size_t>(program.result)];
}

// Above the largest f32, a kernel may give infinity for a value that is finite in double.
void expect_close(float measured, const BoundedValue& expected, const std::string& what, int& checked) {
  constexpr double largest = 3.4028234e38;
  if (std::isinf(expected.error) || std::abs(expected.value) + expected.error > largest * (1 - 1e-6)) {
    if (std::isinf(expected.error) || !std::isinf(expected.value)) return;  // finite and infinite are both correct
  }
  ++checked;
  if (std::isnan(expected.value)) EXPECT_TRUE(std::isnan(measured)) << what << " is " << measured << ", expected NaN";
  else if (std::isinf(expected.value)) EXPECT_EQ(measured, static_cast<float>(expected.value)) << what;
  else
    EXPECT_LE(std::abs(static_cast<double>(measured) - expected.value),
              expected.error + rounding * std::abs(expected.value) + smallest)
        << what << " is " << number(measured) << ", expected " << number(expected.value) << " within "
        << number(expected.error);
}

std::string describe(const PointwiseRun& run, std::size_t i) {
  std::string text = cat(run.row->expr, " at ");
  for (std::size_t k = 0; k < run.in.size(); ++k) text += cat(k ? ", " : "", run.in[k].at(run.scalar[k] ? 0 : i));
  return text;
}

void compare(const PointwiseRun& run, std::size_t count, int& checked) {
  ExprProgram program = flatten(parse_expr(run.row->expr));
  auto out = run(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> x;
    for (std::size_t k = 0; k < run.in.size(); ++k) x.push_back(run.in[k].at(run.scalar[k] ? 0 : i));
    if (run.out_bool()) {
      EXPECT_EQ(out[i], evaluate<double>(program, std::span<const double>(x)) != 0 ? 1 : 0) << describe(run, i);
      ++checked;
      continue;
    }
    float measured = 0;
    std::memcpy(&measured, out.data() + i * sizeof measured, sizeof measured);
    // If a part of an expression overflows in f32, the result may be NaN or infinite although it is finite in double.
    // Such inputs are skipped.
    BoundedValue expected = evaluate_bounded(program, x);
    bool overflowed = false;
    ExprProgram steps = program;
    if (std::isfinite(expected.value) && !std::isfinite(measured)) {
      std::vector<float> f(x.begin(), x.end());
      overflowed = !std::isfinite(evaluate<float>(steps, std::span<const float>(f)));
    }
    if (!overflowed) expect_close(measured, expected, describe(run, i), checked);
  }
}

Operand random_operand(std::mt19937& random, bool is_bool, std::size_t count) {
  Operand out{is_bool, {}, {}};
  std::uniform_real_distribution<float> small(-3.0f, 3.0f), exponent(-30.0f, 30.0f);
  for (std::size_t i = 0; i < count; ++i) {
    if (is_bool) out.bools.push_back(random() % 2);
    else
      out.floats.push_back(random() % 4 != 0 ? small(random)
                                             : std::copysign(std::exp2(exponent(random)), small(random)));
  }
  return out;
}

TEST(PointwiseGenerated,
     ExpressionsAreCanonicalAndSorted) {  // a system test checks that each row of the op table has an expression here
  auto rows = generated_pointwise();
  ASSERT_FALSE(rows.empty());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(print(parse_expr(rows[i].expr)), rows[i].expr);
    EXPECT_EQ(variable_count(parse_expr(rows[i].expr)), operands_of(rows[i])) << rows[i].expr;
    EXPECT_TRUE(i == 0 || std::string(rows[i - 1].expr) < rows[i].expr) << rows[i].expr;
  }
}

TEST(PointwiseGenerated, EveryExpressionIsWithinItsErrorBound) {
  std::mt19937 random(seed());
  int checked = 0;
  for (const GeneratedPointwise& row : generated_pointwise())
    for (std::size_t count : {1, 3, 16, 17, 1000}) {
      PointwiseRun run{&row, {}, {}};
      for (int k = 0; k < operands_of(row); ++k) run.in.push_back(random_operand(random, row.types[k] == 'b', count));
      run.scalar.assign(run.in.size(), 0);
      compare(run, count, checked);
    }
  EXPECT_GT(checked, 40000);
}

TEST(PointwiseGenerated, SpecialValuesAgreeWithTheExpressions) {
  int checked = 0;
  for (const GeneratedPointwise& row : generated_pointwise()) {
    PointwiseRun run{&row, std::vector<Operand>(static_cast<std::size_t>(operands_of(row))), {}};
    run.scalar.assign(run.in.size(), 0);
    // Tests all pairs; a third operand varies with them.
    std::size_t n = std::size(specials), count = 0;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < (run.in.size() > 1 ? n : 1); ++j, ++count)
        for (std::size_t k = 0; k < run.in.size(); ++k) {
          std::size_t special_index = k == 0 ? i : k == 1 ? j : (i + j) % n;
          run.in[k].is_bool = row.types[k] == 'b';
          run.in[k].bools.push_back(special_index % 2);
          run.in[k].floats.push_back(specials[special_index]);
        }
    compare(run, count, checked);
  }
  EXPECT_GT(checked, 10000);
}

TEST(PointwiseGenerated, OlderInstructionSetsAreWithinTheErrorBounds) {
  std::mt19937 random(seed());
  std::vector<const GeneratedPointwise*> tables;
  int checked = 0, sets = on_every_instruction_set([&](const char*) {
                     auto rows = generated_pointwise();
                     tables.push_back(rows.data());
                     for (const GeneratedPointwise& row : rows) {
                       PointwiseRun run{&row, {}, {}};
                       for (int k = 0; k < operands_of(row); ++k)
                         run.in.push_back(random_operand(random, row.types[k] == 'b', 83));
                       run.scalar.assign(run.in.size(), 0);
                       compare(run, 83, checked);
                     }
                   });
  EXPECT_GT(checked, 3000 * sets);
  std::sort(tables.begin(), tables.end());
  EXPECT_EQ(std::unique(tables.begin(), tables.end()) - tables.begin(), sets)
      << "each instruction set has its own table";
}

TEST(PointwiseGenerated, ZerosKeepTheirSignAsInTheStandardLibrary) {
  auto at = [](const char* expr, float x) {
    for (const GeneratedPointwise& row : generated_pointwise())
      if (std::string(row.expr) == expr) {
        const void* in[] = {&x};
        std::uint8_t scalar[] = {0};
        float out = 7;
        row.run(0, 1, in, scalar, &out);
        return out;
      }
    ADD_FAILURE() << "no kernel for " << expr;
    return 0.0f;
  };
  for (const char* odd : {"x0", "tanh(x0)", "erf(x0)", "sin(x0)", "sqrt(x0)"})
    EXPECT_TRUE(std::signbit(at(odd, -0.0f))) << odd;
  EXPECT_TRUE(std::signbit(at("-x0", 0.0f)));
  EXPECT_FALSE(std::signbit(at("abs(x0)", -0.0f)));
  EXPECT_EQ(at("exp(x0)", -0.0f), 1.0f);
  EXPECT_EQ(at("log(x0)", -0.0f), -inf);
  EXPECT_EQ(at("tanh(x0)", 1e-40f), 1e-40f) << "denormals are preserved";
}

TEST(PointwiseGenerated, ScalarOperandsAreReadFromOneElement) {
  std::mt19937 random(seed());
  int checked = 0;
  for (const GeneratedPointwise& row : generated_pointwise())
    for (unsigned mask = 1; mask < 1u << operands_of(row); ++mask) {
      PointwiseRun run{&row, {}, {}};
      for (int k = 0; k < operands_of(row); ++k) {
        bool scalar = mask >> k & 1;
        run.in.push_back(random_operand(random, row.types[k] == 'b', scalar ? 1 : 37));
        run.scalar.push_back(scalar);
      }
      compare(run, 37, checked);
    }
  EXPECT_GT(checked, 5000);
}

// Runs on shards and on the global tensor give equal bits, because the bits of an element do not depend on the start of
// a range or on other elements.
TEST(PointwiseGenerated, EveryRangeGivesTheSameBits) {
  std::mt19937 random(seed());
  const std::size_t count = 101;
  for (const GeneratedPointwise& row : generated_pointwise()) {
    PointwiseRun run{&row, {}, {}};
    for (int k = 0; k < operands_of(row); ++k) {
      run.in.push_back(random_operand(random, row.types[k] == 'b', count));
      if (!run.in.back().is_bool) run.in.back().floats[50] = 1e6f;
    }
    run.scalar.assign(run.in.size(), 0);
    auto all_at_once = run(count);
    std::vector<const void*> data;
    for (const Operand& operand : run.in) data.push_back(operand.data());
    std::vector<unsigned char> pieces(all_at_once.size());
    for (std::size_t begin = 0; begin < count;) {
      std::size_t end = std::min(count, begin + 1 + random() % 40);
      row.run(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end), data.data(), run.scalar.data(),
              pieces.data());
      begin = end;
    }
    EXPECT_EQ(all_at_once, pieces) << row.expr;
  }
}

TEST(PointwiseGenerated, TheResultMayOverwriteAnOperand) {
  std::mt19937 random(seed());
  for (const GeneratedPointwise& row : generated_pointwise())
    for (int k = 0; k < operands_of(row); ++k) {
      PointwiseRun run{&row, {}, {}};
      for (int i = 0; i < operands_of(row); ++i) run.in.push_back(random_operand(random, row.types[i] == 'b', 67));
      run.scalar.assign(run.in.size(), 0);
      if (run.in[static_cast<std::size_t>(k)].is_bool != run.out_bool()) continue;
      auto separate = run(67);
      std::vector<const void*> data;
      for (const Operand& operand : run.in) data.push_back(operand.data());
      row.run(0, 67, data.data(), run.scalar.data(), const_cast<void*>(data[static_cast<std::size_t>(k)]));
      EXPECT_EQ(std::memcmp(separate.data(), data[static_cast<std::size_t>(k)], separate.size()), 0)
          << row.expr << " over operand " << k;
    }
}

TEST(PointwiseGenerated, AnEmptyRangeWritesNothing) {
  for (const GeneratedPointwise& row : generated_pointwise()) {
    float x = 1, out = 7;
    const void* in[] = {&x, &x, &x};
    std::uint8_t scalar[] = {0, 1, 0};
    row.run(0, 0, in, scalar, &out);
    EXPECT_EQ(out, 7) << row.expr;
  }
}

}  // namespace
}  // namespace karez::kernels
