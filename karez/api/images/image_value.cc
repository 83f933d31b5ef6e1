// Implements ops that functions of images share.
#include "karez/api/images/image_value.h"

#include <algorithm>

#include "karez/ops/compose.h"

namespace karez {

ImageValue::ImageValue(Trace& t, ValueId value, std::string_view function) : trace(t), b(t.builder), id(value) {
  const Shape& shape = b.type(id).shape;
  const auto rank = static_cast<int>(shape.size());
  require(ErrorKind::shape, rank >= 2, function,
          ": expected images [..., height, width, channels] or one image [height, width], got shape ", shape);
  rows_axis = rank == 2 ? 0 : rank - 3, columns_axis = rows_axis + 1;
  height = shape[static_cast<std::size_t>(rows_axis)], width = shape[static_cast<std::size_t>(columns_axis)];
  channels = rank == 2 ? 1 : shape.back();
}

ImageValue::ImageValue(Trace& t, const Term& image, std::string_view function)
    : ImageValue(t, t.value(image, t.dtype_of(image)), function) {}

Shape ImageValue::shape_with(std::int64_t new_height, std::int64_t new_width) const {
  Shape shape = type().shape;
  shape[static_cast<std::size_t>(rows_axis)] = new_height, shape[static_cast<std::size_t>(columns_axis)] = new_width;
  return shape;
}

Shape ImageValue::numbers_shape(std::int64_t count) const {
  const Shape shape = type().shape;
  Shape out(shape.begin(), shape.begin() + rows_axis);
  out.push_back(count);
  return out;
}

Shape ImageValue::number_shape() const {
  Shape shape = type().shape;
  std::fill(shape.begin() + rows_axis, shape.end(), 1);
  return shape;
}

ValueId number(Builder& b, double value, DType dtype) { return build::scalar(b, dtype, value); }

ValueId select_of(Builder& b, ValueId condition, ValueId x, ValueId y) {
  const Shape shape =
      build::broadcast_shape(b.type(condition).shape, build::broadcast_shape(b.type(x).shape, b.type(y).shape));
  for (ValueId* value : {&condition, &x, &y}) *value = build::broadcast_to(b, *value, shape);
  return build::select(b, condition, x, y);
}

ValueId expression(Builder& b, std::string_view text, std::initializer_list<ValueId> operands) {
  Shape shape;
  for (ValueId operand : operands) shape = build::broadcast_shape(shape, b.type(operand).shape);
  std::vector<ValueId> ids;
  for (ValueId operand : operands) ids.push_back(build::broadcast_to(b, operand, shape));
  return build::pointwise(b, text, ids);
}

ValueId rounded_down(Builder& b, ValueId x) { return build::cast(b, build::cast(b, x, DType::i32), b.type(x).dtype); }

ValueId uniform_numbers(Trace& t, const Shape& shape) {
  const ValueId state = t.random_state();
  return build::random_uniform(t.builder, state, {DType::f32, shape}, t.site());
}

ValueId below(Builder& b, ValueId uniform, std::int64_t n) {
  const auto count = static_cast<double>(n);
  const ValueId product = build::binary(b, "mul", uniform, number(b, count));  // may be rounded up to n
  return build::binary(b, "min", rounded_down(b, product), number(b, count - 1));
}

ValueId window_of(const ImageValue& image, std::int64_t top, std::int64_t left, std::int64_t height,
                  std::int64_t width) {
  const std::int64_t bottom = checked_add(top, height), right = checked_add(left, width);
  const auto rows = static_cast<std::size_t>(image.rows_axis), columns = static_cast<std::size_t>(image.columns_axis);
  const Shape shape = image.type().shape;
  ValueId out = image.id;
  Ints low(shape.size()), high(shape.size());
  low[rows] = std::max<std::int64_t>(0, -top), low[columns] = std::max<std::int64_t>(0, -left);
  high[rows] = std::max<std::int64_t>(0, bottom - image.height);
  high[columns] = std::max<std::int64_t>(0, right - image.width);
  if (low != Ints(shape.size()) || high != Ints(shape.size())) out = build::pad(image.b, out, low, high);
  Ints begin(shape.size());
  begin[rows] = std::max<std::int64_t>(0, top), begin[columns] = std::max<std::int64_t>(0, left);
  const Shape size = image.shape_with(height, width);
  return image.b.type(out).shape == size ? out : build::slice(image.b, out, begin, size);
}

}  // namespace karez
