// The image in an element, and random numbers of functions of images.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "karez/base/error.h"
#include "karez/base/hash.h"
#include "karez/data/image_functions.h"
#include "karez/data/namespace.h"

namespace karez::data::images {

// The same element with another array in a field.
inline Element with_field(const Element& element, HostArray array, std::size_t field = 0) {
  Element out = element;
  out.fields[field] = std::move(array);
  return out;
}

// The sizes of an image [height, width] or [height, width, channels].
struct ImageSize {
  ImageSize(const HostArray& image, std::string_view function) {
    const Shape& shape = image.shape();
    require(ErrorKind::shape, shape.size() == 2 || shape.size() == 3, function,
            ": expected an image [height, width, channels] or [height, width], got shape ", shape);
    height = shape[0], width = shape[1], channels = shape.size() == 3 ? shape[2] : 1;
    pixel_bytes = static_cast<std::size_t>(channels * size_of(image.dtype()));
  }
  std::int64_t height, width, channels;
  std::size_t pixel_bytes;
};

// The type of an image like this one, of another size.
inline TensorType resized_type(const HostArray& image, std::int64_t height, std::int64_t width) {
  Shape shape = image.shape();
  shape[0] = height, shape[1] = width;
  return {image.dtype(), std::move(shape)};
}

inline void check_bytes(const HostArray& image, std::string_view function) {
  require(ErrorKind::type, image.dtype() == DType::u8, function, ": expected an image of u8, got ", image.dtype());
}

// The window of an image that begins at (top, left). Pixels outside of the image are 0.
HostArray window_of(const HostArray& image, std::int64_t top, std::int64_t left, std::int64_t height,
                    std::int64_t width, std::string_view function);

// The first row or column of the window in the middle of an image. A side that is too short, for which the result is
// negative, is padded by the larger half after the image.
std::int64_t center_offset(std::int64_t length, std::int64_t window);

// The size of an image of which the shorter side is resized to `side` pixels.
struct SideLengths {
  std::int64_t height, width;
};
SideLengths resized_sides(std::int64_t height, std::int64_t width, std::int64_t side);
// The largest size of a part of an image whose ratio of width to height is legal.
SideLengths largest_part(std::int64_t height, std::int64_t width, const ResizedCropOptions& part);

// The random numbers of one call of a function.
class RandomNumbers {
 public:
  RandomNumbers(const RandomKey& key, std::string_view function) : key_(key), next_(Hash().add(function).value()) {}
  double uniform() { return key_.uniform(next_++); }  // in [0, 1)
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  std::int64_t below(std::int64_t n) {
    return std::min(n - 1, static_cast<std::int64_t>(uniform() * static_cast<double>(n)));
  }
  double beta(double alpha);  // of the distribution Beta(alpha, alpha)

 private:
  double log_gamma_number(double alpha);  // the logarithm of a number of the gamma distribution
  RandomKey key_;
  std::uint64_t next_;
};

}  // namespace karez::data::images
