// Hands the kernels for images to the functions of `data`.
#include "karez/api/images.h"

#include "karez/base/error.h"
#include "karez/data/images/arithmetic.h"
#include "karez/kernels/cpu/image_colour.h"
#include "karez/kernels/cpu/image_resize.h"
#include "karez/kernels/cpu/image_samples.h"

namespace karez::data::images {
namespace {

constexpr ResizeKernels resize_kernels = {kernels::resize_image, kernels::resize_floats};
constexpr ColourKernels colour_kernels = {kernels::blend_colours, kernels::blend_with_grey, kernels::sum_of_greys};
static_assert(kernels::grey_weights == grey_weights && kernels::grey_half == grey_half &&
              kernels::grey_bits == grey_bits);

}  // namespace

ImageFunction resize_shorter_side(std::int64_t size, bool bicubic) {
  return resize({.height = size, .width = 0, .bicubic = bicubic}, resize_kernels);
}

ImageFunction resize(std::int64_t height, std::int64_t width, bool bicubic) {
  require(width >= 1, "resize: height and width must be at least 1, got ", height, " x ", width);
  return resize({.height = height, .width = width, .bicubic = bicubic}, resize_kernels);
}

RandomImageFunction random_resized_crop(std::int64_t height, std::int64_t width, const ResizedCropOptions& part,
                                        bool bicubic) {
  return random_resized_crop({.height = height, .width = width, .bicubic = bicubic}, part, resize_kernels);
}

ImageFunction horizontal_flip() { return horizontal_flip(kernels::flip_rows); }
RandomImageFunction random_horizontal_flip(double p) { return random_horizontal_flip(p, kernels::flip_rows); }
ImageFunction normalize(std::vector<float> mean, std::vector<float> std, bool planes) {
  return normalize(std::move(mean), std::move(std), planes, {kernels::normalize_bytes, kernels::normalize_floats});
}

ImageFunction adjust_brightness(double factor) { return adjust_brightness(factor, colour_kernels); }
ImageFunction adjust_contrast(double factor) { return adjust_contrast(factor, colour_kernels); }
ImageFunction adjust_saturation(double factor) { return adjust_saturation(factor, colour_kernels); }
RandomImageFunction color_jitter(double brightness, double contrast, double saturation) {
  return color_jitter(brightness, contrast, saturation, colour_kernels);
}

}  // namespace karez::data::images
