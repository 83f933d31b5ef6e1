// Composes statistics and normalisation from primitive ops.
#include "karez/ops/norms.h"

#include <cmath>

#include "karez/ops/compose.h"

namespace karez::ops::build {
namespace {

Ints last_axes(std::string_view what, const TensorType& x, std::int64_t dimensions) {
  require(ErrorKind::shape, dimensions >= 1 && dimensions <= x.rank(), what,
          ": the number of normalised dimensions must be from 1 to the rank of x ", x, ", got ", dimensions);
  Ints axes;
  for (std::int64_t d = x.rank() - dimensions; d < x.rank(); ++d) axes.push_back(d);
  return axes;
}

std::int64_t count_over(const TensorType& x, const Ints& axes) {
  std::int64_t count = 1;
  for (auto axis : axes)
    count = checked_mul(count, x.shape[static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis)]);
  return count;
}

ValueId add_number(Builder& b, ValueId x, double number) { return add(b, x, full_like(b, x, number)); }

// Multiplies x by the normaliser and the weight, adds the bias, and converts the result to the dtype of `type`.
ValueId scale_and_shift(Builder& b, std::string_view what, const TensorType& type, ValueId x, ValueId normaliser,
                        std::optional<ValueId> weight, std::optional<ValueId> bias) {
  for (auto operand : {weight, bias})
    if (operand) {
      const TensorType& operand_type = b.type(*operand);
      const bool matches = operand_type.dtype == type.dtype && operand_type.rank() <= type.rank() &&
                           std::equal(operand_type.shape.rbegin(), operand_type.shape.rend(), type.shape.rbegin());
      require(ErrorKind::shape, matches, what, ": weight and bias must be ", name_of(type.dtype),
              " with the last dimensions of x ", type, ", got ", operand_type);
    }
  ValueId y = binary(b, "mul", x, normaliser);
  if (weight) y = binary(b, "mul", y, widened(b, *weight));
  if (bias) y = binary(b, "add", y, widened(b, *bias));
  return cast(b, y, type.dtype);
}

}  // namespace

ValueId variance(Builder& b, ValueId x, const Ints& axes, bool keep, std::int64_t correction) {
  const DType dtype = b.type(x).dtype;
  x = widened(b, x);
  ValueId centred = binary(b, "sub", x, mean(b, x, axes, true));
  ValueId squares = sum(b, mul(b, centred, centred), axes, keep);
  const std::int64_t count = count_over(b.type(x), axes);
  require(ErrorKind::shape, correction >= 0 && count > correction,
          "variance: correction must be at least 0 and less than the number of elements (", count, "), got ",
          correction);
  return cast(b, mul(b, squares, full_like(b, squares, 1.0 / static_cast<double>(count - correction))), dtype);
}

ValueId vector_norm(Builder& b, ValueId x, double p, const Ints& axes, bool keep) {
  const TensorType type = b.type(x);
  require(ErrorKind::type, is_float(type.dtype), "norm: expected f32 or f64, got ", type, "; cast it first");
  require(p >= 0, "norm: p must be at least 0, got ", p);
  auto squeeze = [&](ValueId y) {
    if (keep) return y;
    Shape shape;
    for (std::int64_t d = 0; d < type.rank(); ++d)
      if (std::none_of(axes.begin(), axes.end(),
                       [&](std::int64_t axis) { return axis == d || axis + type.rank() == d; }))
        shape.push_back(type.shape[static_cast<std::size_t>(d)]);
    return reshape(b, y, shape);
  };
  if (std::isinf(p)) {
    Ints from_start = axes;
    for (auto& axis : from_start) axis += axis < 0 ? type.rank() : 0;
    ValueId y = reduce_max(b, abs(b, x), from_start);
    if (!keep) return y;
    Shape shape = type.shape;
    for (auto axis : from_start) shape[static_cast<std::size_t>(axis)] = 1;
    return reshape(b, y, shape);
  }
  x = widened(b, x);
  if (p == 0) return cast(b, sum(b, cast(b, ne(b, x, full_like(b, x, 0)), b.type(x).dtype), axes, keep), type.dtype);
  if (p == 1) return cast(b, sum(b, abs(b, x), axes, keep), type.dtype);
  ValueId total = p == 2 ? sum(b, mul(b, x, x), axes, true) : sum(b, pow(b, abs(b, x), full_like(b, x, p)), axes, true);
  // The derivative of the root is infinite at 0, so 0 is replaced by 1 before the root, and the result by 0.
  ValueId zero = full_like(b, total, 0), is_nonzero = ne(b, total, zero);
  ValueId safe = select(b, is_nonzero, total, full_like(b, total, 1));
  ValueId root = p == 2 ? sqrt(b, safe) : pow(b, safe, full_like(b, safe, 1 / p));
  return cast(b, squeeze(select(b, is_nonzero, root, zero)), type.dtype);
}

ValueId clip(Builder& b, ValueId x, std::optional<double> low, std::optional<double> high) {
  require(!(low && high) || *low <= *high, "clip: the lower bound ", low.value_or(0), " is above the upper bound ",
          high.value_or(0));
  // max and min are not used, because they halve the gradient at a bound.
  const auto limit = [&](std::string_view text, double bound) {
    const ValueId operands[] = {x, full_like(b, x, bound)};
    x = pointwise(b, text, operands);
  };
  if (low) limit("select(x0 < x1, x1, x0)", *low);
  if (high) limit("select(x0 > x1, x1, x0)", *high);
  return x;
}

ValueId layer_norm(Builder& b, ValueId x, std::int64_t dimensions, double eps, std::optional<ValueId> weight,
                   std::optional<ValueId> bias) {
  const TensorType type = b.type(x);
  const Ints axes = last_axes("layer_norm", type, dimensions);
  x = widened(b, x);
  ValueId centred = binary(b, "sub", x, mean(b, x, axes, true));
  return scale_and_shift(b, "layer_norm", type, centred,
                         rsqrt(b, add_number(b, mean(b, mul(b, centred, centred), axes, true), eps)), weight, bias);
}

ValueId rms_norm(Builder& b, ValueId x, std::int64_t dimensions, double eps, std::optional<ValueId> weight) {
  const TensorType type = b.type(x);
  const Ints axes = last_axes("rms_norm", type, dimensions);
  x = widened(b, x);
  return scale_and_shift(b, "rms_norm", type, x, rsqrt(b, add_number(b, mean(b, mul(b, x, x), axes, true), eps)),
                         weight, {});
}

}  // namespace karez::ops::build
