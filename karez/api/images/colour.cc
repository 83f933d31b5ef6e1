// Functions of tensors that change the colours of images.
#include <algorithm>
#include <array>
#include <numeric>

#include "karez/api/images.h"
#include "karez/api/images/image_value.h"
#include "karez/data/images/arithmetic.h"
#include "karez/ops/compose.h"
#include "karez/ops/norms.h"

namespace karez::data::images {
namespace {

// Images of bytes as f32 numbers, in parts: the samples of colour, and alpha, if the images have it.
struct Colours {
  Colours(Trace& t, const Term& image, std::string_view function) : image(t, image, function), b(t.builder) {
    const TensorType type = this->image.type();
    require(ErrorKind::type, type.dtype == DType::u8, function, ": expected an image of u8, got ", type.dtype);
    require(ErrorKind::shape, this->image.channels >= 1 && this->image.channels <= 4, function,
            ": expected an image of 1 to 4 channels, got ", this->image.channels);
    samples = this->image.channels >= 3 ? 3 : 1;
    colours = build::cast(b, part(this->image.id, 0, samples), DType::f32);
  }
  // Channels of a value with the image's dimensions.
  ValueId part(ValueId x, std::int64_t first, std::int64_t count) const {
    Shape shape = b.type(x).shape;
    if (shape.size() == 2 || shape.back() == count) return x;
    Ints begin(shape.size());
    begin.back() = first, shape.back() = count;
    return build::slice(b, x, begin, shape);
  }
  // The image with other colours.
  Tensor with(ValueId changed) const {
    const ValueId bytes = build::cast(b, changed, DType::u8);
    if (samples == image.channels) return image.trace.tensor(bytes);
    const ValueId parts[] = {bytes, part(image.id, samples, 1)};
    return image.trace.tensor(build::concat(b, parts, image.type().rank() - 1));
  }

  ImageValue image;
  Builder& b;
  std::int64_t samples;
  ValueId colours;
};

// base + factor * (x - base), in whole numbers.
ValueId blend(Builder& b, ValueId base, ValueId x, ValueId factor) {
  const ValueId product = build::binary(b, "mul", factor, build::binary(b, "sub", x, base));
  return rounded_down(b, build::clip(b, build::binary(b, "add", base, product), 0, 255));
}

// Grey, with one channel. All products and sums are exact in f32.
ValueId grey_of(const Colours& c, ValueId colours) {
  if (c.samples == 1) return colours;
  Builder& b = c.b;
  ValueId sum = number(b, grey_half);
  for (std::size_t i = 0; i < grey_weights.size(); ++i)
    sum = build::binary(
        b, "add", sum,
        build::binary(b, "mul", c.part(colours, static_cast<std::int64_t>(i), 1), number(b, grey_weights[i])));
  return rounded_down(b, build::binary(b, "mul", sum, number(b, 1.0 / (1 << grey_bits))));
}

ValueId brightness(const Colours& c, ValueId colours, ValueId factor) {
  return blend(c.b, number(c.b, 0), colours, factor);
}

ValueId contrast(const Colours& c, ValueId colours, ValueId factor) {
  Builder& b = c.b;
  if (c.image.type().count() == 0) return colours;
  Ints axes = {c.image.rows_axis, c.image.columns_axis};
  const ValueId grey = build::cast(b, grey_of(c, colours), DType::f64);
  const ValueId sum = build::sum(b, grey, axes, true);
  const ValueId pixels = number(b, static_cast<double>(c.image.height * c.image.width), DType::f64);
  const ValueId mean =
      rounded_down(b, build::binary(b, "add", build::binary(b, "div", sum, pixels), number(b, 0.5, DType::f64)));
  return blend(b, build::cast(b, mean, DType::f32), colours, factor);
}

ValueId saturation(const Colours& c, ValueId colours, ValueId factor) {
  return blend(c.b, grey_of(c, colours), colours, factor);
}

using Adjust = ValueId (*)(const Colours&, ValueId, ValueId);

Tensor adjust(const Term& image, Adjust function, double factor, std::string_view name) {
  return at_line(image.where, [&](Trace& t) {
    const Colours c(t, image, name);
    return c.with(function(c, c.colours, number(c.b, static_cast<float>(factor))));
  });
}

}  // namespace

Tensor adjust_brightness(Term image, double factor) {
  adjust_brightness(factor);  // checks the option
  return adjust(image, brightness, factor, "adjust_brightness");
}
Tensor adjust_contrast(Term image, double factor) {
  adjust_contrast(factor);
  return adjust(image, contrast, factor, "adjust_contrast");
}
Tensor adjust_saturation(Term image, double factor) {
  adjust_saturation(factor);
  return adjust(image, saturation, factor, "adjust_saturation");
}

Tensor color_jitter(Term image, double brightness_range, double contrast_range, double saturation_range) {
  return at_line(image.where, [&](Trace& t) {
    color_jitter(brightness_range, contrast_range, saturation_range);
    const Colours c(t, image, "color_jitter");
    Builder& b = c.b;
    struct Step {
      Adjust adjust;
      ValueId factor;
    };
    std::vector<Step> steps;
    for (const auto& [function, range] : {std::pair<Adjust, double>{brightness, brightness_range},
                                          {contrast, contrast_range},
                                          {saturation, saturation_range}}) {
      if (range == 0) continue;
      const double low = std::max(0.0, 1 - range), high = 1 + range;
      const ValueId uniform = uniform_numbers(t, c.image.number_shape());
      steps.push_back({function, expression(b, "x1 + x2 * x0", {uniform, number(b, low), number(b, high - low)})});
    }
    if (steps.empty()) return t.tensor(c.image.id);
    // Each image has a random order. Every step is computed at every position, and the image keeps one of the results.
    std::vector<std::size_t> order(steps.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<std::vector<std::size_t>> orders;
    do orders.push_back(order);
    while (std::next_permutation(order.begin(), order.end()));
    ValueId chosen;
    if (orders.size() > 1)
      chosen =
          build::cast(b, below(b, uniform_numbers(t, c.image.number_shape()), static_cast<std::int64_t>(orders.size())),
                      DType::i32);
    ValueId colours = c.colours;
    for (std::size_t position = 0; position < steps.size(); ++position) {
      std::vector<std::int32_t> step_of;
      for (const auto& one : orders) step_of.push_back(static_cast<std::int32_t>(one[position]));
      ValueId step, next = steps.back().adjust(c, colours, steps.back().factor);
      if (orders.size() > 1)
        step = build::gather(b,
                             build::constant(b, {DType::i32, {static_cast<std::int64_t>(orders.size())}},
                                             std::as_bytes(std::span<const std::int32_t>(step_of))),
                             chosen);
      for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
        const ValueId selected = build::binary(b, "eq", step, number(b, static_cast<double>(i), DType::i32));
        next = select_of(b, selected, steps[i].adjust(c, colours, steps[i].factor), next);
      }
      colours = next;
    }
    return c.with(colours);
  });
}

}  // namespace karez::data::images
