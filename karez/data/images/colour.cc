// Functions that change the colours of images, with the arithmetic of PIL's ImageEnhance.
#include <array>
#include <cmath>

#include "karez/data/images/image_field.h"

namespace karez::data::images {
namespace {

struct Colours {
  Colours(const HostArray& image, std::string_view function) {
    check_bytes(image, function);
    const ImageSize size(image, function);
    require(ErrorKind::shape, size.channels >= 1 && size.channels <= 4, function,
            ": expected an image of 1 to 4 channels, got ", size.channels);
    channels = static_cast<int>(size.channels), pixels = size.height * size.width;
    in = image.data<std::uint8_t>().data();
  }
  int channels;
  std::int64_t pixels;
  const std::uint8_t* in;
};

HostArray blended(const HostArray& image, const Colours& colours, int base, double factor,
                  const ColourKernels& kernels) {
  HostArray out(image.type());
  kernels.blend(colours.in, colours.pixels, colours.channels, base, static_cast<float>(factor),
                out.data<std::uint8_t>().data());
  return out;
}

HostArray brightness(const HostArray& image, double factor, const ColourKernels& kernels) {
  return blended(image, Colours(image, "adjust_brightness"), 0, factor, kernels);
}

HostArray contrast(const HostArray& image, double factor, const ColourKernels& kernels) {
  const Colours colours(image, "adjust_contrast");
  if (colours.pixels == 0) return image;
  const auto sum = static_cast<double>(kernels.sum_of_greys(colours.in, colours.pixels, colours.channels));
  const auto mean = static_cast<int>(sum / static_cast<double>(colours.pixels) + 0.5);
  return blended(image, colours, mean, factor, kernels);
}

HostArray saturation(const HostArray& image, double factor, const ColourKernels& kernels) {
  const Colours colours(image, "adjust_saturation");
  HostArray out(image.type());
  kernels.blend_with_grey(colours.in, colours.pixels, colours.channels, static_cast<float>(factor),
                          out.data<std::uint8_t>().data());
  return out;
}

using Adjust = HostArray (*)(const HostArray&, double, const ColourKernels&);

ImageFunction adjust(Adjust function, double factor, const ColourKernels& kernels, std::string_view name) {
  require(factor >= 0 && std::isfinite(factor), name, ": factor must be at least 0 and finite, got ", factor);
  return [=](const Element& element) { return with_field(element, function(array_of(element), factor, kernels)); };
}

}  // namespace

ImageFunction adjust_brightness(double factor, const ColourKernels& kernels) {
  return adjust(brightness, factor, kernels, "adjust_brightness");
}
ImageFunction adjust_contrast(double factor, const ColourKernels& kernels) {
  return adjust(contrast, factor, kernels, "adjust_contrast");
}
ImageFunction adjust_saturation(double factor, const ColourKernels& kernels) {
  return adjust(saturation, factor, kernels, "adjust_saturation");
}

RandomImageFunction color_jitter(double brightness_range, double contrast_range, double saturation_range,
                                 const ColourKernels& kernels) {
  struct Step {
    Adjust adjust;
    double range;
  };
  const std::array<Step, 3> steps = {
      {{brightness, brightness_range}, {contrast, contrast_range}, {saturation, saturation_range}}};
  for (const Step& step : steps)
    require(step.range >= 0 && std::isfinite(step.range),
            "color_jitter: the range of a factor must be at least 0 and finite, got ", step.range);
  return [=](const Element& element, const RandomKey& key) {
    RandomNumbers random(key, "color_jitter");
    std::array<Step, 3> order = steps;
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
    HostArray image = array_of(element);
    for (const Step& step : order) {
      const double factor = random.uniform(std::max(0.0, 1 - step.range), 1 + step.range);
      if (step.range > 0) image = step.adjust(image, factor, kernels);
    }
    return with_field(element, std::move(image));
  };
}

}  // namespace karez::data::images
