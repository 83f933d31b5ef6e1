// Tests of attention and rotary positions against loops over numbers, on one device and on meshes.
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

// The sizes: batch, query heads, key heads, queries, keys, elements of a query or key, and elements of a value.
struct Heads {
  std::size_t n = 2, h = 4, g = 4, t = 3, s = 3, d = 2, e = 2;
};

// Computes attention with loops. Query t sees key s if is_visible(t, s), and added(t, s) is added to their score.
Numbers attention(const Heads& z, const Numbers& q, const Numbers& k, const Numbers& v,
                  const std::function<bool(std::size_t, std::size_t)>& is_visible,
                  const std::function<double(std::size_t, std::size_t)>& added, double scale) {
  Numbers out;
  for (std::size_t n = 0; n < z.n; ++n)
    for (std::size_t h = 0; h < z.h; ++h)
      for (std::size_t t = 0; t < z.t; ++t) {
        const std::size_t g = h / (z.h / z.g);
        Numbers weight(z.s, 0.0);
        double total = 0;
        for (std::size_t s = 0; s < z.s; ++s) {
          if (!is_visible(t, s)) continue;
          double dot = 0;
          for (std::size_t d = 0; d < z.d; ++d)
            dot += q[((n * z.h + h) * z.t + t) * z.d + d] * k[((n * z.g + g) * z.s + s) * z.d + d];
          total += weight[s] = std::exp(dot * scale + added(t, s));
        }
        for (std::size_t e = 0; e < z.e; ++e) {
          double sum = 0;
          for (std::size_t s = 0; s < z.s; ++s)
            sum += total == 0 ? 0 : weight[s] / total * v[((n * z.g + g) * z.s + s) * z.e + e];
          out.push_back(sum);
        }
      }
  return out;
}

TEST(Attention, TheResultMatchesLoops) {
  const auto all_visible = [](std::size_t, std::size_t) { return true; };
  const auto past = [](std::size_t t, std::size_t s) { return s <= t; };
  const auto no_bias = [](std::size_t, std::size_t) { return 0.0; };
  for (Heads z : {Heads{}, Heads{.h = 6, .g = 2}, Heads{.h = 4, .g = 1, .s = 5, .e = 3}}) {
    auto dims = [](auto... sizes) { return Shape{static_cast<std::int64_t>(sizes)...}; };
    const HostArray q = random_array(dims(z.n, z.h, z.t, z.d), 1), k = random_array(dims(z.n, z.g, z.s, z.d), 2),
                    v = random_array(dims(z.n, z.g, z.s, z.e), 3);
    const Numbers a = numbers_of(q), b = numbers_of(k), c = numbers_of(v);
    const double scale = 1 / std::sqrt(static_cast<double>(z.d));
    expect_function(
        "attention", [](auto in) { return scaled_dot_product_attention(in[0], in[1], in[2]); }, {q, k, v},
        attention(z, a, b, c, all_visible, no_bias, scale));
    expect_function(
        "causal attention",
        [](auto in) { return scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true, .scale = 0.7}); },
        {q, k, v}, attention(z, a, b, c, past, no_bias, 0.7));
    if (z.h == 6) continue;  // masks are equal for all heads
    const HostArray mask = random_array(dims(z.t, z.s), 9);
    const Numbers m = numbers_of(mask);
    expect_function(
        "attention with an additive mask",
        [](auto in) { return scaled_dot_product_attention(in[0], in[1], in[2], in[3]); }, {q, k, v, mask},
        attention(
            z, a, b, c, all_visible, [&](std::size_t t, std::size_t s) { return m[t * z.s + s]; }, scale));
    // The second query has no visible key.
    const auto is_visible = [&](std::size_t t, std::size_t s) { return t != 1 && m[t * z.s + s] < 0.5; };
    expect_function(
        "masked attention",
        [&](auto in) {
          Tensor see = logical_and(full(mask.type().shape, 0.5, DType::f64) > stop_gradient(in[3]),
                                   not_equal(iota({3, 1}, 0), 1));
          return scaled_dot_product_attention(in[0], in[1], in[2], see) + 0 * sum(in[3]);
        },
        {q, k, v, mask}, attention(z, a, b, c, is_visible, no_bias, scale));
  }
}

TEST(Attention, ShapesThatDoNotMatchAreRejected) {
  const HostArray q = random_array({2, 4, 3, 2}, 1), k = random_array({2, 3, 3, 2}, 2),
                  d = random_array({2, 4, 3, 4}, 3), flat = random_array({3, 2}, 4);
  auto error_for = [](const HostArray& a, const HostArray& b, const HostArray& c) {
    return error_of([](auto in) { return std::vector{scaled_dot_product_attention(in[0], in[1], in[2])}; }, {a, b, c});
  };
  EXPECT_THAT(error_for(q, k, k),
              HasSubstr("3 key heads do not divide 4 query heads: q f64[2, 4, 3, 2], k f64[2, 3, 3, 2]"));
  EXPECT_THAT(error_for(q, d, d), HasSubstr("queries have 2 elements, but keys have 4"));
  EXPECT_THAT(error_for(q, q, k), HasSubstr("k and v may differ only in their last dimension"));
  EXPECT_THAT(error_for(flat, flat, flat), HasSubstr("have equal ranks"));
  EXPECT_THAT(error_of(
                  [](auto in) {
                    return std::vector{scaled_dot_product_attention(in[0], in[0], in[0], cast(in[0] > 0, DType::i32))};
                  },
                  {q}),
              HasSubstr("the mask must be bool or f64, got i32"));
}

TEST(Rotary, PairsAreRotatedByTheirPosition) {
  const HostArray x = random_array({2, 3, 5, 6}, 6);
  const Numbers n = numbers_of(x);
  for (bool interleaved : {false, true}) {
    Numbers expected(n.size());
    for (std::size_t row = 0; row < 6; ++row)
      for (std::size_t t = 0; t < 5; ++t)
        for (std::size_t i = 0; i < 3; ++i) {
          const std::size_t base = (row * 5 + t) * 6, first = base + (interleaved ? 2 * i : i),
                            second = base + (interleaved ? 2 * i + 1 : i + 3);
          const auto rotated =
              std::complex(n[first], n[second]) *
              std::polar(1.0, static_cast<double>(t + 7) * std::pow(100.0, -static_cast<double>(2 * i) / 6));
          expected[first] = rotated.real(), expected[second] = rotated.imag();
        }
    expect_function(
        "rotary", [&](auto in) { return rotary(in[0], {.base = 100, .first = 7, .interleaved = interleaved}); }, {x},
        expected);
  }
  EXPECT_THAT(error_of([](auto in) { return std::vector{rotary(in[0])}; }, {random_array({2, 3}, 1)}),
              HasSubstr("with an even d, got f64[2, 3]"));
}

}  // namespace
}  // namespace karez::tests
