// Letters of dimensions, checks of operands and attributes, and sums of bytes.
#include "karez/ops/shapes.h"

namespace karez::ops {

std::string letter(std::size_t i) { return i < 26 ? std::string(1, static_cast<char>('a' + i)) : cat("d", i); }

std::vector<std::string> letters(const Shape& shape) {
  std::vector<std::string> out;
  for (std::size_t d = 0; d < shape.size(); ++d) out.push_back(letter(d));
  return out;
}

Signature same_shape_signature(const NodeView& node) {
  Signature s;
  for (std::size_t i = 0; i < node.in_count(); ++i) s.in.push_back(letters(node.in_type(i).shape));
  for (std::size_t i = 0; i < node.out_count(); ++i) s.out.push_back(letters(node.out_type(i).shape));
  return s;
}

void require_same_type(std::string_view op, const TensorType& a, const TensorType& b) {
  require(ErrorKind::type, a == b, op, ": operands differ: ", a, " and ", b);
}

void require_same_dtype(std::string_view op, const TensorType& a, const TensorType& b) {
  require(ErrorKind::type, a.dtype == b.dtype, op, ": dtypes differ: ", a, " and ", b);
}

void require_float(std::string_view op, const TensorType& type) {
  require(ErrorKind::type, is_float(type.dtype), op, ": expected f32 or f64, got ", type, "; cast it first");
}

void require_number(std::string_view op, const TensorType& type) {
  require(ErrorKind::type, type.dtype != DType::b8, op, ": expected numbers, got ", type, "; cast it first");
}

void require_index(std::string_view op, const TensorType& type) {
  require(ErrorKind::type, type.dtype == DType::i32 || type.dtype == DType::i64, op,
          ": an index must be i32 or i64, got ", type);
}

DType product_dtype(std::string_view op, DType operands, const Attrs& attrs) {
  if (!attrs.flag("wide", false)) return operands;
  require(ErrorKind::type, is_half(operands), op, ": {wide} requires operands of bf16 or f16, got ", operands);
  return DType::f32;
}

void require_rank(std::string_view op, const TensorType& type, int rank, std::string_view what) {
  require(ErrorKind::shape, type.rank() == rank, op, ": ", what, " must have rank ", rank, ", got ", type);
}

Ints ints_of(std::string_view op, const Attrs& attrs, std::string_view name, std::size_t count,
             std::int64_t min_value) {
  Ints values = attrs.ints(name);
  require(ErrorKind::shape, values.size() == count, op, ": ", name, " must have ", count, " entries, got ", values);
  for (auto v : values)
    require(ErrorKind::shape, v >= min_value, op, ": entries of ", name, " must be at least ", min_value, ", got ",
            values);
  return values;
}

const Shape& shape_attr(std::string_view op, const Attrs& attrs) {
  const Shape& shape = attrs.ints("shape");
  for (auto size : shape) require(ErrorKind::shape, size >= 0, op, ": sizes must be at least 0, got ", shape);
  count_of(shape);  // throws on overflow
  return shape;
}

TensorType type_attr(std::string_view op, const Attrs& attrs) {
  return {dtype_from(attrs.text("dtype")), shape_attr(op, attrs)};
}

std::vector<TensorType> one_type(TensorType type) {
  std::vector<TensorType> types;
  types.push_back(std::move(type));
  return types;
}

int axis_of(std::string_view op, const Attrs& attrs, const TensorType& type) {
  std::int64_t axis = attrs.integer("axis");
  require(ErrorKind::type, axis >= 0 && axis < type.rank(), op, ": axis ", axis, " is not a dimension of ", type);
  return static_cast<int>(axis);
}

double bytes_of(std::span<const TensorType> in, std::span<const TensorType> out) {
  double bytes = 0;
  for (const auto& t : in) bytes += static_cast<double>(t.bytes());
  for (const auto& t : out) bytes += static_cast<double>(t.bytes());
  return bytes;
}

Cost no_cost(std::span<const TensorType>, std::span<const TensorType>, const Attrs&) { return {WorkClass::none, 0, 0}; }

Attrs with_local_shape(const LocalView& view) {
  Attrs attrs = view.node.attrs();
  attrs.set("shape", shape_of(view.out[0]));
  return attrs;
}

}  // namespace karez::ops
