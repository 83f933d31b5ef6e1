// Hands the kernels for images to the functions of `data`.
#include "karez/api/images.h"

#include "karez/base/error.h"
#include "karez/kernels/cpu/image_resize.h"

namespace karez::data::images {

ImageFunction resize_shorter_side(std::int64_t size, bool bicubic) {
  return resize({.height = size, .width = 0, .bicubic = bicubic}, kernels::resize_image);
}

ImageFunction resize(std::int64_t height, std::int64_t width, bool bicubic) {
  require(width >= 1, "resize: height and width must be at least 1, got ", height, " x ", width);
  return resize({.height = height, .width = width, .bicubic = bicubic}, kernels::resize_image);
}

RandomImageFunction random_resized_crop(std::int64_t height, std::int64_t width, const ResizedCropOptions& part,
                                        bool bicubic) {
  return random_resized_crop({.height = height, .width = width, .bicubic = bicubic}, part, kernels::resize_image);
}

}  // namespace karez::data::images
