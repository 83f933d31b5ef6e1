// ImageValue: the sizes of an image, or of a batch of images, in a program, and ops that functions of images share.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "karez/api/namespace.h"
#include "karez/api/trace/trace.h"

namespace karez {

struct ImageValue {
  // Throws unless the shape is [..., height, width, channels] or [height, width].
  ImageValue(Trace& t, ValueId id, std::string_view function);
  ImageValue(Trace& t, const Term& image, std::string_view function);

  TensorType type() const { return b.type(id); }
  Shape shape_with(std::int64_t new_height, std::int64_t new_width) const;
  // The shape of `count` numbers for each image, or of one number that broadcasts to the image.
  Shape numbers_shape(std::int64_t count) const;
  Shape number_shape() const;

  Trace& trace;
  Builder& b;
  ValueId id;
  int rows_axis, columns_axis;
  std::int64_t height, width, channels;
};

// Adds ops whose operands broadcast.
ValueId number(Builder& b, double value, DType dtype = DType::f32);
ValueId select_of(Builder& b, ValueId condition, ValueId x, ValueId y);
// Evaluates an expression over x0, x1, ... (karez/base/expr.h) of operands with equal dtypes.
ValueId expression(Builder& b, std::string_view text, std::initializer_list<ValueId> operands);
ValueId rounded_down(Builder& b, ValueId x);  // of numbers that are at least 0 and fit into i32

// Uniform f32 random numbers in [0, 1).
ValueId uniform_numbers(Trace& t, const Shape& shape);
// A random integer, at least 0 and below n, for each uniform number, as f32.
ValueId below(Builder& b, ValueId uniform, std::int64_t n);

// The window of an image that begins at (top, left). Pixels outside of the image are 0.
ValueId window_of(const ImageValue& image, std::int64_t top, std::int64_t left, std::int64_t height,
                  std::int64_t width);

}  // namespace karez
