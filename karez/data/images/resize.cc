// Functions that resize images.
#include <cmath>

#include "karez/data/images/arithmetic.h"
#include "karez/data/images/image_field.h"

namespace karez::data::images {
namespace {

void check_options(const ResizeOptions& options, const ResizeKernels& kernels, std::string_view function) {
  require(kernels.bytes != nullptr && kernels.floats != nullptr, function, ": the kernels must not be null");
  require(options.height >= 1 && options.width >= 0, function, ": height and width must be at least 1, got ",
          options.height, " x ", options.width);
}

// Replaces the colours of an image of grey and alpha, or of RGB and alpha, by change(colour, alpha).
template <class Change> void change_colours(std::span<std::uint8_t> samples, std::int64_t channels, Change change) {
  const auto step = static_cast<std::size_t>(channels);
  for (std::size_t pixel = 0; pixel < samples.size(); pixel += step)
    for (std::size_t c = 0; c + 1 < step; ++c)
      samples[pixel + c] = change(samples[pixel + c], samples[pixel + step - 1]);
}

HostArray resized(const HostArray& image, std::int64_t height, std::int64_t width, bool bicubic,
                  const ResizeKernels& kernels, std::string_view function) {
  require(ErrorKind::type, image.dtype() == DType::u8 || image.dtype() == DType::f32, function,
          ": expected an image of u8 or f32, got ", image.dtype());
  const ImageSize size(image, function);
  require(ErrorKind::shape, image.count() > 0, function, ": the image has no pixels: its shape is ", image.shape());
  if (height == size.height && width == size.width) return image;
  checked_mul(checked_mul(height, width), size.channels);
  HostArray out(resized_type(image, height, width));
  if (image.dtype() == DType::f32) {
    kernels.floats(image.data<float>().data(), size.height, size.width, size.channels, out.data<float>().data(), height,
                   width, bicubic);
    return out;
  }
  // Colours of transparent pixels do not count, so the colours are multiplied by alpha before.
  const bool alpha = size.channels == 2 || size.channels == 4;
  HostArray products = image;
  if (alpha) {
    const std::span<const std::uint8_t> samples = image.data<std::uint8_t>();
    products = HostArray(image.type());
    std::copy(samples.begin(), samples.end(), products.data<std::uint8_t>().begin());
    change_colours(products.data<std::uint8_t>(), size.channels, multiply_samples);
  }
  kernels.bytes(products.data<std::uint8_t>().data(), size.height, size.width, size.channels,
                out.data<std::uint8_t>().data(), height, width, bicubic);
  if (alpha) change_colours(out.data<std::uint8_t>(), size.channels, divide_by_alpha);
  return out;
}

}  // namespace

SideLengths resized_sides(std::int64_t height, std::int64_t width, std::int64_t side) {
  if (height <= width) return {side, checked_mul(side, width) / height};
  return {checked_mul(side, height) / width, side};
}

SideLengths largest_part(std::int64_t height, std::int64_t width, const ResizedCropOptions& part) {
  const double ratio =
      std::clamp(static_cast<double>(width) / static_cast<double>(height), part.min_ratio, part.max_ratio);
  SideLengths out;
  out.height = std::clamp<std::int64_t>(std::llrint(static_cast<double>(width) / ratio), 1, height);
  out.width = std::clamp<std::int64_t>(std::llrint(static_cast<double>(out.height) * ratio), 1, width);
  return out;
}

ImageFunction resize(const ResizeOptions& options, const ResizeKernels& kernels) {
  check_options(options, kernels, "resize");
  return [=](const Element& element) {
    const HostArray& image = array_of(element);
    const ImageSize size(image, "resize");
    std::int64_t height = options.height, width = options.width;
    if (width == 0) {
      require(ErrorKind::shape, image.count() > 0, "resize: the image has no pixels: its shape is ", image.shape());
      const SideLengths sides = resized_sides(size.height, size.width, options.height);
      height = sides.height, width = sides.width;
    }
    return with_field(element, resized(image, height, width, options.bicubic, kernels, "resize"));
  };
}

RandomImageFunction random_resized_crop(const ResizeOptions& options, const ResizedCropOptions& part,
                                        const ResizeKernels& kernels) {
  check_options(options, kernels, "random_resized_crop");
  require(options.width >= 1, "random_resized_crop: height and width must be at least 1, got ", options.height, " x ",
          options.width);
  require(part.min_scale > 0 && part.min_scale <= part.max_scale,
          "random_resized_crop: scale must be a range above 0, got ", part.min_scale, " to ", part.max_scale);
  require(part.min_ratio > 0 && part.min_ratio <= part.max_ratio,
          "random_resized_crop: ratio must be a range above 0, got ", part.min_ratio, " to ", part.max_ratio);
  return [=](const Element& element, const RandomKey& key) {
    const HostArray& image = array_of(element);
    const ImageSize size(image, "random_resized_crop");
    require(ErrorKind::shape, image.count() > 0, "random_resized_crop: the image has no pixels: its shape is ",
            image.shape());
    RandomNumbers random(key, "random_resized_crop");
    std::int64_t height = 0, width = 0, top = 0, left = 0;
    for (int trial = 0; trial < 10 && height == 0; ++trial) {
      const double area =
          static_cast<double>(size.height * size.width) * random.uniform(part.min_scale, part.max_scale);
      const double ratio = std::exp(random.uniform(std::log(part.min_ratio), std::log(part.max_ratio)));
      const std::int64_t w = std::llrint(std::sqrt(area * ratio)), h = std::llrint(std::sqrt(area / ratio));
      if (w < 1 || h < 1 || w > size.width || h > size.height) continue;
      height = h, width = w, top = random.below(size.height - h + 1), left = random.below(size.width - w + 1);
    }
    if (height == 0) {  // the largest part in the middle that has a legal ratio
      const SideLengths largest = largest_part(size.height, size.width, part);
      height = largest.height, width = largest.width;
      top = (size.height - height) / 2, left = (size.width - width) / 2;
    }
    const HostArray window = window_of(image, top, left, height, width, "random_resized_crop");
    return with_field(element,
                      resized(window, options.height, options.width, options.bicubic, kernels, "random_resized_crop"));
  };
}

}  // namespace karez::data::images
