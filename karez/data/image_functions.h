// Functions of images for the `map` of data sets. The image is the first field of an element, u8[height, width,
// channels] or [height, width]; other fields are passed on. Names and meanings are those of torchvision.transforms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "karez/data/dataset.h"
#include "karez/data/formats.h"
#include "karez/data/images.h"
#include "karez/data/namespace.h"

namespace karez::data::images {

using ImageFunction = std::function<Element(const Element&)>;
// The random numbers depend on the key, and on the name of the function, so that several functions may share a seed.
using RandomImageFunction = std::function<Element(const Element&, const RandomKey&)>;

// The bytes of an object, which must stay valid as long as the object.
using BytesOfObject = std::function<std::span<const std::uint8_t>(const Object&)>;
// The pixels of an image file whose bytes are in the first field: an array u8[n], or an object. With `skip_errors`, a
// record with a damaged image is skipped (skipped_element) and counted; at the end of the epoch, `report` is called, or
// a warning is logged, with the number of skipped records and the first error.
ImageFunction decode(const DecodeOptions& options = {}, bool skip_errors = false, BytesOfObject bytes_of = nullptr,
                     SkipReport report = nullptr);

// These take images of any dtype. A crop must be inside the image; center_crop fills with zeros what is outside.
ImageFunction crop(std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width);
ImageFunction center_crop(std::int64_t height, std::int64_t width);
ImageFunction pad(std::int64_t padding);  // zeros on all sides
// The loop of `horizontal_flip`: (in, rows, width, bytes of a pixel, out). karez/api/images.h passes it; null: a plain
// loop, which has the same results.
using FlipKernel = void (*)(const std::byte*, std::int64_t, std::int64_t, std::size_t, std::byte*);
ImageFunction horizontal_flip(FlipKernel kernel);
RandomImageFunction random_crop(std::int64_t height, std::int64_t width, std::int64_t padding = 0);
RandomImageFunction random_horizontal_flip(double p, FlipKernel kernel);
// Zeros in a square around a random pixel. Parts outside of the image are cut off.
RandomImageFunction cut_out(std::int64_t size);

// The loops of `resize`: (in, in_height, in_width, channels, out, out_height, out_width, bicubic). This component does
// not see kernels; karez/api/images.h passes them.
struct ResizeKernels {
  void (*bytes)(const std::uint8_t*, std::int64_t, std::int64_t, std::int64_t, std::uint8_t*, std::int64_t,
                std::int64_t, bool) = nullptr;
  void (*floats)(const float*, std::int64_t, std::int64_t, std::int64_t, float*, std::int64_t, std::int64_t,
                 bool) = nullptr;
};
// Of u8, or of f32 images, which are not rounded and whose alpha is a channel as the others.
struct ResizeOptions {
  std::int64_t height = 0;
  std::int64_t width = 0;  // 0: the shorter side gets `height` pixels, and the ratio of the sides is kept
  bool bicubic = false;    // otherwise bilinear; both with antialiasing, and equal to PIL's
};
ImageFunction resize(const ResizeOptions& options, const ResizeKernels& kernels);
struct ResizedCropOptions {
  double min_scale = 0.08, max_scale = 1;           // of the area
  double min_ratio = 3.0 / 4, max_ratio = 4.0 / 3;  // of width to height
};
// A random part of the image, resized to options.height x options.width.
RandomImageFunction random_resized_crop(const ResizeOptions& options, const ResizedCropOptions& part,
                                        const ResizeKernels& kernels);

// The loops of `normalize`: (in, pixels, channels, mean of each channel, std of each channel, planes, out). Null: plain
// loops, which have the same results.
struct NormalizeKernels {
  void (*bytes)(const std::uint8_t*, std::int64_t, std::int64_t, const float*, const float*, bool, float*) = nullptr;
  void (*floats)(const float*, std::int64_t, std::int64_t, const float*, const float*, bool, float*) = nullptr;
};
// f32: (x - mean) / std for each channel, where x is u8 / 255 or f32. One mean or std serves all channels. With
// `planes`, the result is [channels, height, width].
ImageFunction normalize(std::vector<float> mean, std::vector<float> std, bool planes, const NormalizeKernels& kernels);
// The dimensions of an array of any dtype in another order. For (2, 0, 1), an image becomes [channels, height, width].
ImageFunction transpose(std::vector<int> axes);
// The labels of a field (negative: counted from the last) as f32[..., classes].
ImageFunction one_hot(std::int64_t classes, std::int64_t field = -1);

// The loops of functions of colours, for `pixels` pixels of 1 to 4 channels, the last of which is alpha if there are 2
// or 4. karez/api/images.h passes them, as those of `resize`.
struct ColourKernels {
  // (in, pixels, channels, base, factor, out): base + factor * (colour - base), in f32, limited to 0 to 255, truncated
  void (*blend)(const std::uint8_t*, std::int64_t, int, int, float, std::uint8_t*) = nullptr;
  // (in, pixels, channels, factor, out): the same, where the base is the grey of each pixel
  void (*blend_with_grey)(const std::uint8_t*, std::int64_t, int, float, std::uint8_t*) = nullptr;
  // (in, pixels, channels): the sum of the greys
  std::int64_t (*sum_of_greys)(const std::uint8_t*, std::int64_t, int) = nullptr;
};
// Colours of u8 images, with PIL's arithmetic (ImageEnhance); factor 1 changes nothing. Alpha is not changed.
ImageFunction adjust_brightness(double factor, const ColourKernels& kernels);
ImageFunction adjust_contrast(double factor, const ColourKernels& kernels);
ImageFunction adjust_saturation(double factor, const ColourKernels& kernels);
// The three in random order, each with a factor between max(0, 1 - x) and 1 + x.
RandomImageFunction color_jitter(double brightness, double contrast, double saturation, const ColourKernels& kernels);

// Of a batch: x * r + (1 - r) * (x rotated by one row), for the first two fields, f32 images and f32 labels; r is a
// random number of the distribution Beta(alpha, alpha).
RandomImageFunction mix_up(double alpha);

}  // namespace karez::data::images
