// Layers and losses, composed of primitive ops so that the sharding rules apply.
#pragma once

#include <cstdint>
#include <optional>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

ValueId scalar(Builder& b, DType dtype, double value);
ValueId full(Builder& b, DType dtype, const Shape& shape, double value);  // a scalar constant, broadcast
ValueId full_like(Builder& b, ValueId x, double value);

// Compositions with bf16 or f16 operands are computed in f32: operands are widened once, and the result is rounded
// once. `widened` converts bf16 and f16 to f32 and returns other values unchanged.
ValueId widened(Builder& b, ValueId x);
TensorType widened(TensorType type);

// Broadcasts shapes as NumPy does: they are aligned at their last dimension, and two aligned sizes must be equal, or
// one of them must be 1. Otherwise throws "shapes do not broadcast" with both shapes.
Shape broadcast_shape(const Shape& x, const Shape& y);
ValueId broadcast_to(Builder& b, ValueId x, const Shape& shape);
// Adds an op with two operands ("add", "lt"); the operands have equal dtypes and are broadcast to a common shape.
ValueId binary(Builder& b, std::string_view op, ValueId x, ValueId y);

// x to a constant power, for floats. The powers -2, -1, 0.5, 2, 3 and 4 are products, quotients and roots, which are
// faster than `pow` and differ from it by rounding only.
ValueId pow_of_floats(Builder& b, ValueId x, double exponent);
ValueId sum(Builder& b, ValueId x);  // the sum of all elements
ValueId sum(Builder& b, ValueId x, const Ints& axes,
            bool keep = false);  // negative axes count from the end; if keep, reduced axes have size 1
ValueId mean(Builder& b, ValueId x);
ValueId mean(Builder& b, ValueId x, const Ints& axes,
             bool keep = false);  // the sum times 1 / (the logical number of elements), so that the mean is linear

ValueId softmax(Builder& b, ValueId x, int axis = -1);
ValueId log_softmax(Builder& b, ValueId x, int axis = -1);
// Returns -log_softmax(logits)[label] of each row: logits [n, c], labels i32 or i64 [n] -> [n].
ValueId cross_entropy_of_rows(Builder& b, ValueId logits, ValueId labels);
// Returns the mean of -log_softmax(logits)[label] over the batch: logits [n, c], labels i32 or i64 [n]. With weights
// [n] of the logits' dtype, returns the weighted sum divided by the sum of the weights. A label outside 0..c-1 makes
// the launch fail. Rows whose label is ignore_index count neither in the sum nor in the mean; as in PyTorch, the result
// is NaN if no row remains. With ignore_index, the devices must sum the count of rows before they compute gradients.
ValueId cross_entropy(Builder& b, ValueId logits, ValueId labels, std::optional<ValueId> weights = {},
                      std::optional<std::int64_t> ignore_index = {});
// Returns the number of rows whose first maximum is at the label, as a scalar of the logits' dtype. With weights,
// returns the sum of the weights of these rows.
ValueId correct_count(Builder& b, ValueId logits, ValueId labels, std::optional<ValueId> weights = {});

// Sets each element to zero with probability p and divides the others by 1 - p. The random numbers depend on `state`,
// which is i64[2] = (seed, step), and on `site`.
ValueId dropout(Builder& b, ValueId x, double p, ValueId state, std::int64_t site);
// Multiplies x [..., in] by the transpose of w [out, in] and adds the bias [out].
ValueId linear(Builder& b, ValueId x, ValueId w, std::optional<ValueId> bias = {});
// Applies conv2d and adds the bias [o] to every pixel of the result.
ValueId conv2d_bias(Builder& b, ValueId x, ValueId w, ValueId bias, const ConvOptions& options = {});

}  // namespace karez::ops::build
