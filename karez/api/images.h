// Functions of images for the `map` of data sets, with the kernels of this library.
#pragma once

#include <cstdint>

#include "karez/data/image_functions.h"

namespace karez {
namespace images = data::images;
}

namespace karez::data::images {

// Resizes an image u8[height, width, channels] with antialiasing, as PIL's Image.resize. With one size, the shorter
// side gets this number of pixels, and the ratio of the sides is kept.
ImageFunction resize(std::int64_t size, bool bicubic = false);
ImageFunction resize(std::int64_t height, std::int64_t width, bool bicubic = false);
// A random part of the image, resized to height x width.
RandomImageFunction random_resized_crop(std::int64_t height, std::int64_t width, const ResizedCropOptions& part = {},
                                        bool bicubic = false);

}  // namespace karez::data::images
