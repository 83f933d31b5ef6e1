// Functions and layers that work on channels (dimension 1): batch and group normalisation, and 1-d convolution.
#include <algorithm>
#include <cmath>

#include "karez/api/batch_parts.h"
#include "karez/api/namespace.h"
#include "karez/api/nn.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/compose.h"
#include "karez/ops/norms.h"

namespace karez {
namespace {

// Returns (1 - momentum) * average + momentum * value, with the dtype of `average`. If `value` is [parts, c], its rows
// are applied one after another.
ValueId moving_average(Builder& b, ValueId average, ValueId value, double momentum) {
  const TensorType type = b.type(value);
  const ValueId wide = build::widened(b, average);
  if (type.rank() == 2) {
    const std::int64_t parts = type.shape[0];
    ValueId weights = build::iota(b, {type.dtype, {parts}}, 0);         // the last part gets the largest weight
    const double log_decay = std::max(std::log1p(-momentum), -1000.0);  // finite for momentum 1, because 0 * inf is NaN
    const ValueId operands[] = {weights, build::full_like(b, weights, static_cast<double>(parts - 1)),
                                build::full_like(b, weights, log_decay), build::full_like(b, weights, momentum)};
    weights = build::pointwise(b, "x3 * exp((x1 - x0) * x2)", operands);
    const ValueId update =
        build::reduce_sum(b, build::mul(b, value, build::broadcast(b, weights, type.shape, {0})), {0});
    const ValueId rest =
        build::mul(b, wide, build::full_like(b, wide, std::pow(1 - momentum, static_cast<double>(parts))));
    return build::cast(b, build::add(b, rest, update), b.type(average).dtype);
  }
  const ValueId operands[] = {wide, value, build::full_like(b, wide, momentum)};
  return build::cast(b, build::pointwise(b, "x0 + x2 * (x1 - x0)", operands), b.type(average).dtype);
}

}  // namespace

Tensor batch_norm(Term x, Term weight, Term bias, double eps) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x), w = t.value(weight), shift = t.value(bias);
    return t.tensor(build::batch_norm(t.builder, id, build::channel_statistics(t.builder, id, batch_parts(t.graph, id)),
                                      eps, w, shift));
  });
}

Tensor batch_norm(Term x, const RunningStatistics& running, bool training, Term weight, Term bias, double eps) {
  return at_line(x.where, [&](Trace& t) {
    Builder& b = t.builder;
    const ValueId id = t.value(x);
    build::ChannelStatistics statistics;
    if (training) {
      statistics = build::channel_statistics(b, id, batch_parts(t.graph, id));
      const ValueId mean = statistics.mean, variance = statistics.variance;
      const double count = static_cast<double>(b.type(id).count()) / static_cast<double>(b.type(mean).count());
      const ValueId unbiased = build::mul(b, variance, build::full_like(b, variance, count / (count - 1)));
      t.update(running.mean, moving_average(b, t.read(running.mean), build::stop_gradient(b, mean), running.momentum));
      t.update(running.variance,
               moving_average(b, t.read(running.variance), build::stop_gradient(b, unbiased), running.momentum));
    } else {
      statistics = {t.read(running.mean), t.read(running.variance)};
    }
    const ValueId w = t.value(weight), shift = t.value(bias);
    return t.tensor(build::batch_norm(b, id, statistics, eps, w, shift));
  });
}

Tensor group_norm(Term x, std::int64_t groups, Term weight, Term bias, double eps) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x), w = t.value(weight), shift = t.value(bias);
    return t.tensor(build::group_norm(t.builder, id, groups, eps, w, shift));
  });
}

Tensor conv1d(Term x, Term weight, Conv1dOptions options) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x), w = t.value(weight);
    return t.tensor(build::conv1d(t.builder, id, w, {options.stride, options.padding, options.dilation}));
  });
}

Tensor conv1d(Term x, Term weight, Term bias, Conv1dOptions options) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x), w = t.value(weight), shift = t.value(bias);
    return t.tensor(build::conv1d(t.builder, id, w, {options.stride, options.padding, options.dilation}, shift));
  });
}

}  // namespace karez

namespace karez::nn {
namespace {

void check_channels(std::string_view layer, const std::string& path, std::int64_t channels, double eps) {
  require(channels >= 1, layer, " '", path, "': channels must be at least 1, got ", channels);
  require(std::isfinite(eps) && eps >= 0, layer, " '", path, "': eps is ", eps, "; it must be finite and at least 0");
}

}  // namespace

BatchNorm::BatchNorm(Module& parent, const std::string& name, std::int64_t channels, BatchNormOptions norm_options)
    : Module(parent, name),
      options(norm_options) {
  check_channels("BatchNorm", path(), channels, options.eps);
  require(options.momentum > 0 && options.momentum <= 1, "BatchNorm '", path(), "': momentum must be in (0, 1], got ",
          options.momentum);
  weight = make_parameter("weight", {channels}, constant_init(1));
  bias = make_parameter("bias", {channels}, constant_init(0));
  running_mean = make_buffer("running_mean", {dtype(), {channels}}, constant_init(0));
  running_var = make_buffer("running_var", {dtype(), {channels}}, constant_init(1));
  num_batches_tracked = make_buffer("num_batches_tracked", {DType::i64, {}}, constant_init(0));
}

Tensor BatchNorm::operator()(Term x) const {
  return at_line(x.where, path(), [&](Trace& t) {
    if (t.training()) {
      const ValueId count = t.read(num_batches_tracked);
      const auto parts = static_cast<double>(batch_parts(t.graph, t.value(x)));
      t.update(num_batches_tracked, build::add(t.builder, count, build::full_like(t.builder, count, parts)));
    }
    return batch_norm(x, {running_mean, running_var, options.momentum}, t.training(), Term(weight, x.where),
                      Term(bias, x.where), options.eps);
  });
}

GroupNorm::GroupNorm(Module& parent, const std::string& name, std::int64_t g, std::int64_t channels, double e)
    : Module(parent, name),
      groups(g),
      eps(e) {
  check_channels("GroupNorm", path(), channels, eps);
  require(groups >= 1 && channels % groups == 0, "GroupNorm '", path(), "': ", groups, " groups do not divide ",
          channels, " channels");
  weight = make_parameter("weight", {channels}, constant_init(1));
  bias = make_parameter("bias", {channels}, constant_init(0));
}

Tensor GroupNorm::operator()(Term x) const {
  return at_line(x.where, path(), [&](Trace& t) {
    return t.tensor(build::group_norm(t.builder, t.value(x), groups, eps, t.read(weight), t.read(bias)));
  });
}

Conv1d::Conv1d(Module& parent, const std::string& name, std::int64_t in, std::int64_t out, std::int64_t kernel,
               ConvShape s)
    : Module(parent, name),
      shape(s) {
  require(in >= 1 && out >= 1 && kernel >= 1, "Conv1d '", path(), "': in, out and kernel must be at least 1, got ", in,
          ", ", out, " and ", kernel);
  require(s.stride >= 1 && s.padding >= 0, "Conv1d '", path(),
          "': stride must be at least 1 and padding at least 0, got ", s.stride, " and ", s.padding);
  const auto init = uniform_init(1 / std::sqrt(static_cast<double>(in) * static_cast<double>(kernel)));
  weight = make_parameter("weight", {out, in, kernel}, init);
  if (s.bias) bias = make_parameter("bias", {out}, init);
}

Tensor Conv1d::operator()(Term x) const {
  const Conv1dOptions options{.stride = shape.stride, .padding = shape.padding};
  return at_line(x.where, path(), [&](Trace&) {
    return shape.bias ? conv1d(x, Term(weight, x.where), Term(bias, x.where), options)
                      : conv1d(x, Term(weight, x.where), options);
  });
}

}  // namespace karez::nn
