// Functions of tensors that resize images.
#include <cmath>

#include "karez/api/images.h"
#include "karez/api/images/image_value.h"
#include "karez/data/images/image_field.h"
#include "karez/ops/attention.h"
#include "karez/ops/compose.h"
#include "karez/ops/norms.h"

namespace karez::data::images {
namespace {

// Resizes the rows or the columns of images by a product with weights, which may differ between images.
ValueId product(const ImageValue& image, ValueId weights, int axis) {
  const bool of_rows = axis == image.rows_axis, grey = image.type().rank() == 2,
             of_each = image.b.type(weights).rank() > 2;
  const std::string sizes = of_rows ? "bw" : "hb", result = of_rows ? "aw" : "ha", rest = grey ? "" : "c";
  const ValueId operands[] = {weights, image.id};
  return build::einsum(
      image.b, cat(of_each ? "...ab," : "ab,", grey ? "" : "...", sizes, rest, "->", grey ? "" : "...", result, rest),
      operands);
}

ValueId rounded_to_bytes(Builder& b, ValueId x) {
  return build::cast(b, build::clip(b, build::binary(b, "add", x, number(b, 0.5)), 0, 255), DType::u8);
}

ValueId resized_axis(const ImageValue& image, int axis, std::int64_t size, bool bicubic) {
  if (image.type().shape[static_cast<std::size_t>(axis)] == size) return image.id;
  Attrs attrs{{"axis", std::int64_t{axis}}, {"size", size}};
  if (bicubic) attrs.set("bicubic", true);
  return image.b.one("resize", {image.id}, attrs);
}

// Applies `function` to an image of bytes. If it has alpha, the colours are multiplied by alpha before, and divided by
// the alpha of the result after it.
template <class Function> ValueId with_alpha(const ImageValue& image, Function function) {
  const Shape shape = image.type().shape;
  if (image.type().dtype != DType::u8 || shape.size() == 2 || image.channels % 2 != 0 || image.channels > 4)
    return function(image);
  Builder& b = image.b;
  const auto last_axis = static_cast<int>(shape.size()) - 1;
  const auto part = [&](ValueId x, bool alpha) {
    Shape size = b.type(x).shape;
    Ints begin(size.size());
    begin.back() = alpha ? size.back() - 1 : 0;
    size.back() = alpha ? 1 : size.back() - 1;
    return build::cast(b, build::slice(b, x, begin, size), DType::f32);
  };
  const auto joined = [&](ValueId colours, ValueId alpha) {
    const ValueId parts[] = {build::cast(b, colours, DType::u8), build::cast(b, alpha, DType::u8)};
    return build::concat(b, parts, last_axis);
  };
  const ValueId alpha = part(image.id, true), colours = part(image.id, false);
  const ValueId products = expression(b, "x0 * x1 + 128", {colours, alpha});  // karez/data/images/arithmetic.h
  const ValueId upper = rounded_down(b, build::binary(b, "mul", products, number(b, 1.0 / 256)));
  const ValueId multiplied = rounded_down(b, expression(b, "(x0 + x1) / 256", {products, upper}));
  const ValueId resized = function(ImageValue(image.trace, joined(multiplied, alpha), "resize"));
  const ValueId new_alpha = part(resized, true), new_products = part(resized, false);
  const ValueId divided =
      expression(b, "select(x1 == 0 || x1 == 255, x0, min(255, 255 * x0 / max(x1, 1)))", {new_products, new_alpha});
  return joined(divided, new_alpha);
}

ValueId resized(const ImageValue& image, std::int64_t height, std::int64_t width, bool bicubic) {
  if (height == image.height && width == image.width) return image.id;
  return with_alpha(image, [&](const ImageValue& x) {
    const ImageValue rows(x.trace, resized_axis(x, x.columns_axis, width, bicubic), "resize");
    return resized_axis(rows, x.rows_axis, height, bicubic);
  });
}

void check_image(const ImageValue& image, std::string_view function) {
  const DType dtype = image.type().dtype;
  require(ErrorKind::type, dtype == DType::u8 || is_float(dtype), function, ": expected an image of u8 or floats, got ",
          dtype);
  require(ErrorKind::shape, image.height > 0 && image.width > 0 && image.channels > 0, function,
          ": the image has no pixels: its shape is ", image.type().shape);
}

// Random parts of images: one number [..., 1] for each image, as f32.
struct RandomParts {
  ValueId top, left, height, width;
};

// As the function for `map`: the first of ten random parts that is inside of the image, otherwise the largest legal
// one.
RandomParts random_parts(const ImageValue& image, const ResizedCropOptions& part) {
  Builder& b = image.b;
  const Shape trials = image.numbers_shape(10);
  const auto uniform = [&](const char* text, double low, double high) {
    return expression(b, text, {uniform_numbers(image.trace, trials), number(b, low), number(b, high - low)});
  };
  const auto pixels = static_cast<double>(image.height * image.width);
  const ValueId area = uniform("x1 + x2 * x0", pixels * part.min_scale, pixels * part.max_scale);
  const ValueId ratio = uniform("exp(x1 + x2 * x0)", std::log(part.min_ratio), std::log(part.max_ratio));
  const ValueId top = uniform_numbers(image.trace, trials), left = uniform_numbers(image.trace, trials);
  const ValueId full_height = number(b, static_cast<double>(image.height)),
                full_width = number(b, static_cast<double>(image.width));
  const ValueId widths = rounded_down(b, expression(b, "min(sqrt(x0 * x1) + 0.5, x2 + 1)", {area, ratio, full_width}));
  const ValueId heights =
      rounded_down(b, expression(b, "min(sqrt(x0 / x1) + 0.5, x2 + 1)", {area, ratio, full_height}));
  const ValueId legal = expression(b, "select(x0 >= 1 && x0 <= x2 && x1 >= 1 && x1 <= x3, 1, 0)",
                                   {heights, widths, full_height, full_width});
  const auto axis = static_cast<int>(trials.size()) - 1;
  const ValueId first = build::reshape(b, build::arg_max(b, legal, axis), image.numbers_shape(1));
  const auto chosen = [&](ValueId numbers) { return build::take_along(b, numbers, first, axis); };
  const SideLengths largest = largest_part(image.height, image.width, part);
  const ValueId found = build::binary(b, "gt", chosen(legal), number(b, 0));
  const auto side = [&](ValueId numbers, std::int64_t otherwise) {
    return select_of(b, found, chosen(numbers), number(b, static_cast<double>(otherwise)));
  };
  const ValueId height = side(heights, largest.height), width = side(widths, largest.width);
  const auto start = [&](ValueId uniform_number, ValueId length, std::int64_t full, std::int64_t largest_length) {
    const ValueId places = build::binary(b, "sub", number(b, static_cast<double>(full + 1)), length);
    const ValueId place = rounded_down(b, build::binary(b, "mul", chosen(uniform_number), places));
    return select_of(b, found, expression(b, "min(x0, x1 - 1)", {place, places}),
                     number(b, static_cast<double>((full - largest_length) / 2)));
  };
  const ValueId first_row = start(top, height, image.height, largest.height);
  return {first_row, start(left, width, image.width, largest.width), height, width};
}

// The weights [..., out, in] with which parts of a row or column, one for each image, are resized.
ValueId part_weights(Builder& b, ValueId first, ValueId length, std::int64_t in, std::int64_t out, bool bicubic) {
  for (ValueId* value : {&first, &length}) {  // [..., 1, 1]
    Shape shape = b.type(*value).shape;
    shape.push_back(1);
    *value = build::reshape(b, *value, shape);
  }
  const ValueId i = build::iota(b, {DType::f32, {out, 1}}, 0), t = build::iota(b, {DType::f32, {1, in}}, 1);
  const ValueId step = build::binary(b, "mul", length, number(b, 1.0 / static_cast<double>(out)));
  // The distance of a pixel from the centre, in units of the filter.
  const ValueId distance = expression(b, "abs(x1 - x2 + 0.5 - (x0 + 0.5) * x3) / max(x3, 1)", {i, t, first, step});
  const ValueId filter = bicubic ? expression(b,
                                              "select(x0 < 1, (1.5 * x0 - 2.5) * x0 * x0 + 1, select(x0 < 2, (((x0 - "
                                              "5) * x0 + 8) * x0 - 4) * -0.5, 0))",
                                              {distance})
                                 : expression(b, "max(1 - x0, 0)", {distance});
  const ValueId weights = expression(b, "select(x1 >= x2 && x1 < x2 + x3, x0, 0)", {filter, t, first, length});
  const ValueId sum = build::sum(b, weights, {-1}, true);
  return expression(b, "x0 / select(x1 == 0, 1, x1)", {weights, sum});
}

}  // namespace

Tensor resize_shorter_side(Term image, std::int64_t size, bool bicubic) {
  return at_line(image.where, [&](Trace& t) {
    resize_shorter_side(size, bicubic);  // checks the options
    const ImageValue x(t, image, "resize");
    check_image(x, "resize");
    const SideLengths sides = resized_sides(x.height, x.width, size);
    return t.tensor(resized(x, sides.height, sides.width, bicubic));
  });
}

Tensor resize(Term image, std::int64_t height, std::int64_t width, bool bicubic) {
  return at_line(image.where, [&](Trace& t) {
    resize(height, width, bicubic);
    const ImageValue x(t, image, "resize");
    check_image(x, "resize");
    return t.tensor(resized(x, height, width, bicubic));
  });
}

Tensor random_resized_crop(Term image, std::int64_t height, std::int64_t width, const ResizedCropOptions& part,
                           bool bicubic) {
  return at_line(image.where, [&](Trace& t) {
    random_resized_crop(height, width, part, bicubic);
    const ImageValue x(t, image, "random_resized_crop");
    check_image(x, "random_resized_crop");
    const RandomParts parts = random_parts(x, part);
    const ValueId rows = part_weights(x.b, parts.top, parts.height, x.height, height, bicubic),
                  columns = part_weights(x.b, parts.left, parts.width, x.width, width, bicubic);
    return t.tensor(with_alpha(x, [&](const ImageValue& y) {
      const DType dtype = y.type().dtype;
      const auto pass = [&](ValueId in, ValueId weights, int axis) {
        const ValueId numbers = dtype == DType::f64 ? in : build::cast(x.b, in, DType::f32);
        const ValueId out = product({t, numbers, "resize"}, build::cast(x.b, weights, x.b.type(numbers).dtype), axis);
        return dtype == DType::u8 ? rounded_to_bytes(x.b, out) : build::cast(x.b, out, dtype);
      };
      return pass(pass(y.id, columns, y.columns_axis), rows, y.rows_axis);
    }));
  });
}

}  // namespace karez::data::images
