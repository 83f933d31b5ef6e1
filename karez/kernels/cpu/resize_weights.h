// The weights with which images are resized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// Output pixel i of a row or column is the sum of the input pixels first[i], first[i] + 1, ... with the `count[i]`
// weights that begin at weights[i * stride], whose sum is 1.
struct ResizeWeights {
  std::vector<std::int64_t> first, count;
  std::vector<double> weights;
  std::size_t stride = 0;
};

// The weights of PIL's Image.resize: a triangle, or with `bicubic` Keys' filter with a = -0.5. A filter that reduces
// the size is as wide as the step between output pixels requires.
ResizeWeights resize_weights(std::int64_t in, std::int64_t out, bool bicubic);
// The weights of the gradient: the sums over the output pixels to which each of `in` input pixels contributes.
ResizeWeights transposed(const ResizeWeights& weights, std::int64_t in);

// For bytes, weights are rounded to integers with 22 bits after the point.
constexpr int resize_weight_bits = 22;
std::int32_t fixed_resize_weight(double weight);

}  // namespace karez::kernels
