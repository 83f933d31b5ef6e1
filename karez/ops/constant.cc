// constant: a tensor known at compile time, given as a number or as bytes.
#include "karez/base/attr_cast.h"
#include "karez/ops/build.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

std::vector<TensorType> infer(std::span<const TensorType>, const Attrs& attrs) {
  TensorType type = type_attr("constant", attrs);
  require(attrs.has("value") != attrs.has("data"), "constant: must have either a value or data, got ",
          attrs.has("value") ? "both" : "neither");
  if (attrs.has("data")) {
    const std::string& hex = attrs.text("data");
    std::int64_t digit_count = checked_mul(2, type.bytes());
    require(static_cast<std::int64_t>(hex.size()) == digit_count, "constant: data of ", type, " must have ",
            digit_count, " hexadecimal digits, got ", hex.size());
    require(hex.find_first_not_of("0123456789abcdef") == std::string::npos, "constant: data of ", type,
            " is not lower-case hexadecimal");
    return one_type(std::move(type));
  }
  if (type.dtype == DType::b8) {
    double value = attrs.real("value");
    require(value == 0 || value == 1, "constant: a bool must be 0 or 1, got ", value);
    return one_type(std::move(type));
  }
  try {
    with_type(type.dtype, [&]<class T>() { attr_cast<T>(attr_at(attrs, "value")); });
  } catch (const Error& error) { fail("constant: ", error.what()); }
  return one_type(std::move(type));
}

// Replaces {data} with the bytes of the local box, in row-major order.
Attrs localise_constant(const LocalView& view) {
  Attrs attrs = with_local_shape(view);
  if (!attrs.has("data")) return attrs;
  const TensorType& logical_type = view.node.out_type(0);
  const Box& box = view.out[0];
  if (box == full_box(logical_type.shape)) return attrs;
  const std::string& hex = view.node.attrs().text("data");
  Strides strides = row_major(logical_type.shape);
  std::size_t digits = static_cast<std::size_t>(2 * size_of(logical_type.dtype));
  std::string data;
  for_each_index(shape_of(box), [&](const std::vector<std::int64_t>& index) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d) offset += (box[d].begin + index[d]) * strides[d];
    data.append(hex, static_cast<std::size_t>(offset) * digits, digits);
  });
  return attrs.set("data", data);
}

}  // namespace

std::vector<OpDef> constant_ops() {
  return {
      {.name = "constant",
       .doc =
           "Returns a tensor of {dtype} and {shape}. Every element is {value}, or {data} has the elements: row-major, "
           "little-endian bytes in hexadecimal.",
       .infer = infer,
       .index = same_shape_signature,
       .localise = localise_constant,
       .no_grad = "it has no operands",
       .role = Role::constant}};
}

}  // namespace karez::ops
