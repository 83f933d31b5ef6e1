// Statistics and normalisation over axes, composed of primitive ops so that the sharding rules apply.
#pragma once

#include <cstdint>
#include <optional>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

// Returns the variance: the sum of squared distances from the mean, divided by the count minus `correction` (1 for the
// sample variance). Negative axes count from the end.
ValueId variance(Builder& b, ValueId x, const Ints& axes, bool keep = false, std::int64_t correction = 1);
// Returns (sum of |x|^p)^(1/p). If p is 0, returns the number of nonzero elements; if p is infinite, returns the
// largest |x|. The gradient at the origin is 0.
ValueId vector_norm(Builder& b, ValueId x, double p, const Ints& axes, bool keep = false);
// Limits x to the optional bounds; NaN stays NaN. As in PyTorch, x gets the gradient if it is between the bounds or
// equal to one of them.
ValueId clip(Builder& b, ValueId x, std::optional<double> low, std::optional<double> high);

// Returns (x - mean) / sqrt(variance + eps) * weight + bias, with statistics over the last `dimensions` dimensions (Ba,
// Kiros and Hinton, 2016).
ValueId layer_norm(Builder& b, ValueId x, std::int64_t dimensions, double eps, std::optional<ValueId> weight = {},
                   std::optional<ValueId> bias = {});
// Returns x / sqrt(mean(x^2) + eps) * weight, with the mean over the last `dimensions` dimensions (Zhang and Sennrich,
// 2019).
ValueId rms_norm(Builder& b, ValueId x, std::int64_t dimensions, double eps, std::optional<ValueId> weight = {});

// Mean and (biased) variance [c] of each channel of x [n, c, ...], over all other dimensions of the logical batch, for
// every layout. They are f32 if x is bf16 or f16.
struct ChannelStatistics {
  ValueId mean, variance;
};
// Returns the statistics of x. If parts > 1, returns the statistics [parts, c] of `parts` equal consecutive parts of
// dimension 0.
ChannelStatistics channel_statistics(Builder& b, ValueId x, std::int64_t parts = 1);
// Returns (x - mean) / sqrt(variance + eps) * weight + bias, where all operands except x are [c] (Ioffe and Szegedy,
// 2015).
ValueId batch_norm(Builder& b, ValueId x, const ChannelStatistics& statistics, double eps, ValueId weight,
                   ValueId bias);
// Normalises each of `groups` groups of channels over the channels and all dimensions after them; weight and bias are
// [c] (Wu and He, 2018).
ValueId group_norm(Builder& b, ValueId x, std::int64_t groups, double eps, ValueId weight, ValueId bias);

struct Conv1dOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1;
};
// Applies a 1D convolution, x [n, c, l], w [o, c, k], bias [o] -> [n, o, m], as a conv2d of images of height 1.
ValueId conv1d(Builder& b, ValueId x, ValueId w, const Conv1dOptions& options = {}, std::optional<ValueId> bias = {});

}  // namespace karez::ops::build
