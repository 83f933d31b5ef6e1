// Layers and losses, composed of primitive ops, so that the sharding rules apply to them.
#pragma once

#include <cstdint>
#include <optional>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

ValueId scalar(Builder& b, DType dtype, double value);
ValueId full(Builder& b, DType dtype, const Shape& shape, double value);  // a scalar constant, broadcast
ValueId full_like(Builder& b, ValueId x, double value);

// Compositions over halves compute in f32: they widen their operands once and round their result once. `widened` gives
// the f32 of a half and returns any other value unchanged.
ValueId widened(Builder& b, ValueId x);
TensorType widened(TensorType type);

// NumPy's rule: shapes are aligned at their last dimension, sizes must be equal or one of them 1. The error "shapes do
// not broadcast" names both shapes.
Shape broadcast_shape(const Shape& x, const Shape& y);
ValueId broadcast_to(Builder& b, ValueId x, const Shape& shape);
// A two-operand op of the table ("add", "lt") on operands of equal dtype, broadcast against each other.
ValueId binary(Builder& b, std::string_view op, ValueId x, ValueId y);

ValueId sum(Builder& b, ValueId x);  // of all elements
ValueId sum(Builder& b, ValueId x, const Ints& axes,
            bool keep = false);  // negative axes count from the end; keep: reduced axes stay with size 1
ValueId mean(Builder& b, ValueId x);
ValueId mean(Builder& b, ValueId x, const Ints& axes,
             bool keep = false);  // the sum times one over the logical count: linear, unlike a mean of means

ValueId softmax(Builder& b, ValueId x, int axis = -1);
ValueId log_softmax(Builder& b, ValueId x, int axis = -1);
// Mean over the batch of -log_softmax(logits)[label]: logits [n, c], labels i32 or i64 [n]. With weights [n] of the
// logits' dtype: the weighted sum over the sum of the weights. A label outside 0..c-1 makes the launch fail;
// karez/ops/losses.h has a form that ignores rows.
ValueId cross_entropy(Builder& b, ValueId logits, ValueId labels, std::optional<ValueId> weights = {});
// The number of rows with their first maximum at the label, as a scalar of the logits' dtype; with weights, each row
// counts by its weight.
ValueId correct_count(Builder& b, ValueId logits, ValueId labels, std::optional<ValueId> weights = {});

// Zero with probability p, otherwise x / (1 - p). Uniform numbers from state i64[2] = (seed, step) and the site.
ValueId dropout(Builder& b, ValueId x, double p, ValueId state, std::int64_t site);
// x [..., in] times the transpose of w [out, in], plus bias [out].
ValueId linear(Builder& b, ValueId x, ValueId w, std::optional<ValueId> bias = {});
// conv2d plus bias [o] on every pixel.
ValueId conv2d_bias(Builder& b, ValueId x, ValueId w, ValueId bias, const ConvOptions& options = {});

}  // namespace karez::ops::build
