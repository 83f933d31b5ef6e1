// Batch and group normalisation by channel (dimension 1 of [n, c, ...]) and conv1d, composed of primitive ops.
#include <algorithm>
#include <cmath>

#include "karez/ops/compose.h"
#include "karez/ops/norms.h"

namespace karez::ops::build {
namespace {

void require_channels(std::string_view what, const TensorType& x) {
  require(ErrorKind::shape, x.rank() >= 2, what, ": x must be [n, c, ...], got ", x);
  require(ErrorKind::type, is_float(x.dtype), what, ": expected f32 or f64, got ", x, "; cast it first");
}

void require_per_channel(std::string_view what, const TensorType& v, const TensorType& x) {
  require(ErrorKind::shape, v.shape == Shape{x.shape[1]} && v.dtype == x.dtype, what, ": ", v, " does not match ", x,
          ", which has ", x.shape[1], " channels");
}

// v [c], widened and reshaped to [c, 1, ...], which broadcasts over the dimensions after the channels of x; x is
// widened too.
ValueId by_channel(Builder& b, std::string_view what, ValueId v, const TensorType& x) {
  v = widened(b, v);
  require_per_channel(what, b.type(v), x);
  Shape shape(static_cast<std::size_t>(x.rank() - 1), 1);
  shape[0] = x.shape[1];
  return reshape(b, v, shape);
}

// x [n, c, ...] as [parts, n / parts, c, ...].
ValueId in_parts(Builder& b, ValueId x, std::int64_t parts) {
  Shape shape = b.type(x).shape;
  shape[0] /= parts;
  shape.insert(shape.begin(), parts);
  return reshape(b, x, shape);
}

// v [parts, c] as [parts, 1, c, 1, ...], which broadcasts with in_parts(x).
ValueId by_part(Builder& b, ValueId v, const TensorType& x) {
  Shape shape(static_cast<std::size_t>(x.rank() + 1), 1);
  shape[0] = b.type(v).shape[0];
  shape[2] = b.type(v).shape[1];
  return reshape(b, v, shape);
}

Ints all_but_channels(const TensorType& x) {
  Ints axes{0};
  for (std::int64_t d = 2; d < x.rank(); ++d) axes.push_back(d);
  return axes;
}

}  // namespace

ChannelStatistics channel_statistics(Builder& b, ValueId x, std::int64_t parts) {
  require_channels("batch_norm", b.type(x));
  x = widened(b, x);
  const TensorType type = b.type(x);
  require(ErrorKind::shape, type.count() > type.shape[1] * parts, "batch_norm: ", type, " has ",
          type.shape[1] == 0 ? 0 : type.count() / type.shape[1] / parts, " elements per channel",
          parts == 1 ? "" : " and micro-batch", "; batch statistics require more than 1");
  if (parts > 1) {
    const ValueId parted = in_parts(b, x, parts);
    Ints axes{1};
    for (std::int64_t d = 3; d <= type.rank(); ++d) axes.push_back(d);
    const ValueId average = mean(b, parted, axes), centred = binary(b, "sub", parted, by_part(b, average, type));
    return {average, mean(b, mul(b, centred, centred), axes)};
  }
  const Ints axes = all_but_channels(type);
  const ValueId average = mean(b, x, axes), centred = binary(b, "sub", x, by_channel(b, "batch_norm", average, type));
  return {average, mean(b, mul(b, centred, centred), axes)};
}

ValueId batch_norm(Builder& b, ValueId x, const ChannelStatistics& statistics, double eps, ValueId weight,
                   ValueId bias) {
  const DType dtype = b.type(x).dtype;
  require_channels("batch_norm", b.type(x));
  x = widened(b, x);
  const TensorType type = b.type(x);
  weight = widened(b, weight);
  require_per_channel("batch_norm", b.type(weight), type);
  if (b.type(statistics.mean).rank() == 2) {
    const ValueId variance = widened(b, statistics.variance),
                  inverse_std = rsqrt(b, add(b, variance, full_like(b, variance, eps)));
    const ValueId parted = in_parts(b, x, b.type(inverse_std).shape[0]),
                  centred = binary(b, "sub", parted, by_part(b, statistics.mean, type));
    const ValueId scaled =
        reshape(b, binary(b, "mul", centred, by_part(b, binary(b, "mul", inverse_std, weight), type)), type.shape);
    return cast(b, binary(b, "add", scaled, by_channel(b, "batch_norm", bias, type)), dtype);
  }
  const auto at = [&](ValueId v) { return by_channel(b, "batch_norm", v, type); };
  const ValueId variance = widened(b, statistics.variance),
                inverse_std = rsqrt(b, add(b, variance, full_like(b, variance, eps)));
  const ValueId centred = binary(b, "sub", x, at(statistics.mean));
  const ValueId shift = at(bias);
  const ValueId scale = at(mul(b, inverse_std, weight));
  return cast(b, binary(b, "add", binary(b, "mul", centred, scale), shift), dtype);
}

ValueId group_norm(Builder& b, ValueId x, std::int64_t groups, double eps, ValueId weight, ValueId bias) {
  const DType dtype = b.type(x).dtype;
  require_channels("group_norm", b.type(x));
  x = widened(b, x);
  const TensorType type = b.type(x);
  require(ErrorKind::shape, groups >= 1 && type.shape[1] % groups == 0, "group_norm: ", groups,
          " groups do not divide the channels of ", type);
  Shape parted{type.shape[0], groups, type.shape[1] / groups};
  parted.insert(parted.end(), type.shape.begin() + 2, type.shape.end());
  Ints axes;
  for (std::int64_t d = 2; d < static_cast<std::int64_t>(parted.size()); ++d) axes.push_back(d);
  const ValueId in_groups = reshape(b, x, parted),
                centred = binary(b, "sub", in_groups, mean(b, in_groups, axes, true));
  const ValueId variance = mean(b, mul(b, centred, centred), axes, true);
  const ValueId normal = binary(b, "mul", centred, rsqrt(b, add(b, variance, full_like(b, variance, eps))));
  const ValueId y = reshape(b, normal, type.shape);
  const ValueId scaled = binary(b, "mul", y, by_channel(b, "group_norm", weight, type));
  return cast(b, binary(b, "add", scaled, by_channel(b, "group_norm", bias, type)), dtype);
}

ValueId conv1d(Builder& b, ValueId x, ValueId w, const Conv1dOptions& options, std::optional<ValueId> bias) {
  const TensorType image = b.type(x), kernel = b.type(w);
  require(ErrorKind::shape, image.rank() == 3 && kernel.rank() == 3,
          "conv1d: takes x [n, c, l] and weight [o, c, k], not ", image, " and ", kernel);
  const auto flat = [&](ValueId v, const TensorType& type) {
    return reshape(b, v, {type.shape[0], type.shape[1], 1, type.shape[2]});
  };
  const ConvOptions wide{
      .stride = {1, options.stride}, .padding = {0, options.padding}, .dilation = {1, options.dilation}};
  const ValueId y = bias ? conv2d_bias(b, flat(x, image), flat(w, kernel), *bias, wide)
                         : conv2d(b, flat(x, image), flat(w, kernel), wide);
  const Shape shape = b.type(y).shape;
  return reshape(b, y, {shape[0], shape[1], shape[3]});
}

}  // namespace karez::ops::build
