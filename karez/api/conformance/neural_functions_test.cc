// Tests of the functions of neural networks: products, pooling, normalisation, attention and losses. Results are
// compared with plain loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "karez/api/functions.h"
#include "karez/api/interactive.h"
#include "karez/api/namespace.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/testing/test_values.h"
#include "karez/api/world.h"

namespace karez {
namespace {

// An f64 array with elements of its own, which loops can read by index.
struct Matrix {
  HostArray array;
  explicit Matrix(Shape shape, std::uint64_t seed = 1) : array(random_doubles(std::move(shape), seed)) {}
  double operator()(std::initializer_list<std::int64_t> index) const {
    std::int64_t offset = 0;
    std::size_t d = 0;
    for (std::int64_t i : index) offset = offset * array.shape()[d++] + i;
    return array.data<double>()[static_cast<std::size_t>(offset)];
  }
  operator Term() const { return array; }
};

// Returns the values of `element` for each index into `shape`, in row-major order.
std::vector<double> elements(const Shape& shape, const std::function<double(const Ints&)>& element) {
  std::vector<double> out;
  for (std::int64_t n = 0; n < count_of(shape); ++n) {
    Ints index(shape.size());
    std::int64_t rest = n;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
    out.push_back(element(index));
  }
  return out;
}

void expect(std::string_view label, const Tensor& result, const Shape& shape,
            const std::function<double(const Ints&)>& element) {
  expect_values(label, result, {DType::f64, shape}, elements(shape, element), 1e-12);
}

struct NeuralFunctions : ::testing::Test {
  World world;
  Interactive scope{world.mesh()};
};

TEST_F(NeuralFunctions, Products) {
  const Matrix a({2, 3, 4}), b({2, 4, 5}, 2), w({5, 4}, 3), bias({5}, 4), c({3, 4}, 5);
  const auto product = [&](const Ints& i) {
    double sum = 0;
    for (std::int64_t k = 0; k < 4; ++k) sum += a({i[0], i[1], k}) * w({i[2], k});
    return sum;
  };
  expect("matmul", matmul(a, b), {2, 3, 5}, [&](const Ints& i) {
    double sum = 0;
    for (std::int64_t k = 0; k < 4; ++k) sum += a({i[0], i[1], k}) * b({i[0], k, i[2]});
    return sum;
  });
  expect("linear", linear(a, w), {2, 3, 5}, product);
  expect("linear with bias", linear(a, w, bias), {2, 3, 5}, [&](const Ints& i) { return product(i) + bias({i[2]}); });
  expect("einsum", einsum("bij,ij->jb", {a, c}), {4, 2}, [&](const Ints& i) {
    double sum = 0;
    for (std::int64_t k = 0; k < 3; ++k) sum += a({i[1], k, i[0]}) * c({k, i[0]});
    return sum;
  });
}

TEST_F(NeuralFunctions, ConvolutionsUseEachOption) {
  const Matrix x({2, 2, 7, 8}), w({3, 2, 2, 3}, 2), bias({3}, 3), line({2, 2, 9}, 4), kernel({3, 2, 3}, 5);
  for (const Conv2dOptions& o : {Conv2dOptions{}, Conv2dOptions{.stride = {2, 1}, .padding = {1, 2}},
                                 Conv2dOptions{.stride = {1, 3}, .padding = {0, 1}, .dilation = {3, 2}}}) {
    const Shape shape{2, 3, (7 + 2 * o.padding[0] - o.dilation[0] - 1) / o.stride[0] + 1,
                      (8 + 2 * o.padding[1] - 2 * o.dilation[1] - 1) / o.stride[1] + 1};
    const auto sum_of = [&](const Ints& i) {
      double sum = 0;
      for (std::int64_t c = 0; c < 2; ++c)
        for (std::int64_t r = 0; r < 2; ++r)
          for (std::int64_t s = 0; s < 3; ++s) {
            const std::int64_t p = i[2] * o.stride[0] - o.padding[0] + r * o.dilation[0],
                               q = i[3] * o.stride[1] - o.padding[1] + s * o.dilation[1];
            if (p >= 0 && p < 7 && q >= 0 && q < 8) sum += x({i[0], c, p, q}) * w({i[1], c, r, s});
          }
      return sum;
    };
    expect("conv2d", conv2d(x, w, o), shape, sum_of);
    expect("conv2d with bias", conv2d(x, w, bias, o), shape, [&](const Ints& i) { return sum_of(i) + bias({i[1]}); });
  }
  for (const Conv1dOptions& o : {Conv1dOptions{}, Conv1dOptions{.stride = 2, .padding = 1},
                                 Conv1dOptions{.stride = 1, .padding = 2, .dilation = 3}}) {
    const auto sum_of = [&](const Ints& i) {
      double sum = 0;
      for (std::int64_t c = 0; c < 2; ++c)
        for (std::int64_t s = 0; s < 3; ++s) {
          const std::int64_t q = i[2] * o.stride - o.padding + s * o.dilation;
          if (q >= 0 && q < 9) sum += line({i[0], c, q}) * kernel({i[1], c, s});
        }
      return sum;
    };
    const Shape shape{2, 3, (9 + 2 * o.padding - 2 * o.dilation - 1) / o.stride + 1};
    expect("conv1d", conv1d(line, kernel, o), shape, sum_of);
    expect("conv1d with bias", conv1d(line, kernel, bias, o), shape,
           [&](const Ints& i) { return sum_of(i) + bias({i[1]}); });
  }
}

TEST_F(NeuralFunctions, PoolingUsesEachOption) {
  const Matrix x({2, 2, 6, 7});
  struct Window {
    std::int64_t kernel, stride, padding;
  };
  for (const auto& [kernel, stride, padding] : {Window{2, 0, 0}, Window{3, 2, 1}, Window{2, 1, 0}, Window{3, 0, 1}}) {
    const std::int64_t step = stride == 0 ? kernel : stride, k = kernel, p = padding;
    const Shape shape{2, 2, (6 + 2 * p - k) / step + 1, (7 + 2 * p - k) / step + 1};
    const auto pooled = [&](const Ints& i, bool max) {
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (std::int64_t r = i[2] * step - p; r < i[2] * step - p + k; ++r)
        for (std::int64_t s = i[3] * step - p; s < i[3] * step - p + k; ++s) {
          if (r < 0 || r >= 6 || s < 0 || s >= 7) continue;
          largest = std::max(largest, x({i[0], i[1], r, s}));
          sum += x({i[0], i[1], r, s});
        }
      return max ? largest : sum / static_cast<double>(k * k);
    };
    expect("max_pool", max_pool(x, k, stride, p), shape, [&](const Ints& i) { return pooled(i, true); });
    expect("avg_pool", avg_pool(x, k, stride, p), shape, [&](const Ints& i) { return pooled(i, false); });
  }
}

// The mean and the variance of the elements x(index) for which `selects(index)` is true.
std::pair<double, double> statistics(const Matrix& x, const std::function<bool(const Ints&)>& selects) {
  double count = 0, sum = 0, squares = 0;
  const auto each = [&](const std::function<void(double)>& add) {
    std::size_t next = 0;
    elements(x.array.shape(), [&](const Ints& index) {
      const double value = x.array.data<double>()[next++];
      if (selects(index)) add(value);
      return 0;
    });
  };
  each([&](double value) { ++count, sum += value; });
  each([&](double value) { squares += (value - sum / count) * (value - sum / count); });
  return {sum / count, squares / count};
}

TEST_F(NeuralFunctions, Normalisation) {
  const Matrix x({2, 4, 3}), w({4, 3}, 2), bias({4, 3}, 3), row({3}, 4), scale({4}, 5), shift({4}, 6);
  const auto normalised = [&](const Ints& i, double eps, const std::function<bool(const Ints&)>& selects) {
    const auto [mean, variance] = statistics(x, selects);
    return (x({i[0], i[1], i[2]}) - mean) / std::sqrt(variance + eps);
  };
  for (const double eps : {1e-5, 0.5}) {
    expect(
        "layer_norm", eps == 0.5 ? layer_norm(x, w, bias, eps) : layer_norm(x, w, bias), {2, 4, 3}, [&](const Ints& i) {
          return normalised(i, eps, [&](const Ints& j) { return j[0] == i[0]; }) * w({i[1], i[2]}) + bias({i[1], i[2]});
        });
    expect("batch_norm", eps == 0.5 ? batch_norm(x, scale, shift, eps) : batch_norm(x, scale, shift), {2, 4, 3},
           [&](const Ints& i) {
             return normalised(i, eps, [&](const Ints& j) { return j[1] == i[1]; }) * scale({i[1]}) + shift({i[1]});
           });
    expect("group_norm", eps == 0.5 ? group_norm(x, 2, scale, shift, eps) : group_norm(x, 2, scale, shift), {2, 4, 3},
           [&](const Ints& i) {
             const auto selects = [&](const Ints& j) { return j[0] == i[0] && j[1] / 2 == i[1] / 2; };
             return normalised(i, eps, selects) * scale({i[1]}) + shift({i[1]});
           });
  }
  for (const std::optional<double> eps : {std::optional<double>(), std::optional(0.25)})
    expect("rms_norm", rms_norm(x, row, eps), {2, 4, 3}, [&](const Ints& i) {
      double squares = 0;
      for (std::int64_t k = 0; k < 3; ++k) squares += x({i[0], i[1], k}) * x({i[0], i[1], k});
      return x({i[0], i[1], i[2]}) / std::sqrt(squares / 3 + eps.value_or(0)) * row({i[2]});
    });
}

// The default eps of rms_norm decides about elements as small as its square root.
TEST_F(NeuralFunctions, TheDefaultEpsOfRmsNormIsTheMachineEpsilon) {
  const double small = 0x1p-26;
  EXPECT_NEAR(rms_norm(full({1}, small, DType::f64), full({1}, 1, DType::f64)).item(), 1 / std::sqrt(2), 1e-12);
  EXPECT_NEAR(rms_norm(full({1}, 0x1p-12), full({1}, 1)).item(), 1 / std::sqrt(3), 1e-6);
  EXPECT_NEAR(rms_norm(full({1}, 0x1p-12, DType::bf16), full({1}, 1, DType::bf16)).item(), 1 / std::sqrt(3), 1e-2);
}

// A mask of attention: whether query t may attend to key s, and the number that is added to the score.
struct Mask {
  std::function<bool(std::int64_t t, std::int64_t s)> visible = [](auto, auto) { return true; };
  std::function<double(std::int64_t t, std::int64_t s)> added = [](auto, auto) { return 0.0; };
};

TEST_F(NeuralFunctions, AttentionUsesEachOptionAndMask) {
  const Matrix q({2, 4, 3, 6}), k({2, 2, 5, 6}, 2), v({2, 2, 5, 3}, 3), added({3, 5}, 4);
  const HostArray allowed = HostArray::of<std::int32_t>({3, 5}, {1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1});
  const Mask no_mask,
      bool_mask{
          .visible = [&](auto t,
                         auto s) { return allowed.data<std::int32_t>()[static_cast<std::size_t>(t * 5 + s)] == 1; }},
      number_mask{.added = [&](auto t, auto s) {
        return added({t, s});
      }};
  const auto check = [&](const std::string& label, const AttentionOptions& o, const Mask& mask, const Tensor& weights,
                         const Tensor& result) {
    const auto weight = [&](std::int64_t n, std::int64_t h, std::int64_t t, std::int64_t key) {
      double total = 0, selected = 0;
      for (std::int64_t s = 0; s < 5; ++s) {
        double score = 0;
        for (std::int64_t d = 0; d < 6; ++d) score += q({n, h, t, d}) * k({n, h / 2, s, d});
        if (!mask.visible(t, s) || (o.causal && s > t)) continue;
        const double e = std::exp(score * o.scale.value_or(1 / std::sqrt(6)) + mask.added(t, s));
        total += e;
        if (s == key) selected = e;
      }
      return total == 0 ? 0 : selected / total;
    };
    expect(label + " weights", weights, {2, 4, 3, 5}, [&](const Ints& i) { return weight(i[0], i[1], i[2], i[3]); });
    expect(label, result, {2, 4, 3, 3}, [&](const Ints& i) {
      double sum = 0;
      for (std::int64_t s = 0; s < 5; ++s) sum += weight(i[0], i[1], i[2], s) * v({i[0], i[1] / 2, s, i[3]});
      return sum;
    });
  };
  const Term yes_or_no = Tensor(allowed) > 0;
  for (const AttentionOptions& o : {AttentionOptions{}, AttentionOptions{.causal = true}, AttentionOptions{.scale = 2},
                                    AttentionOptions{.causal = true, .scale = 0.1}}) {
    const std::string label = cat("causal ", o.causal, " scale ", o.scale.value_or(-1));
    check(label, o, no_mask, attention_weights(q, k, o), scaled_dot_product_attention(q, k, v, o));
    check(label + " bool mask", o, bool_mask, attention_weights(q, k, yes_or_no, o),
          scaled_dot_product_attention(q, k, v, yes_or_no, o));
    check(label + " added mask", o, number_mask, attention_weights(q, k, added, o),
          scaled_dot_product_attention(q, k, v, added, o));
  }
}

TEST_F(NeuralFunctions, RotaryPositionsUseEachOption) {
  const Matrix x({2, 3, 4});
  for (const RotaryOptions& o : {RotaryOptions{}, RotaryOptions{.base = 10}, RotaryOptions{.first = 5},
                                 RotaryOptions{.base = 100, .first = 2, .interleaved = true}})
    expect(cat("base ", o.base), rotary(x, o), {2, 3, 4}, [&](const Ints& i) {
      const std::int64_t pair = o.interleaved ? i[2] / 2 : i[2] % 2;
      const bool is_first = o.interleaved ? i[2] % 2 == 0 : i[2] < 2;
      const double angle = static_cast<double>(o.first + i[1]) * std::pow(o.base, -2 * static_cast<double>(pair) / 4);
      const double a = x({i[0], i[1], o.interleaved ? 2 * pair : pair}),
                   b = x({i[0], i[1], o.interleaved ? 2 * pair + 1 : pair + 2});
      return is_first ? a * std::cos(angle) - b * std::sin(angle) : a * std::sin(angle) + b * std::cos(angle);
    });
}

TEST_F(NeuralFunctions, LossesAndCounts) {
  const Matrix x({5, 3});
  const std::vector<std::int64_t> y = {2, 0, 1, 1, 2};
  const std::vector<double> w = {0.5, 2, 0, 1, 3};
  const HostArray labels = HostArray::of<std::int64_t>({5}, y), weights = HostArray::of<double>({5}, w);
  const auto loss = [&](std::int64_t row) {
    double sum = 0;
    for (std::int64_t c = 0; c < 3; ++c) sum += std::exp(x({row, c}));
    return std::log(sum) - x({row, y[static_cast<std::size_t>(row)]});
  };
  const auto is_correct = [&](std::int64_t row) {
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < 3; ++c)
      if (x({row, c}) > x({row, best})) best = c;
    return best == y[static_cast<std::size_t>(row)];
  };
  for (const std::optional<std::int64_t> ignored : {std::optional<std::int64_t>(), std::optional<std::int64_t>(1)}) {
    double count = 0, sum = 0, weight_sum = 0, weighted_sum = 0;
    for (std::int64_t row = 0; row < 5; ++row) {
      if (ignored == y[static_cast<std::size_t>(row)]) continue;
      const double weight = w[static_cast<std::size_t>(row)];
      ++count, sum += loss(row), weight_sum += weight, weighted_sum += weight * loss(row);
    }
    const CrossEntropyOptions options{.ignore_index = ignored};
    expect("cross_entropy", cross_entropy(x, labels, options), {}, [&](const Ints&) { return sum / count; });
    expect("cross_entropy with weights", cross_entropy(x, labels, weights, options), {},
           [&](const Ints&) { return weighted_sum / weight_sum; });
  }
  double correct = 0, correct_weight = 0;
  for (std::int64_t row = 0; row < 5; ++row)
    if (is_correct(row)) ++correct, correct_weight += w[static_cast<std::size_t>(row)];
  ASSERT_GT(correct, 0);
  ASSERT_LT(correct, 5);
  EXPECT_EQ(correct_count(x, labels).item(), correct);
  EXPECT_NEAR(correct_count(x, labels, weights).item(), correct_weight, 1e-12);
  EXPECT_EQ(cross_entropy(x, labels, Tensor(weights) * 0 + 1).dtype(), DType::f64);
  EXPECT_EQ(cross_entropy(cast(x, DType::f32), labels, weights).dtype(), DType::f32)
      << "weights must be cast to the dtype of the logits";
}

}  // namespace
}  // namespace karez
