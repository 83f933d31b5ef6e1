// Composes batch_norm and group_norm, whose channels are dimension 1 of [n, c, ...], and conv1d from primitive ops.
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
  require(ErrorKind::shape, v.shape == Shape{x.shape[1]} && v.dtype == x.dtype, what,
          ": an operand with one element per channel must be ", TensorType{x.dtype, {x.shape[1]}}, " for x ", x,
          ", got ", v);
}

// Widens v [c] and reshapes it to [c, 1, ...], which broadcasts over the dimensions after the channels of x; x must be
// widened, too.
ValueId broadcast_over_channel(Builder& b, std::string_view what, ValueId v, const TensorType& x) {
  v = widened(b, v);
  require_per_channel(what, b.type(v), x);
  Shape shape(static_cast<std::size_t>(x.rank() - 1), 1);
  shape[0] = x.shape[1];
  return reshape(b, v, shape);
}

// Reshapes x [n, c, ...] to [parts, n / parts, c, ...].
ValueId split_batch(Builder& b, ValueId x, std::int64_t parts) {
  Shape shape = b.type(x).shape;
  shape[0] /= parts;
  shape.insert(shape.begin(), parts);
  return reshape(b, x, shape);
}

// Reshapes v [parts, c] to [parts, 1, c, 1, ...], which broadcasts with split_batch(x).
ValueId broadcast_over_parts(Builder& b, ValueId v, const TensorType& x) {
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
    const ValueId split = split_batch(b, x, parts);
    Ints axes{1};
    for (std::int64_t d = 3; d <= type.rank(); ++d) axes.push_back(d);
    const ValueId average = mean(b, split, axes),
                  centred = binary(b, "sub", split, broadcast_over_parts(b, average, type));
    return {average, mean(b, mul(b, centred, centred), axes)};
  }
  const Ints axes = all_but_channels(type);
  const ValueId average = mean(b, x, axes),
                centred = binary(b, "sub", x, broadcast_over_channel(b, "batch_norm", average, type));
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
    const ValueId split = split_batch(b, x, b.type(inverse_std).shape[0]),
                  centred = binary(b, "sub", split, broadcast_over_parts(b, statistics.mean, type));
    const ValueId scaled = reshape(
        b, binary(b, "mul", centred, broadcast_over_parts(b, binary(b, "mul", inverse_std, weight), type)), type.shape);
    return cast(b, binary(b, "add", scaled, broadcast_over_channel(b, "batch_norm", bias, type)), dtype);
  }
  const auto per_channel = [&](ValueId v) { return broadcast_over_channel(b, "batch_norm", v, type); };
  const ValueId variance = widened(b, statistics.variance),
                inverse_std = rsqrt(b, add(b, variance, full_like(b, variance, eps)));
  const ValueId centred = binary(b, "sub", x, per_channel(statistics.mean));
  const ValueId shift = per_channel(bias);
  const ValueId scale = per_channel(mul(b, inverse_std, weight));
  return cast(b, binary(b, "add", binary(b, "mul", centred, scale), shift), dtype);
}

ValueId group_norm(Builder& b, ValueId x, std::int64_t groups, double eps, ValueId weight, ValueId bias) {
  const DType dtype = b.type(x).dtype;
  require_channels("group_norm", b.type(x));
  x = widened(b, x);
  const TensorType type = b.type(x);
  require(ErrorKind::shape, groups >= 1 && type.shape[1] % groups == 0, "group_norm: ", groups,
          " groups do not divide the channels of ", type);
  Shape grouped_shape{type.shape[0], groups, type.shape[1] / groups};
  grouped_shape.insert(grouped_shape.end(), type.shape.begin() + 2, type.shape.end());
  Ints axes;
  for (std::int64_t d = 2; d < static_cast<std::int64_t>(grouped_shape.size()); ++d) axes.push_back(d);
  const ValueId grouped = reshape(b, x, grouped_shape),
                centred = binary(b, "sub", grouped, mean(b, grouped, axes, true));
  const ValueId variance = mean(b, mul(b, centred, centred), axes, true);
  const ValueId normal = binary(b, "mul", centred, rsqrt(b, add(b, variance, full_like(b, variance, eps))));
  const ValueId y = reshape(b, normal, type.shape);
  const ValueId scaled = binary(b, "mul", y, broadcast_over_channel(b, "group_norm", weight, type));
  return cast(b, binary(b, "add", scaled, broadcast_over_channel(b, "group_norm", bias, type)), dtype);
}

ValueId conv1d(Builder& b, ValueId x, ValueId w, const Conv1dOptions& options, std::optional<ValueId> bias) {
  const TensorType image = b.type(x), kernel = b.type(w);
  require(ErrorKind::shape, image.rank() == 3 && kernel.rank() == 3,
          "conv1d: expected x [n, c, l] and weight [o, c, k], got ", image, " and ", kernel);
  const auto as_image = [&](ValueId v, const TensorType& type) {
    return reshape(b, v, {type.shape[0], type.shape[1], 1, type.shape[2]});
  };
  const ConvOptions options_2d{
      .stride = {1, options.stride}, .padding = {0, options.padding}, .dilation = {1, options.dilation}};
  const ValueId y = bias ? conv2d_bias(b, as_image(x, image), as_image(w, kernel), *bias, options_2d)
                         : conv2d(b, as_image(x, image), as_image(w, kernel), options_2d);
  const Shape shape = b.type(y).shape;
  return reshape(b, y, {shape[0], shape[1], shape[3]});
}

}  // namespace karez::ops::build
