// Composes operations on bools and integers from primitive ops.
#include "karez/ops/integers.h"

#include "karez/ops/compose.h"

namespace karez::ops::build {

ValueId as_numbers(Builder& b, ValueId x) { return b.type(x).dtype == DType::b8 ? cast(b, x, DType::i32) : x; }

ValueId binary_of_bools(Builder& b, std::string_view op, ValueId x, ValueId y) {
  const auto negate = [&](ValueId value) { return b.one("not", {value}); };
  if (op == "add" || op == "max") return binary(b, "or", x, y);
  if (op == "mul" || op == "min") return binary(b, "and", x, y);
  if (op == "lt") return binary(b, "and", negate(x), y);
  if (op == "gt") return binary(b, "and", x, negate(y));
  if (op == "le") return binary(b, "or", negate(x), y);
  if (op == "ge") return binary(b, "or", x, negate(y));
  require(ErrorKind::type, op != "sub", "sub: expected numbers, got ", b.type(x), " and ", b.type(y),
          "; use x != y to compare bools");
  return binary(b, op, x, y);
}

ValueId pow_of_integers(Builder& b, ValueId base, ValueId power) {
  const Shape shape = broadcast_shape(b.type(base).shape, b.type(power).shape);
  const ValueId operands[] = {broadcast_to(b, base, shape), broadcast_to(b, power, shape)};
  if (b.type(base).dtype == DType::u8) return pointwise(b, "pow(x0, x1)", operands);
  return pointwise(
      b, "select(x1 < 0, select(x0 == 1, 1, select(x0 == -1, 1 - 2 * bitand(x1, 1), 0)), pow(x0, max(x1, 0)))",
      operands);
}

ValueId reduce_extremum(Builder& b, ValueId x, const Ints& axes, ValueId (*op)(Builder&, ValueId, const Ints&)) {
  const bool is_bool = b.type(x).dtype == DType::b8;
  const ValueId out = op(b, as_numbers(b, x), axes);
  return is_bool ? gt(b, out, full_like(b, out, 0)) : out;
}

}  // namespace karez::ops::build
