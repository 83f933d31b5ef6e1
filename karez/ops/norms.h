// Statistics over axes and normalisations by them: compositions, so that the sharding rules apply.
#pragma once

#include <cstdint>
#include <optional>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

// Mean of squared distances from the mean; the sum is divided by the count minus `correction` (1: sample variance).
// Negative axes count from the end.
ValueId variance(Builder& b, ValueId x, const Ints& axes, bool keep = false, std::int64_t correction = 1);
// (sum of |x|^p)^(1/p); p = 0 counts nonzero elements, infinity gives the largest |x|. The gradient at the origin is 0.
ValueId vector_norm(Builder& b, ValueId x, double p, const Ints& axes, bool keep = false);
// x limited to low and high, each optional; NaN stays NaN. The gradient passes within and at the bounds, as in PyTorch.
ValueId clip(Builder& b, ValueId x, std::optional<double> low, std::optional<double> high);

// Over the last `dimensions` dimensions: (x - mean) / sqrt(variance + eps) * weight + bias; Ba, Kiros and
// Hinton, 2016.
ValueId layer_norm(Builder& b, ValueId x, std::int64_t dimensions, double eps, std::optional<ValueId> weight = {},
                   std::optional<ValueId> bias = {});
// Over the last `dimensions` dimensions: x / sqrt(mean(x^2) + eps) * weight; Zhang and Sennrich, 2019.
ValueId rms_norm(Builder& b, ValueId x, std::int64_t dimensions, double eps, std::optional<ValueId> weight = {});

// By channel, dimension 1 of x [n, c, ...]: mean and (biased) variance over all other dimensions, [c] each, of the
// whole batch however it is split. f32 for halves.
struct ChannelStatistics {
  ValueId mean, variance;
};
// With parts: of each of `parts` equal consecutive parts of dimension 0, [parts, c].
ChannelStatistics channel_statistics(Builder& b, ValueId x, std::int64_t parts = 1);
// (x - mean) / sqrt(variance + eps) * weight + bias, all [c]; Ioffe and Szegedy, 2015.
ValueId batch_norm(Builder& b, ValueId x, const ChannelStatistics& statistics, double eps, ValueId weight,
                   ValueId bias);
// Over each of `groups` groups of channels and all dimensions after them; weight and bias [c]; Wu and He, 2018.
ValueId group_norm(Builder& b, ValueId x, std::int64_t groups, double eps, ValueId weight, ValueId bias);

struct Conv1dOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1;
};
// x [n, c, l], w [o, c, k], bias [o] -> [n, o, m]: a conv2d of images of height 1.
ValueId conv1d(Builder& b, ValueId x, ValueId w, const Conv1dOptions& options = {}, std::optional<ValueId> bias = {});

}  // namespace karez::ops::build
