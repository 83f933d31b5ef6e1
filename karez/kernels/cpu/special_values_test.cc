// Tests NaN, infinities, zeros of both signs and subnormals in maxima, minima, ReLU, pooling and comparisons: compares
// plain, fast and fused rows on every instruction set with the rules below.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "karez/base/cat.h"
#include "karez/device/test_highway.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/kernel_bench.h"

namespace karez::kernels {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
constexpr float tiny = std::numeric_limits<float>::denorm_min(), largest = std::numeric_limits<float>::max();
const std::vector<float> specials{nan,   -nan, inf,   -inf,    0.0f,     -0.0f, tiny,
                                  -tiny, 1.0f, -2.0f, largest, -largest, 1e-38f};

// The rules: NaN is propagated, +0 is greater than -0, and other numbers are compared.
float expected_max(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return nan;
  if (a == 0 && b == 0) return std::signbit(a) && std::signbit(b) ? -0.0f : 0.0f;
  return a < b ? b : a;
}
float expected_min(float a, float b) { return -expected_max(-a, -b); }
float expected_relu(float x) { return std::isnan(x) ? nan : x > 0 ? x : 0.0f; }

bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

const KernelTable& table() {
  static const KernelTable all(cpu_kernels());
  return all;
}
View f32(Shape shape) { return View(DType::f32, std::move(shape)); }
View image(Shape shape, DType dtype = DType::f32) { return View(dtype, shape, channels_last(shape)); }
CallSpec call_of(std::string op, std::vector<View> in, std::vector<View> out, Attrs attrs = {}) {
  CallSpec call;
  call.op = std::move(op), call.in = std::move(in), call.out = std::move(out), call.attrs = std::move(attrs);
  return call;
}
void fill(Buffer& buffer, const std::vector<float>& values) {
  std::size_t next = 0;
  for_each_index(buffer.view.shape,
                 [&](const auto& index) { buffer.at<float>(index) = values[next++ % values.size()]; });
}

// Runs the call with these operands on every row that supports it and on every instruction set. At least `rows` rows
// must support the call.
template <class Check>
void on_all_rows(const CallSpec& call, const std::vector<std::vector<float>>& operands, std::size_t rows, Check check) {
  on_every_instruction_set([&](const char* target) {
    std::size_t rows_tested = 0;
    for (const KernelRow& row : table().rows()) {
      if (row.op != call.op || !row.supports(call)) continue;
      SCOPED_TRACE(cat(row.name, " on ", target, ": ", print(call)));
      KernelBench bench(row, call);
      for (std::size_t i = 0; i < operands.size(); ++i) fill(bench.in[i], operands[i]);
      bench.run();
      check(bench);
      ++rows_tested;
    }
    EXPECT_GE(rows_tested, rows) << print(call);
  });
}

// Every pair of special values, repeated so that each pair occurs in full vectors and in a tail.
struct Pairs {
  std::vector<float> x, y;
  Pairs() {
    for (int round = 0; round < 3; ++round)
      for (float a : specials)
        for (float b : specials) x.push_back(a), y.push_back(b);
  }
  std::int64_t count() const { return static_cast<std::int64_t>(x.size()); }
};

TEST(SpecialValues, MaximumAndMinimumPropagateNanAndOrderZeros) {
  const Pairs p;
  const auto expect = [&](const char* expr, float (*expected)(float, float)) {
    on_all_rows(
        call_of("pointwise", {f32({p.count()}), f32({p.count()})}, {f32({p.count()})}, {{"expr", std::string(expr)}}),
        {p.x, p.y}, 2, [&](KernelBench& bench) {
          for (std::size_t i = 0; i < p.x.size(); ++i) {
            const float result = bench.out[0].at<float>({static_cast<std::int64_t>(i)});
            EXPECT_TRUE(same(result, expected(p.x[i], p.y[i])))
                << expr << " of " << p.x[i] << " and " << p.y[i] << " is " << result;
          }
        });
  };
  expect("max(x0, x1)", expected_max);  // generated
  expect("min(x0, x1)", expected_min);
  expect("-min(-x0, -x1)", expected_max);  // interpreted
  expect("max(x0, 0) + 0 * select(x1 == x1, 0, 0)", [](float a, float) { return expected_relu(a); });
  expect("max(x0, 0)", [](float a, float) { return expected_relu(a); });
  expect("select(x0 <= 0, 0, x1)",
         [](float r, float dy) { return r <= 0 ? 0.0f : dy; });  // ReLU passes the gradient if its result r is NaN
}

TEST(SpecialValues, ComparisonsWithNanAreFalseExceptNotEqual) {
  const Pairs p;
  const std::pair<const char*, bool (*)(float, float)> comparisons[] = {{"x0 < x1", [](float a, float b) { return a < b; }},
                                                                        {"x0 <= x1", [](float a, float b) { return a <= b; }},
                                                                        {"x0 > x1", [](float a, float b) { return a > b; }},
                                                                        {"x0 >= x1", [](float a, float b) { return a >= b; }},
                                                                        {"x0 == x1", [](float a, float b) { return a == b; }},
                                                                        {"x0 != x1", [](float a, float b) { return !(a == b); }},
                                                                        {"!(x0 < x1)", [](float a, float b) { return !(a < b); }}};
  for (const auto& [expr, expected] : comparisons)
    on_all_rows(call_of("pointwise", {f32({p.count()}), f32({p.count()})}, {View(DType::b8, {p.count()})},
                        {{"expr", std::string(expr)}}),
                {p.x, p.y}, 2, [&](KernelBench& bench) {
                  for (std::size_t i = 0; i < p.x.size(); ++i)
                    EXPECT_EQ(bench.out[0].at<bool>({static_cast<std::int64_t>(i)}), expected(p.x[i], p.y[i]))
                        << expr << " for x0 = " << p.x[i] << " and x1 = " << p.y[i];
                });
}

TEST(SpecialValues, ReductionsFindANanOrAPositiveZeroAtAnyPosition) {
  for (const std::int64_t n : {1, 7, 16, 33, 100})
    for (std::int64_t position = 0; position<n; position += n> 40 ? 9 : 1)
      for (const auto& [other_value, special_value] : std::vector<std::pair<float, float>>{
               {1, nan}, {inf, nan}, {-inf, nan}, {-0.0f, 0.0f}, {0.0f, -0.0f}, {-inf, -inf}, {-largest, tiny}}) {
        std::vector<float> row(static_cast<std::size_t>(n), other_value), columns;
        row[static_cast<std::size_t>(position)] = special_value;
        for (float x : row) columns.insert(columns.end(), 3, x);
        for (const char* op : {"reduce_max", "reduce_min"}) {
          float expected = row[0];
          for (float x : row)
            expected = std::string(op) == "reduce_max" ? expected_max(expected, x) : expected_min(expected, x);
          on_all_rows(call_of(op, {f32({n})}, {f32({})}, {{"axes", Ints{0}}}), {row}, 2, [&](KernelBench& bench) {
            EXPECT_TRUE(same(bench.out[0].at<float>({}), expected))
                << special_value << " at " << position << " of " << n;
          });
          on_all_rows(call_of(op, {f32({n, 3})}, {f32({3})}, {{"axes", Ints{0}}}), {columns}, 2,
                      [&](KernelBench& bench) {
                        for (std::int64_t c = 0; c < 3; ++c)
                          EXPECT_TRUE(same(bench.out[0].at<float>({c}), expected))
                              << special_value << " at " << position << " of " << n;
                      });
        }
        if (std::isnan(special_value)) {
          on_all_rows(call_of("arg_max", {f32({n})}, {View(DType::i64, {})}, {{"axis", Attr(std::int64_t{0})}}), {row},
                      1, [&](KernelBench& bench) { EXPECT_EQ(bench.out[0].at<std::int64_t>({}), position); });
        }
      }
}

// If a team shares a reduction, the parts are reduced by the same rule.
TEST(SpecialValues, PartsOfATeamAreReducedByTheSameRule) {
  constexpr std::int64_t n = 70000;
  for (const auto& [other_value, special_value] : std::vector<std::pair<float, float>>{{1, nan}, {-0.0f, 0.0f}})
    for (const std::int64_t position : {std::int64_t{0}, n - 1}) {
      std::vector<float> row(n, other_value);
      row[static_cast<std::size_t>(position)] = special_value;
      CallSpec call = call_of("reduce_max", {f32({n})}, {f32({})}, {{"axes", Ints{0}}});
      call.team = 2;
      on_all_rows(call, {row}, 2, [&](KernelBench& bench) {
        EXPECT_TRUE(same(bench.out[0].at<float>({}), expected_max(other_value, special_value)));
      });
    }
}

TEST(SpecialValues, MaxPoolingPropagatesNan) {
  for (const bool tiles : {true, false})
    for (std::int64_t position = 0; position < 4; ++position)
      for (const float other_value : {1.0f, inf, -inf}) {
        const Ints kernel{2, 2}, stride = tiles ? Ints{2, 2} : Ints{1, 1};
        std::vector<float> pixels(4 * 20, other_value);  // [1, 20, 2, 2] in logical order
        for (std::size_t c = 0; c < 20; ++c) pixels[c * 4 + static_cast<std::size_t>(position)] = nan;
        on_all_rows(
            call_of("max_pool", {image({1, 20, 2, 2})}, {image({1, 20, 1, 1}), image({1, 20, 1, 1}, DType::i32)},
                    {{"kernel", kernel}, {"stride", stride}}),
            {pixels}, 2, [&](KernelBench& bench) {
              for (std::int64_t c = 0; c < 20; ++c) {
                EXPECT_TRUE(std::isnan(bench.out[0].at<float>({0, c, 0, 0})));
                EXPECT_EQ(bench.out[1].at<std::int32_t>({0, c, 0, 0}), position);
              }
            });
      }
}

// Tests a ReLU fused into a product. Each special value has one column (channel) and comes from the weight, times 1, or
// from the bias.
TEST(SpecialValues, AFusedReluKeepsNanAndClearsTheSignOfZero) {
  const auto n = static_cast<std::int64_t>(specials.size());
  for (const bool in_bias : {false, true}) {
    // y[m, c] = x[m, 0] w[0, c] + bias[c]; either w or bias is special.
    const std::vector<float> ones{1.0f}, zeros{0.0f};
    on_all_rows(
        call_of("matmul", {f32({5, 1}), f32({1, n}), f32({n})}, {f32({5, n})}, {{"bias", true}, {"relu", true}}),
        {ones, in_bias ? zeros : specials, in_bias ? specials : zeros}, 2, [&](KernelBench& bench) {
          for (std::int64_t m = 0; m < 5; ++m)
            for (std::int64_t c = 0; c < n; ++c)
              EXPECT_TRUE(same(bench.out[0].at<float>({m, c}), expected_relu(specials[static_cast<std::size_t>(c)])))
                  << specials[static_cast<std::size_t>(c)] << " became " << bench.out[0].at<float>({m, c});
        });
    on_all_rows(
        call_of("matmul", {f32({5, 1}), f32({1, n})}, {f32({5, n})}, {{"relu", true}}), {ones, specials}, 2,
        [&](KernelBench& bench) {
          for (std::int64_t c = 0; c < n; ++c)
            EXPECT_TRUE(same(bench.out[0].at<float>({4, c}), expected_relu(specials[static_cast<std::size_t>(c)])));
        });
    for (const std::int64_t channels : {1, 3}) {  // a separate kernel handles one input channel
      std::vector<float> weights;
      for (float x : specials)
        for (std::int64_t k = 0; k < channels; ++k) weights.push_back(k > 0 || in_bias ? 0.0f : x);
      on_all_rows(call_of("conv2d", {image({2, channels, 4, 5}), image({n, channels, 1, 1}), f32({n})},
                          {image({2, n, 4, 5})}, {{"bias", true}, {"relu", true}}),
                  {ones, weights, in_bias ? specials : zeros}, channels == 1 ? 3 : 2, [&](KernelBench& bench) {
                    for_each_index(bench.out[0].view.shape, [&](const auto& index) {
                      const float expected = expected_relu(specials[static_cast<std::size_t>(index[1])]);
                      EXPECT_TRUE(same(bench.out[0].at<float>(index), expected))
                          << expected << " became " << bench.out[0].at<float>(index);
                    });
                  });
    }
  }
}

// A team shares the ReLU pass after a large product; the pass covers every element and no byte past the result.
TEST(SpecialValues, ALargeFusedReluCoversTheWholeResult) {
  CallSpec call = call_of("matmul", {f32({301, 1}), f32({1, 230})}, {f32({301, 230})}, {{"relu", true}});
  call.team = 2;
  KernelBench bench(table().row("onednn.matmul"), call);
  fill(bench.in[0], {1.0f, -1.0f, nan});
  fill(bench.in[1], {2.0f});
  bench.run();
  for_each_index(bench.out[0].view.shape, [&](const auto& index) {
    const float expected = expected_relu(std::vector<float>{2.0f, -2.0f, nan}[static_cast<std::size_t>(index[0] % 3)]);
    ASSERT_TRUE(same(bench.out[0].at<float>(index), expected)) << index[0] << ", " << index[1];
  });
  for (std::size_t i = 301 * 230 * 4; i < bench.out[0].bytes.size(); ++i)
    ASSERT_EQ(bench.out[0].bytes[i], Buffer::unwritten) << "past the end";
}

TEST(SpecialValues, AFusedReluWithGapsRunsOnThePlainRow) {
  const View strided(DType::f32, {4, 3}, {5, 1});
  EXPECT_EQ(table().find(call_of("matmul", {f32({4, 2}), f32({2, 3})}, {strided}, {{"relu", true}}))->kernel,
            "plain.matmul");
}

// Reductions of no elements give the identity, which is the lowest or the highest number.
TEST(SpecialValues, AnEmptyReductionGivesTheIdentity) {
  const auto reduce_empty = [&]<class T>(const char* op) {
    auto out = run_plain(op, {filled<T>({0, 2}, {})}, {View(dtype_of<T>(), {2})}, {{"axes", Ints{0}}});
    return out[0].template at<T>({1});
  };
  EXPECT_EQ(reduce_empty.operator()<float>("reduce_max"), -inf);
  EXPECT_EQ(reduce_empty.operator()<float>("reduce_min"), inf);
  EXPECT_EQ(reduce_empty.operator()<std::int32_t>("reduce_max"), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(reduce_empty.operator()<std::int32_t>("reduce_min"), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(reduce_empty.operator()<std::int64_t>("reduce_max"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(reduce_empty.operator()<std::int64_t>("reduce_min"), std::numeric_limits<std::int64_t>::max());
}

TEST(SpecialValues, AConstantKeepsAllBitsOrIsRejected) {
  constexpr std::int64_t max_int = std::numeric_limits<std::int64_t>::max(),
                         min_int = std::numeric_limits<std::int64_t>::min();
  const auto constant = [](DType dtype, Attr value) {
    return run_plain("constant", {}, {View(dtype, {2})}, {{"value", std::move(value)}});
  };
  const auto padded = [](DType dtype, Attr value) {
    return run_plain("pad", {Buffer(View(dtype, {0}))}, {View(dtype, {2})},
                     {{"low", Ints{2}}, {"high", Ints{0}}, {"value", std::move(value)}});
  };
  for (const std::int64_t value : {max_int, min_int, (std::int64_t{1} << 53) + 1}) {
    EXPECT_EQ(constant(DType::i64, Attr(value))[0].at<std::int64_t>({1}), value);
    EXPECT_EQ(padded(DType::i64, Attr(value))[0].at<std::int64_t>({1}), value);
  }
  EXPECT_EQ(constant(DType::i64, Attr(-9223372036854775808.0))[0].at<std::int64_t>({0}), min_int);
  for (const double value : {9223372036854775808.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 0.5}) {
    EXPECT_THROW(constant(DType::i64, Attr(value)), Error) << value;
    EXPECT_THROW(padded(DType::i64, Attr(value)), Error) << value;
    EXPECT_THROW(constant(DType::i32, Attr(value)), Error) << value;
  }
  EXPECT_THROW(constant(DType::i32, Attr(std::int64_t{1} << 31)), Error);
  EXPECT_THROW(constant(DType::b8, Attr(std::int64_t{2})), Error);
}

}  // namespace
}  // namespace karez::kernels
