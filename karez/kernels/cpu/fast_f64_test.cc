// Compares the f64 rows for pointwise calls, casts and reductions with the plain rows, the C library and themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "karez/base/text.h"
#include "karez/device/test_highway.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/kernel_bench.h"

namespace karez::kernels {
namespace {

const KernelTable& table() {
  static const KernelTable all(cpu_kernels());
  return all;
}

CallSpec call_of(std::string op, std::vector<View> in, View out, Attrs attrs = {}, int team = 1) {
  CallSpec call;
  call.op = std::move(op);
  call.in = std::move(in);
  call.out = {std::move(out)};
  call.attrs = std::move(attrs);
  call.team = team;
  return call;
}
CallSpec pointwise(const std::string& expr, std::vector<View> in, View out, int team = 1) {
  return call_of("pointwise", std::move(in), std::move(out), {{"expr", expr}}, team);
}
View f64(Shape shape) { return View(DType::f64, std::move(shape)); }

void expect_as_plain(const CallSpec& call, const std::string& row, double tolerance) {
  SCOPED_TRACE(cat(print(call), ", team of ", call.team));
  ASSERT_EQ(table().find(call).value().kernel, row);
  KernelBench fast(table().row(row), call), plain(table().row("plain." + call.op), call);
  for (KernelBench* bench : {&fast, &plain}) {
    fill_random(*bench, 11);
    bench->run();
    bench->run();
  }
  EXPECT_LE(difference(fast.out[0], plain.out[0]), tolerance);
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

// Values for which implementations often differ, and a sweep from -30 to 30.
std::vector<double> specials() {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> out{0.0,     -0.0,  1.0,    -1.0,    0.5,       inf,   -inf,   NAN,       5e-324, -5e-324, 1e-308,
                          -1e-308, 1e308, -1e308, 709.7,   709.79,    710.0, -708.5, -740.0,    -745.0, -746.0,  1001.0,
                          1e5,     -1e5,  38999,  39001.5, 12345.678, 1e-9,  -1e-9,  1 + 1e-15, 22.5,   -22.5};
  for (double x = -30; x < 30; x += 0.0137) out.push_back(x);
  return out;
}

// The tolerance is relative; `absolute` is for functions that cross zero, whose errors are relative to 1.
struct Function {
  const char* expr;
  std::function<double(double)> expected;
  double relative = 0, absolute = 0;
};

TEST(FastF64, EveryFunctionAgreesWithTheCLibraryOnEveryInstructionSet) {
  constexpr double ulp = 0x1p-52;
  const std::vector<Function> functions{
      {"-x0", [](double x) { return -x; }},
      {"!x0", [](double x) { return x == 0 ? 1.0 : 0.0; }},
      {"abs(x0)", [](double x) { return std::abs(x); }},
      {"sqrt(x0)", [](double x) { return std::sqrt(x); }},
      {"rsqrt(x0)", [](double x) { return 1 / std::sqrt(x); }, ulp},
      {"exp(x0)", [](double x) { return std::exp(x); }, 2 * ulp, 5e-324},
      {"log(x0)", [](double x) { return std::log(x); }, 2 * ulp, ulp},
      {"tanh(x0)", [](double x) { return std::tanh(x); }, 5 * ulp, 5e-324},
      {"sigmoid(x0)", [](double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); },
       4 * ulp, 5e-324},
      {"erf(x0)", [](double x) { return std::erf(x); }, ulp},
      {"phi(x0)", [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }, 1e-12, 1e-300},
      {"sin(x0)", [](double x) { return std::sin(x); }, 0, 4 * ulp},
      {"cos(x0)", [](double x) { return std::cos(x); }, 0, 4 * ulp},
      {"max(x0, 0)", [](double x) { return x != x  ? x
                                           : x > 0 ? x
                                                   : 0.0; }},
      {"pow(x0, 2.5)", [](double x) { return std::pow(x, 2.5); }},
      {"fmod(x0, 0.7)", [](double x) { return std::fmod(x, 0.7); }},
  };
  const std::vector<double> values = specials();
  const auto n = static_cast<std::int64_t>(values.size());
  on_every_instruction_set([&](const char* name) {
    for (const Function& function : functions) {
      std::vector<Buffer> in;
      in.push_back(filled<double>(Shape{n}, values));
      const auto out =
          logical<double>(run_row(table().row("hwy.pointwise_f64"), in, {f64({n})}, {{"expr", function.expr}})[0]);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double expected = function.expected(values[i]);
        if (same(out[i], expected)) continue;
        EXPECT_LE(std::abs(out[i] - expected), function.relative * std::abs(expected) + function.absolute)
            << function.expr << " of " << values[i] << " is " << out[i] << ", expected " << expected << ", on " << name;
      }
    }
  });
}

TEST(FastF64, EveryOperationOnPairsOfSpecialValuesHasTheBitsOfThePlainRow) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values{0.0, -0.0, 1.0, inf, -inf, NAN, -2.0};
  std::vector<double> x, y;
  for (int round = 0; round < 3; ++round)
    for (double a : values)
      for (double b : values) x.push_back(a), y.push_back(b);
  const auto n = static_cast<std::int64_t>(x.size());
  on_every_instruction_set([&](const char* name) {
    for (const char* expr : {"x0 + x1", "x0 - x1", "x0 * x1", "x0 / x1", "x0 < x1", "x0 <= x1", "x0 > x1", "x0 >= x1",
                             "x0 == x1", "x0 != x1", "x0 && x1", "x0 || x1", "pow(x0, x1)", "max(x0, x1)",
                             "min(x0, x1)", "fmod(x0, x1)", "select(x0, x1, x0)"})
      for (const DType out : {DType::f64, DType::b8}) {
        std::vector<Buffer> in;
        in.push_back(filled<double>(Shape{n}, x));
        in.push_back(filled<double>(Shape{n}, y));
        const Attrs attrs{{"expr", expr}};
        auto fast = run_row(table().row("hwy.pointwise_f64"), in, {View(out, {n})}, attrs),
             plain = run_row(table().row("plain.pointwise"), in, {View(out, {n})}, attrs);
        for (std::int64_t i = 0; i < n; ++i) {
          const bool equal = out == DType::b8 ? fast[0].at<bool>({i}) == plain[0].at<bool>({i})
                                              : same(fast[0].at<double>({i}), plain[0].at<double>({i}));
          EXPECT_TRUE(equal) << expr << " of " << x[static_cast<std::size_t>(i)] << " and "
                             << y[static_cast<std::size_t>(i)] << " as " << out << " on " << name;
        }
      }
  });
}

TEST(FastF64, AllSizesTeamsAndRepeatedOperandsAreSupported) {
  for (const int team : {1, 2, 3}) {
    for (const std::int64_t n : {1, 3, 7, 8, 9, 255, 256, 257, 5000, 100003}) {
      expect_as_plain(pointwise("max(x0, 0)", {f64({n})}, f64({n}), team), "hwy.pointwise_f64", 0);
      expect_as_plain(pointwise("tanh(x0 * x1 + x2) * (x0 - 0.5)", {f64({n}), f64({n}), f64({n})}, f64({n}), team),
                      "hwy.pointwise_f64", 1e-14);
      expect_as_plain(pointwise("select(x0, x1, 0)", {View(DType::b8, {n}), f64({n})}, f64({n}), team),
                      "hwy.pointwise_f64", 0);
    }
    for (const Shape& shape : {Shape{300, 5}, Shape{7, 256}, Shape{5, 1001}, Shape{500, 300}})
      for (const Strides& strides : {Strides{0, 0}, Strides{0, 1}, Strides{1, 0}})
        expect_as_plain(pointwise("x0 * x1 - x1", {f64(shape), View(DType::f64, shape, strides)}, f64(shape), team),
                        "hwy.pointwise_f64", 1e-15);
    const View order(DType::f64, {4, 6, 5}, {5, 20, 1});
    expect_as_plain(pointwise("x0 + x1", {order, order}, order, team), "hwy.pointwise_f64", 0);
    expect_as_plain(pointwise("x0 * x1", {View(DType::f32, {77}), f64({77})}, f64({77}), team), "hwy.pointwise_f64", 0);
    expect_as_plain(pointwise("x0 * x1", {f64({77}), f64({77})}, View(DType::f32, {77}), team), "hwy.pointwise_f64", 0);
  }
}

TEST(FastF64, GapsAndEmptyCallsRunOnThePlainRow) {
  const auto kernel = [](const CallSpec& call) { return table().find(call).value().kernel; };
  EXPECT_EQ(kernel(pointwise("x0 + x1", {f64({4, 5}), View(DType::f64, {4, 5}, {1, 4})}, f64({4, 5}))),
            "plain.pointwise");
  EXPECT_EQ(kernel(pointwise("x0 + x1", {f64({0}), f64({0})}, f64({0}))), "plain.pointwise");
  EXPECT_EQ(kernel(call_of("cast", {f64({4})}, View(DType::i64, {4}))), "plain.cast");
  EXPECT_EQ(kernel(call_of("cast", {f64({4})}, View(DType::f16, {4}))), "plain.cast");
  EXPECT_EQ(kernel(call_of("cast", {View(DType::b8, {4})}, f64({4}))), "plain.cast");
}

TEST(FastF64, AResultMayOverwriteAnOperand) {
  const CallSpec call = pointwise("exp(x0) * x1 + 1", {f64({1000}), f64({1000})}, f64({1000}));
  KernelBench separate(table().row("hwy.pointwise_f64"), call), in_place(table().row("hwy.pointwise_f64"), call);
  fill_random(separate, 3);
  fill_random(in_place, 3);
  in_place.outs[0] = in_place.ins[0];
  separate.run();
  in_place.run();
  for (std::int64_t i = 0; i < 1000; ++i) EXPECT_EQ(in_place.in[0].at<double>({i}), separate.out[0].at<double>({i}));
}

TEST(FastF64, CastsBetweenF32AndF64RoundToNearest) {
  std::vector<double> values = specials();
  values.insert(values.end(), {1e-40, 1e-46, 0x1.000001p0, 0x1.000003p0, 0x1.0000010000001p0, 3.4028235e38,
                               3.4028236e38, 3.5e38, -1e300, 0x1p-149, 0x1p-150, 0x1.8p-149});
  on_every_instruction_set([&](const char* name) {
    for (std::size_t n = 1; n <= values.size(); n += 1 + n / 3) {
      const std::vector<double> doubles(values.end() - static_cast<std::ptrdiff_t>(n), values.end());
      std::vector<float> floats;
      for (const double x : doubles) floats.push_back(static_cast<float>(x));
      const auto size = static_cast<std::int64_t>(n);
      std::vector<Buffer> in;
      in.push_back(filled<double>(Shape{size}, doubles));
      const auto narrow = logical<float>(run_row(table().row("hwy.cast_f64"), in, {View(DType::f32, {size})})[0]);
      in[0] = filled<float>(Shape{size}, floats);
      const auto wide = logical<double>(run_row(table().row("hwy.cast_f64"), in, {f64({size})})[0]);
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_TRUE(same(narrow[i], floats[i])) << doubles[i] << " on " << name;
        EXPECT_TRUE(same(wide[i], static_cast<double>(floats[i]))) << floats[i] << " on " << name;
      }
    }
  });
}

TEST(FastF64, ReductionsAgreeWithThePlainRowOnEveryInstructionSet) {
  on_every_instruction_set([](const char* name) {
    SCOPED_TRACE(cat("on ", name));
    for (const char* op : {"reduce_sum", "reduce_max", "reduce_min"})
      for (const int team : {1, 2, 3}) {
        for (const auto& [shape, axes] : std::vector<std::pair<Shape, Ints>>{{{64, 10}, {1}},
                                                                             {{64, 10}, {0}},
                                                                             {{300, 7}, {0}},
                                                                             {{300, 8}, {0}},
                                                                             {{300, 9}, {0}},
                                                                             {{700, 33}, {0}},
                                                                             {{70, 1101}, {0}},
                                                                             {{3, 5000}, {1}},
                                                                             {{100001}, {0}},
                                                                             {{1}, {0}},
                                                                             {{7, 5, 3}, {1}},
                                                                             {{7, 5, 3}, {0, 1, 2}},
                                                                             {{}, {}},
                                                                             {{1, 40000, 3}, {1}}}) {
          Shape result;
          for (std::size_t d = 0; d < shape.size(); ++d)
            if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) == axes.end())
              result.push_back(shape[d]);
          expect_as_plain(call_of(op, {f64(shape)}, f64(result), {{"axes", axes}}, team), cat("hwy.", op),
                          std::string(op) == "reduce_sum" ? 1e-12 : 0);
        }
      }
  });
  EXPECT_EQ(table().find(call_of("reduce_sum", {f64({5, 7, 3})}, f64({7}), {{"axes", Ints{0, 2}}}))->kernel,
            "plain.reduce_sum");
  EXPECT_EQ(table().find(call_of("reduce_sum", {f64({5, 7})}, View(DType::f32, {7}), {{"axes", Ints{0}}})),
            std::nullopt);
}

// Wide rows are reduced in tiles, narrow ones in panels. A panel has 4 vectors, so 64 columns are complete panels of
// all types and instruction sets.
template <class T>
void expect_columns_as_in_narrow_rows(const std::string& op, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t narrow = 64;
  std::vector<T> x(static_cast<std::size_t>(rows * columns));
  std::mt19937 random(static_cast<unsigned>(rows));
  for (T& one : x) one = static_cast<T>(static_cast<double>(random() % 100000) / 7 - 7000);
  for (std::size_t i = 0; i < x.size(); i += 1 + random() % 999)
    x[i] = static_cast<T>(std::array{HUGE_VAL, -0.0, 0.0, -HUGE_VAL, 1e-300, std::nan("")}[random() % 6]);
  const auto reduced = [&](std::int64_t first, std::int64_t count) {
    std::vector<T> part;
    for (std::int64_t r = 0; r < rows; ++r)
      part.insert(part.end(), x.begin() + r * columns + first, x.begin() + r * columns + first + count);
    std::vector<Buffer> in;
    in.push_back(filled<T>(Shape{rows, count}, part));
    Buffer out =
        std::move(run_row(table().row("hwy." + op), in, {View(dtype_of<T>(), {count})}, {{"axes", Ints{0}}})[0]);
    return logical<T>(out);
  };
  const std::vector<T> wide = reduced(0, columns);
  for (std::int64_t c = 0; c + narrow <= columns; c += narrow) {
    const std::vector<T> part = reduced(c, narrow);
    for (std::int64_t i = 0; i < narrow; ++i) {
      const T a = part[static_cast<std::size_t>(i)], b = wide[static_cast<std::size_t>(c + i)];
      EXPECT_TRUE(std::memcmp(&a, &b, sizeof(T)) == 0 || (std::isnan(a) && std::isnan(b))) << "column " << c + i;
    }
  }
}

TEST(FastF64, TheWidthOfRowsDoesNotChangeTheBitsOfReducedColumns) {
  on_every_instruction_set([](const char* name) {
    for (const char* op : {"reduce_sum", "reduce_max", "reduce_min"})
      for (const std::int64_t rows : {16, 19, 511, 514, 1027})
        for (const std::int64_t columns : {256, 581, 1216}) {
          SCOPED_TRACE(cat(op, " of ", rows, " x ", columns, " on ", name));
          expect_columns_as_in_narrow_rows<double>(op, rows, columns);
          expect_columns_as_in_narrow_rows<float>(op, rows, columns);
        }
  });
}

TEST(FastF64, ExtremaPropagateNanAndOrderZeros) {
  on_every_instruction_set([](const char* name) {
    for (const std::int64_t n : {1, 2, 7, 8, 9, 40, 1000})
      for (std::int64_t at = 0; at < n; at += 1 + n / 5) {
        const auto extremum = [&](const char* op, double fill, double value) {
          std::vector<double> x(static_cast<std::size_t>(n), fill);
          x[static_cast<std::size_t>(at)] = value;
          std::vector<Buffer> in;
          in.push_back(filled<double>(Shape{n}, x));
          return run_row(table().row(op), in, {f64({})}, {{"axes", Ints{0}}})[0].at<double>({});
        };
        SCOPED_TRACE(cat(n, " elements, ", at, " differs, on ", name));
        EXPECT_TRUE(std::isnan(extremum("hwy.reduce_max", 1, NAN)));
        EXPECT_TRUE(std::isnan(extremum("hwy.reduce_min", -HUGE_VAL, NAN)));
        EXPECT_TRUE(same(extremum("hwy.reduce_max", -0.0, 0.0), 0.0));
        EXPECT_TRUE(same(extremum("hwy.reduce_min", 0.0, -0.0), -0.0));
        EXPECT_EQ(extremum("hwy.reduce_max", -HUGE_VAL, -1e308), -1e308);
        EXPECT_EQ(extremum("hwy.reduce_min", HUGE_VAL, 5e-324), 5e-324);
      }
  });
}

TEST(FastF64, SumsHaveTheAccuracyOfF64) {
  for (const int team : {1, 2}) {
    const CallSpec call = call_of("reduce_sum", {f64({1000000})}, f64({}), {{"axes", Ints{0}}}, team);
    KernelBench bench(table().row("hwy.reduce_sum"), call);
    long double expected = 0;
    for (std::int64_t i = 0; i < 1000000; ++i) {
      const double x = 1.0 / static_cast<double>(i + 1);
      bench.in[0].at<double>({i}) = x;
      expected += static_cast<long double>(x);
    }
    bench.run();
    EXPECT_LE(std::abs(static_cast<double>(bench.out[0].at<double>({}) - expected)), 2e-14);
  }
}

}  // namespace
}  // namespace karez::kernels
