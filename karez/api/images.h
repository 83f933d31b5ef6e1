// Functions of images for the `map` of data sets, with the kernels of this library, and for tensors. A function for
// `map` is made from its options, as crop(0, 0, 8, 8); the function of tensors with the same name has the image as its
// first argument, as crop(image, 0, 0, 8, 8), and computes the same values.
//
// A tensor of images is [..., height, width, channels], such as a batch, or [height, width] for one grey image. Random
// functions of tensors draw numbers for each image of a batch, as dropout does: the numbers depend on the world's seed,
// the module path, the step and the index of the image. decode has no form for tensors, because its result has a shape
// that depends on the file.
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

#include "karez/api/tensor.h"
#include "karez/data/image_functions.h"

namespace karez {
namespace images = data::images;
}

namespace karez::data::images {

// Resizes an image u8[height, width, channels] with antialiasing, as PIL's Image.resize: the colours of images with 2
// or 4 channels are multiplied by the last channel, alpha. With one size, the shorter side gets this number of pixels,
// and the ratio of the sides is kept. An image of f32 is not rounded, and alpha is a channel as the others.
ImageFunction resize_shorter_side(std::int64_t size, bool bicubic);
ImageFunction resize(std::int64_t height, std::int64_t width, bool bicubic = false);
template <std::same_as<bool> Bool = bool> ImageFunction resize(std::int64_t size, Bool bicubic = false) {
  return resize_shorter_side(size, bicubic);  // a template, so that resize(4, 3) has a height and a width
}
// A random part of the image, resized to height x width.
RandomImageFunction random_resized_crop(std::int64_t height, std::int64_t width, const ResizedCropOptions& part = {},
                                        bool bicubic = false);

ImageFunction horizontal_flip();
RandomImageFunction random_horizontal_flip(double p = 0.5);
// f32: (x - mean) / std for each channel, where x is u8 / 255 or f32. One mean or std serves all channels. With
// `planes`, the result is [channels, height, width].
ImageFunction normalize(std::vector<float> mean, std::vector<float> std, bool planes = true);

// Colours of u8 images, with PIL's arithmetic (ImageEnhance); factor 1 changes nothing. Alpha is not changed.
ImageFunction adjust_brightness(double factor);
ImageFunction adjust_contrast(double factor);
ImageFunction adjust_saturation(double factor);
// The three in random order, each with a factor between max(0, 1 - x) and 1 + x.
RandomImageFunction color_jitter(double brightness, double contrast, double saturation);

// Functions of tensors of any dtype.
Tensor crop(Term image, std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width);
Tensor center_crop(Term image, std::int64_t height, std::int64_t width);
Tensor pad(Term image, std::int64_t padding);
Tensor horizontal_flip(Term image);
Tensor random_crop(Term image, std::int64_t height, std::int64_t width, std::int64_t padding = 0);
Tensor random_horizontal_flip(Term image, double p = 0.5);
Tensor cut_out(Term image, std::int64_t size);
// The axes are numbers from 0 for the last axes.size() dimensions; the dimensions before them keep their places.
Tensor transpose(Term image, std::vector<int> axes);

// u8 gives u8, with the same bits as the function for `map`; floats give floats that are not rounded, have gradients,
// and alpha is a channel as the others.
Tensor resize_shorter_side(Term image, std::int64_t size, bool bicubic);
Tensor resize(Term image, std::int64_t height, std::int64_t width, bool bicubic = false);
template <std::same_as<bool> Bool = bool> Tensor resize(Term image, std::int64_t size, Bool bicubic = false) {
  return resize_shorter_side(std::move(image), size, bicubic);
}
Tensor random_resized_crop(Term image, std::int64_t height, std::int64_t width, const ResizedCropOptions& part = {},
                           bool bicubic = false);

// u8 or f32 to f32.
Tensor normalize(Term image, std::vector<float> mean, std::vector<float> std, bool planes = true);
// Labels i64, i32 or u8 to f32[..., classes]. A label outside of the classes makes the launch fail.
Tensor one_hot(Term labels, std::int64_t classes);

// Of u8 images with 1 to 4 channels.
Tensor adjust_brightness(Term image, double factor);
Tensor adjust_contrast(Term image, double factor);
Tensor adjust_saturation(Term image, double factor);
Tensor color_jitter(Term image, double brightness, double contrast, double saturation);

// x * r + (1 - r) * (x rotated by one row) for images and labels of f32. Without a ratio r, it is a random number of
// the distribution Beta(alpha, alpha).
struct MixedRows {
  Tensor images, labels;
};
MixedRows mix_up(Term images, Term labels, double alpha);
MixedRows mix_up(Term images, Term labels, Term ratio);

}  // namespace karez::data::images
