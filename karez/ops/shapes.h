// Common functions of the ops' type rules and index functions: letters, checks of operands, sums of bytes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// Letter number i: a, b, ... z, d26, d27, ...
std::string letter(std::size_t i);
std::vector<std::string> letters(const Shape& shape);  // one per dimension
// Operands and results that all have the same shape (or are scalars): a letter for every dimension.
Signature same_shape_signature(const NodeView& node);

// "add: operands differ: f32[2] and f32[3]"
void require_same_type(std::string_view op, const TensorType& a, const TensorType& b);
void require_same_dtype(std::string_view op, const TensorType& a, const TensorType& b);
void require_float(std::string_view op, const TensorType& type);
// The dtype of a product of these operands: f32 for halves with {wide}, otherwise theirs.
DType product_dtype(std::string_view op, DType operands, const Attrs& attrs);
void require_number(std::string_view op, const TensorType& type);  // not bool
void require_index(std::string_view op, const TensorType& type);   // i32 or i64
void require_rank(std::string_view op, const TensorType& type, int rank,
                  std::string_view what);  // what: "[n, c, h, w]"
// Ints of the attribute with `count` entries, each at least `least`.
Ints ints_of(std::string_view op, const Attrs& attrs, std::string_view name, std::size_t count, std::int64_t least);
// The attribute "shape" with no negative size, and the dtype of the attribute "dtype".
Shape shape_attr(std::string_view op, const Attrs& attrs);
TensorType type_attr(std::string_view op, const Attrs& attrs);
// The attribute "axis", which must be a dimension of the type: 0 to rank - 1.
int axis_of(std::string_view op, const Attrs& attrs, const TensorType& type);

double bytes_of(std::span<const TensorType> in, std::span<const TensorType> out);
// Zero cost: the value is a name, an alias or comes from outside.
Cost no_cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs);

// Attributes of the local call, with "shape" set to that of output 0's box.
Attrs with_local_shape(const LocalView& view);

}  // namespace karez::ops
