// Tests of statistics, norms and normalising functions against loops over numbers, on one device and on meshes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "tests/expect_function.h"

namespace karez::tests {
namespace {
using ::testing::HasSubstr;

TEST(Statistics, VariancesAndNormsMatchLoops) {
  const HostArray x = random_array({6, 5}, 1);
  const Numbers n = numbers_of(x);
  for (std::int64_t correction : {0, 1}) {
    Numbers var, root;
    for (std::size_t r = 0; r < 6; ++r) {
      double mean = 0, squares = 0;
      for (std::size_t c = 0; c < 5; ++c) mean += n[r * 5 + c] / 5;
      for (std::size_t c = 0; c < 5; ++c) squares += (n[r * 5 + c] - mean) * (n[r * 5 + c] - mean);
      var.push_back(squares / static_cast<double>(5 - correction));
      root.push_back(std::sqrt(var.back()));
    }
    expect_function(
        "var", [&](auto in) { return karez::var(in[0], {-1}, false, correction); }, {x}, var);
    expect_function(
        "stddev", [&](auto in) { return stddev(in[0], {1}, true, correction); }, {x}, root);
  }
  for (double p : {0., 1., 2., 3., HUGE_VAL}) {
    Numbers expected;
    for (std::size_t c = 0; c < 5; ++c) {
      double sum = 0, largest = 0;
      for (std::size_t r = 0; r < 6; ++r)
        sum += std::pow(std::abs(n[r * 5 + c]), p), largest = std::max(largest, std::abs(n[r * 5 + c]));
      expected.push_back(std::isinf(p) ? largest : p == 0 ? 6 : std::pow(sum, 1 / p));
    }
    if (p == 0) expected = Numbers(5, 6.0);
    expect_function(
        cat("norm ", p), [&](auto in) { return norm(in[0], p, {0}); }, {x}, expected);
  }
  expect_near(run("",
                  [](auto in) {
                    return std::vector{norm(in[0], 2), grad(norm(in[0], 2), in)[0]};
                  },
                  {array({3}, {0, 0, 0})})[1],
              {0, 0, 0}, "the gradient of a norm at the origin");
  EXPECT_THAT(error_of([](auto in) { return std::vector{karez::var(in[0], {0})}; }, {array({1}, {2})}),
              HasSubstr("variance: correction must be at least 0 and less than the number of elements (1), got 1"));
}

TEST(Statistics, StatisticsOfBoolsAndIndicesMatchLoops) {
  const HostArray x = array({3, 4}, {1, -2, 3, 0, /**/ -1, -1, -5, -5, /**/ 2, 2, 2, std::nan("")});
  for (const char* mesh : meshes) {
    auto got = run(mesh,
                   [](auto in) {
                     Tensor above = in[0] > 0;
                     return std::vector{
                         any(above, {1}), all(above, {1}),       any(above),
                         all(above),      arg_min(in[0]),        clip(in[0], -1, 2),
                         clip(in[0], 0),  any(above, {0}, true), arg_min(cast(in[0] * 1e18 * -1e18 > 0, DType::i32))};
                   },
                   {x});
    expect_near(got[0], {1, 0, 1}, "any");
    expect_near(got[1], {0, 0, 0}, "all");
    expect_near(got[2], {1}, "any over all elements");
    expect_near(got[3], {0}, "all over all elements");
    expect_near(got[4], {1, 2, 3}, "arg_min: the first of equal elements; a NaN precedes all numbers");
    expect_near(got[5], {1, -1, 2, 0, -1, -1, -1, -1, 2, 2, 2, std::nan("")}, "clip");
    expect_near(got[6], {1, 0, 3, 0, 0, 0, 0, 0, 2, 2, 2, std::nan("")}, "clip from below");
    expect_near(got[7], {1, 1, 1, 0}, "any with a kept dimension");
  }
  HostArray integers(TensorType{DType::i64, {3}});
  integers.data<std::int64_t>()[0] = 5, integers.data<std::int64_t>()[1] = std::numeric_limits<std::int64_t>::min(),
  integers.data<std::int64_t>()[2] = -7;
  expect_near(run("", [](auto in) { return std::vector{arg_min(in[0])}; }, {integers})[0], {1},
              "arg_min of the smallest integer");
  EXPECT_THAT(error_of([](auto in) { return std::vector{any(in[0])}; }, {x}),
              HasSubstr("any: expected bool, got f64[3, 4]"));
  EXPECT_THAT(error_of([](auto in) { return std::vector{clip(in[0], 2, 1)}; }, {x}),
              HasSubstr("the lower bound 2.0 is above the upper bound 1.0"));
}

TEST(Norms, LayerNormAndRmsNormMatchLoops) {
  const HostArray x = random_array({4, 3, 4}, 2), w = random_array({3, 4}, 3), b = random_array({3, 4}, 4),
                  row = random_array({4}, 5);
  const Numbers n = numbers_of(x), weight = numbers_of(w), bias = numbers_of(b), r = numbers_of(row);
  Numbers layer, rms;
  for (std::size_t i = 0; i < 4; ++i) {
    double mean = 0, squares = 0;
    for (std::size_t e = 0; e < 12; ++e) mean += n[i * 12 + e] / 12;
    for (std::size_t e = 0; e < 12; ++e) squares += (n[i * 12 + e] - mean) * (n[i * 12 + e] - mean) / 12;
    for (std::size_t e = 0; e < 12; ++e)
      layer.push_back((n[i * 12 + e] - mean) / std::sqrt(squares + 1e-5) * weight[e] + bias[e]);
  }
  for (std::size_t i = 0; i < 12; ++i) {
    double squares = 0;
    for (std::size_t e = 0; e < 4; ++e) squares += n[i * 4 + e] * n[i * 4 + e] / 4;
    for (std::size_t e = 0; e < 4; ++e)
      rms.push_back(n[i * 4 + e] / std::sqrt(squares + std::numeric_limits<double>::epsilon()) * r[e]);
  }
  expect_function(
      "layer_norm", [](auto in) { return layer_norm(in[0], in[1], in[2]); }, {x, w, b}, layer);
  expect_function(
      "rms_norm", [](auto in) { return rms_norm(in[0], in[1]); }, {x, row}, rms);
  EXPECT_THAT(error_of([](auto in) { return std::vector{rms_norm(in[0], in[1])}; }, {x, b}), HasSubstr("no error"));
  EXPECT_THAT(error_of([](auto in) { return std::vector{rms_norm(in[0], in[1])}; }, {row, b}),
              HasSubstr("rms_norm: the number of normalised dimensions must be from 1 to the rank of x f64[4], got 2"));
  EXPECT_THAT(
      error_of([](auto in) { return std::vector{layer_norm(in[0], in[1], in[1])}; }, {x, random_array({3}, 1)}),
      HasSubstr("layer_norm: weight and bias must be f64 with the last dimensions of x f64[4, 3, 4], got f64[3]"));
}

}  // namespace
}  // namespace karez::tests
