// Computes the weights of resized images as PIL does.
#include "karez/kernels/cpu/resize_weights.h"

#include <algorithm>
#include <cmath>

namespace karez::kernels {
namespace {

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

double keys(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

}  // namespace

ResizeWeights resize_weights(std::int64_t in, std::int64_t out, bool bicubic) {
  const double step = static_cast<double>(in) / static_cast<double>(out), width = std::max(step, 1.0),
               support = (bicubic ? 2 : 1) * width;
  ResizeWeights result;
  result.stride = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  result.weights.resize(result.stride * static_cast<std::size_t>(out));
  for (std::int64_t i = 0; i < out; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * step;
    const auto begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - support + 0.5));
    const auto end = std::min(in, static_cast<std::int64_t>(centre + support + 0.5));
    result.first.push_back(begin), result.count.push_back(end - begin);
    double* weights = result.weights.data() + static_cast<std::size_t>(i) * result.stride;
    double sum = 0;
    for (std::int64_t t = begin; t < end; ++t) {
      const double x = (static_cast<double>(t) - centre + 0.5) / width;
      sum += weights[t - begin] = bicubic ? keys(x) : triangle(x);
    }
    for (std::int64_t t = 0; t < end - begin; ++t) weights[t] /= sum == 0 ? 1 : sum;
  }
  return result;
}

// The windows of consecutive output pixels do not move back, so the output pixels of an input pixel are consecutive.
ResizeWeights transposed(const ResizeWeights& weights, std::int64_t in) {
  ResizeWeights out;
  const auto end = [&](std::size_t i) { return weights.first[i] + weights.count[i]; };
  for (std::int64_t t = 0; t < in; ++t) {
    std::size_t first = out.first.empty() ? 0 : static_cast<std::size_t>(out.first.back()), last = first;
    while (first < weights.first.size() && end(first) <= t) ++first;
    for (last = std::max(first, last); last < weights.first.size() && weights.first[last] <= t;) ++last;
    out.first.push_back(static_cast<std::int64_t>(first)), out.count.push_back(static_cast<std::int64_t>(last - first));
    out.stride = std::max(out.stride, last - first);
  }
  out.weights.resize(out.stride * out.first.size());
  for (std::size_t t = 0; t < out.first.size(); ++t)
    for (std::size_t k = 0; k < static_cast<std::size_t>(out.count[t]); ++k) {
      const std::size_t i = static_cast<std::size_t>(out.first[t]) + k;
      out.weights[t * out.stride + k] =
          weights.weights[i * weights.stride + t - static_cast<std::size_t>(weights.first[i])];
    }
  return out;
}

std::int32_t fixed_resize_weight(double weight) {
  const double scaled = weight * (1 << resize_weight_bits);
  return static_cast<std::int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

}  // namespace karez::kernels
