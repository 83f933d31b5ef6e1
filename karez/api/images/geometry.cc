// Functions of tensors that move the pixels of images.
#include <algorithm>

#include "karez/api/images.h"
#include "karez/api/images/image_value.h"
#include "karez/data/images/image_field.h"
#include "karez/ops/compose.h"
#include "karez/ops/integers.h"

namespace karez::data::images {
namespace {

// The pixels whose row or column is `index`, a value [..., n or 1, ...] that broadcasts to the image.
ValueId pixels_at(const ImageValue& image, ValueId index, int axis) {
  Shape shape = image.type().shape;
  const auto dim = static_cast<std::size_t>(axis);
  shape[dim] = image.b.type(index).shape[dim];
  index = build::broadcast_to(image.b, build::cast(image.b, index, DType::i32), shape);
  const DType dtype = image.type().dtype;
  const ValueId numbers = build::as_numbers(image.b, image.id);
  return build::cast(image.b, build::take_along(image.b, numbers, index, axis), dtype);
}

// The numbers 0 to n - 1 along one axis of the image.
ValueId counted(const ImageValue& image, std::int64_t n, int axis) {
  Shape shape(image.type().shape.size(), 1);
  shape[static_cast<std::size_t>(axis)] = n;
  return build::iota(image.b, {DType::f32, shape}, axis);
}

ValueId flipped(const ImageValue& image) {
  if (image.width == 0) return image.id;
  const ValueId last = number(image.b, static_cast<double>(image.width - 1));
  return pixels_at(image, build::binary(image.b, "sub", last, counted(image, image.width, image.columns_axis)),
                   image.columns_axis);
}

}  // namespace

Tensor crop(Term image, std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width) {
  return at_line(image.where, [&](Trace& t) {
    crop(top, left, height, width);  // checks the options
    const ImageValue x(t, image, "crop");
    require(ErrorKind::shape, height <= x.height - top && width <= x.width - left, "crop: a window of ", height, " x ",
            width, " at row ", top, " and column ", left, " is not inside an image of ", x.height, " x ", x.width);
    return t.tensor(window_of(x, top, left, height, width));
  });
}

Tensor center_crop(Term image, std::int64_t height, std::int64_t width) {
  return at_line(image.where, [&](Trace& t) {
    center_crop(height, width);
    const ImageValue x(t, image, "center_crop");
    return t.tensor(window_of(x, center_offset(x.height, height), center_offset(x.width, width), height, width));
  });
}

Tensor pad(Term image, std::int64_t padding) {
  return at_line(image.where, [&](Trace& t) {
    pad(padding);
    const ImageValue x(t, image, "pad");
    return t.tensor(
        window_of(x, -padding, -padding, checked_add(x.height, 2 * padding), checked_add(x.width, 2 * padding)));
  });
}

Tensor horizontal_flip(Term image) {
  return at_line(image.where, [&](Trace& t) { return t.tensor(flipped({t, image, "horizontal_flip"})); });
}

Tensor random_crop(Term image, std::int64_t height, std::int64_t width, std::int64_t padding) {
  return at_line(image.where, [&](Trace& t) {
    random_crop(height, width, padding);
    const ImageValue x(t, image, "random_crop");
    const std::int64_t rows = x.height + 2 * padding - height, columns = x.width + 2 * padding - width;
    require(ErrorKind::shape, rows >= 0 && columns >= 0, "random_crop: a window of ", height, " x ", width,
            " is larger than an image of ", x.height, " x ", x.width, " with a padding of ", padding);
    const ValueId top = below(x.b, uniform_numbers(t, x.number_shape()), rows + 1);
    const ValueId left = below(x.b, uniform_numbers(t, x.number_shape()), columns + 1);
    ImageValue part(t, window_of(x, -padding, -padding, x.height + 2 * padding, x.width + 2 * padding), "random_crop");
    part.id = pixels_at(part, build::binary(x.b, "add", top, counted(part, height, part.rows_axis)), part.rows_axis);
    return t.tensor(
        pixels_at(part, build::binary(x.b, "add", left, counted(part, width, part.columns_axis)), part.columns_axis));
  });
}

Tensor random_horizontal_flip(Term image, double p) {
  return at_line(image.where, [&](Trace& t) {
    random_horizontal_flip(p);
    const ImageValue x(t, image, "random_horizontal_flip");
    const ValueId uniform = uniform_numbers(t, x.number_shape());
    const ValueId flips = build::binary(x.b, "lt", uniform, number(x.b, p));
    return t.tensor(select_of(x.b, flips, flipped(x), x.id));
  });
}

Tensor cut_out(Term image, std::int64_t size) {
  return at_line(image.where, [&](Trace& t) {
    cut_out(size);
    const ImageValue x(t, image, "cut_out");
    if (x.type().count() == 0) return t.tensor(x.id);
    // Whether a row or column is in the square.
    const auto inside = [&](std::int64_t length, int axis) {
      const ValueId centre = below(x.b, uniform_numbers(t, x.number_shape()), length);
      const ValueId distance = build::binary(x.b, "sub", counted(x, length, axis), centre);
      const ValueId first = number(x.b, static_cast<double>(-(size / 2))),
                    end = number(x.b, static_cast<double>(size - size / 2));
      const ValueId after = build::binary(x.b, "ge", distance, first);
      return build::binary(x.b, "and", after, build::binary(x.b, "lt", distance, end));
    };
    const ValueId rows = inside(x.height, x.rows_axis), columns = inside(x.width, x.columns_axis);
    return t.tensor(select_of(x.b, build::binary(x.b, "and", rows, columns), number(x.b, 0, x.type().dtype), x.id));
  });
}

Tensor transpose(Term image, std::vector<int> axes) {
  return at_line(image.where, [&](Trace& t) {
    transpose(axes);
    const ValueId id = t.value(image, t.dtype_of(image));
    const std::size_t rank = t.builder.type(id).shape.size();
    require(ErrorKind::shape, rank >= axes.size(), "transpose: expected at least ", axes.size(),
            " dimensions, got shape ", t.builder.type(id).shape);
    Ints permutation;
    const std::size_t first = rank - axes.size();
    for (std::size_t i = 0; i < first; ++i) permutation.push_back(static_cast<std::int64_t>(i));
    for (int axis : axes) permutation.push_back(static_cast<std::int64_t>(first) + axis);
    return t.tensor(build::transpose(t.builder, id, permutation));
  });
}

}  // namespace karez::data::images
