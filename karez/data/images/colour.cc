// Functions that change the colours of images, with the arithmetic of PIL's ImageEnhance.
#include <array>
#include <cstring>

#include "karez/data/images/arithmetic.h"
#include "karez/data/images/image_field.h"

namespace karez::data::images {
namespace {

struct Colours {
  Colours(const HostArray& image, std::string_view function) {
    check_bytes(image, function);
    const ImageSize size(image, function);
    require(ErrorKind::shape, size.channels >= 1 && size.channels <= 4, function,
            ": expected an image of 1 to 4 channels, got ", size.channels);
    channels = static_cast<int>(size.channels), samples = channels >= 3 ? 3 : 1, pixels = size.height * size.width;
  }
  int channels, samples;  // samples of colour in a pixel; the last of 2 or 4 channels is alpha
  std::int64_t pixels;
};

unsigned grey_of(const std::uint8_t* pixel, int samples) { return samples == 1 ? *pixel : data::grey_of(pixel); }

// base + factor * (value - base), truncated.
std::uint8_t blend(int base, int value, float factor) {
  const float sum = static_cast<float>(base) + factor * static_cast<float>(value - base);
  return sum <= 0 ? 0 : sum >= 255 ? 255 : static_cast<std::uint8_t>(sum);
}

// Calls change<samples>(from, to) for the colours of each pixel; alpha is copied.
template <int channels, class Change>
void change_pixels_of(const std::uint8_t* from, std::uint8_t* to, std::int64_t pixels, Change change) {
  constexpr int samples = channels >= 3 ? 3 : 1;
  for (std::int64_t i = 0; i < pixels; ++i, from += channels, to += channels) {
    change.template operator()<samples>(from, to);
    if constexpr (channels % 2 == 0) to[channels - 1] = from[channels - 1];
  }
}

template <class Change> HostArray change_pixels(const HostArray& image, const Colours& colours, Change change) {
  HostArray out(image.type());
  const std::uint8_t* from = image.data<std::uint8_t>().data();
  std::uint8_t* to = out.data<std::uint8_t>().data();
  switch (colours.channels) {
    case 1: change_pixels_of<1>(from, to, colours.pixels, change); break;
    case 2: change_pixels_of<2>(from, to, colours.pixels, change); break;
    case 3: change_pixels_of<3>(from, to, colours.pixels, change); break;
    default: change_pixels_of<4>(from, to, colours.pixels, change); break;
  }
  return out;
}

HostArray blend_with(const HostArray& image, const Colours& colours, int base, float factor) {
  std::array<std::uint8_t, 256> table{};
  for (int value = 0; value < 256; ++value) table[static_cast<std::size_t>(value)] = blend(base, value, factor);
  return change_pixels(image, colours, [&]<int samples>(const std::uint8_t* from, std::uint8_t* to) {
    for (int c = 0; c < samples; ++c) to[c] = table[from[c]];
  });
}

HostArray brightness(const HostArray& image, double factor) {
  return blend_with(image, Colours(image, "adjust_brightness"), 0, static_cast<float>(factor));
}

HostArray contrast(const HostArray& image, double factor) {
  const Colours colours(image, "adjust_contrast");
  if (colours.pixels == 0) return image;
  std::int64_t sum = 0;
  const std::uint8_t* pixel = image.data<std::uint8_t>().data();
  for (std::int64_t i = 0; i < colours.pixels; ++i, pixel += colours.channels) sum += grey_of(pixel, colours.samples);
  const auto mean = static_cast<int>(static_cast<double>(sum) / static_cast<double>(colours.pixels) + 0.5);
  return blend_with(image, colours, mean, static_cast<float>(factor));
}

HostArray saturation(const HostArray& image, double factor) {
  const Colours colours(image, "adjust_saturation");
  return change_pixels(
      image, colours,
      [&, factor = static_cast<float>(factor)]<int samples>(const std::uint8_t* from, std::uint8_t* to) {
        const auto grey = static_cast<int>(grey_of(from, samples));
        for (int c = 0; c < samples; ++c) to[c] = blend(grey, from[c], factor);
      });
}

using Adjust = HostArray (*)(const HostArray&, double);

ImageFunction adjust(Adjust function, double factor, std::string_view name) {
  require(factor >= 0, name, ": factor must be at least 0, got ", factor);
  return [=](const Element& element) { return with_field(element, function(array_of(element), factor)); };
}

}  // namespace

ImageFunction adjust_brightness(double factor) { return adjust(brightness, factor, "adjust_brightness"); }
ImageFunction adjust_contrast(double factor) { return adjust(contrast, factor, "adjust_contrast"); }
ImageFunction adjust_saturation(double factor) { return adjust(saturation, factor, "adjust_saturation"); }

RandomImageFunction color_jitter(double brightness_range, double contrast_range, double saturation_range) {
  struct Step {
    Adjust adjust;
    double range;
  };
  const std::array<Step, 3> steps = {
      {{brightness, brightness_range}, {contrast, contrast_range}, {saturation, saturation_range}}};
  for (const Step& step : steps)
    require(step.range >= 0, "color_jitter: the range of a factor must be at least 0, got ", step.range);
  return [=](const Element& element, const RandomKey& key) {
    RandomNumbers random(key, "color_jitter");
    std::array<Step, 3> order = steps;
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
    HostArray image = array_of(element);
    for (const Step& step : order) {
      const double factor = random.uniform(std::max(0.0, 1 - step.range), 1 + step.range);
      if (step.range > 0) image = step.adjust(image, factor);
    }
    return with_field(element, std::move(image));
  };
}

}  // namespace karez::data::images
