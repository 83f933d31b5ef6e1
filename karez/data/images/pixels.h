// The pixels of an image, and operations on them that decoders share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "karez/data/images.h"
#include "karez/data/namespace.h"

namespace karez::data {

// Bytes [height, width, channels]; their values are undefined until they are written.
struct Pixels {
  Pixels() = default;
  Pixels(std::int64_t rows, std::int64_t columns, std::int64_t samples);
  std::size_t row_bytes() const { return static_cast<std::size_t>(width * channels); }
  std::uint8_t* data() const { return reinterpret_cast<std::uint8_t*>(bytes.get()); }
  std::uint8_t* row(std::int64_t y) const { return data() + static_cast<std::size_t>(y) * row_bytes(); }

  std::int64_t height = 0, width = 0, channels = 0;
  std::shared_ptr<std::byte[]> bytes = nullptr;
};

struct DecodedImage {
  Pixels pixels;
  int orientation = 1;  // of EXIF; 1: as stored
};

// Throws unless the image has at least one and at most `max_pixels` pixels.
void check_size(std::int64_t height, std::int64_t width, std::int64_t max_pixels, std::string_view name);

// To 1 or 3 channels, with PIL's formulas.
Pixels convert_channels(Pixels pixels, int channels);
// CMYK with inverted samples, as Adobe's programs write it, to RGB.
Pixels convert_cmyk(const Pixels& pixels);
// Turns an image that is stored with an orientation of EXIF (1 to 8) upright.
Pixels turn_upright(Pixels pixels, int orientation);
// The orientation in EXIF data, which may begin with "Exif\0\0"; 1 if there is none, or if the data are damaged.
int exif_orientation(std::span<const std::uint8_t> exif);

DecodedImage decode_jpeg(std::span<const std::uint8_t> file, const DecodeOptions& options, std::string_view name);
DecodedImage decode_png(std::span<const std::uint8_t> file, const DecodeOptions& options, std::string_view name);
DecodedImage decode_webp(std::span<const std::uint8_t> file, const DecodeOptions& options, std::string_view name);

}  // namespace karez::data
