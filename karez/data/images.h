// Images: decoding and encoding of JPEG, PNG and WebP files.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/device/host_array.h"

namespace karez::data {

struct DecodeOptions {
  // The channels of the result: 1 (grey), 3 (RGB), or 0 for those of the file: 1 (grey), 2 (grey and alpha), 3 or 4
  // (RGB and alpha). Alpha is dropped by a conversion.
  int channels = 0;
  bool orient = false;  // rotate and mirror the image as its EXIF data says
  // A larger image is an error, found before its memory is taken. The default is the limit of PIL.
  std::int64_t max_pixels = 178'956'970;
  // The image will be resized to a size that is not smaller than this: a JPEG image may be decoded at 1/2, 1/4 or 1/8
  // of its size, which takes less time, as long as neither side gets smaller than this. 0: decode the complete image.
  std::int64_t min_height = 0, min_width = 0;
};

void check_options(const DecodeOptions& options);  // throws if an option has an illegal value

// The pixels u8[height, width, channels] of a JPEG, PNG or WebP file. Palettes are replaced by colours, samples of 16
// bits by their upper 8 bits, CMYK by RGB. A damaged or truncated file is an error of the kind `data` that begins with
// `name`. Several threads may decode at the same time.
HostArray decode_image(std::span<const std::uint8_t> file, const DecodeOptions& options = {},
                       std::string_view name = "image");

// A file with the pixels u8[height, width, channels]. JPEG has 1 or 3 channels, PNG 1 to 4.
std::vector<std::uint8_t> encode_jpeg(const HostArray& pixels, int quality = 90);
std::vector<std::uint8_t> encode_png(const HostArray& pixels);

}  // namespace karez::data
