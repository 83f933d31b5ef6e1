// Common functions for the type rules and index functions of ops: letters, checks of operands, sums of bytes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// Returns letter number i of a, b, ... z, d26, d27, ...
std::string letter(std::size_t i);
std::vector<std::string> letters(const Shape& shape);  // one per dimension
// Returns the signature of a node whose operands and results all have the same shape or are scalars: a letter for every
// dimension.
Signature same_shape_signature(const NodeView& node);

// Throws errors such as "add: operands differ: f32[2] and f32[3]".
void require_same_type(std::string_view op, const TensorType& a, const TensorType& b);
void require_same_dtype(std::string_view op, const TensorType& a, const TensorType& b);
void require_float(std::string_view op, const TensorType& type);
// Returns the dtype of a product: f32 with {wide}, which requires bf16 or f16 operands; otherwise the dtype of the
// operands.
DType product_dtype(std::string_view op, DType operands, const Attrs& attrs);
void require_number(std::string_view op, const TensorType& type);  // not bool
void require_index(std::string_view op, const TensorType& type);   // i32 or i64
void require_rank(std::string_view op, const TensorType& type, int rank,
                  std::string_view what);  // `what` is "x [n, c, h, w]"
// Returns an attribute of `count` integers, each at least `min_value`.
Ints ints_of(std::string_view op, const Attrs& attrs, std::string_view name, std::size_t count, std::int64_t min_value);
// Returns the attribute "shape", whose sizes must not be negative.
const Shape& shape_attr(std::string_view op, const Attrs& attrs);
// Returns the type given by the attributes "dtype" and "shape".
TensorType type_attr(std::string_view op, const Attrs& attrs);
std::vector<TensorType> one_type(TensorType type);  // a list of this type, which is moved
// Returns the attribute "axis", which must be a dimension of the type: 0 to rank - 1.
int axis_of(std::string_view op, const Attrs& attrs, const TensorType& type);

double bytes_of(std::span<const TensorType> in, std::span<const TensorType> out);
// Returns a cost of zero, for an op whose result is an alias or comes from outside the launch.
Cost no_cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs);

// Returns the attributes of the local call, with "shape" set to the shape of the box of output 0.
Attrs with_local_shape(const LocalView& view);

}  // namespace karez::ops
