// Decodes an image of any supported format, which its first bytes tell.
#include "karez/data/images.h"

#include <algorithm>

#include "karez/base/error.h"
#include "karez/base/hex.h"
#include "karez/data/images/pixels.h"

namespace karez::data {
namespace {

using Bytes = std::span<const std::uint8_t>;

bool has_text(Bytes file, std::size_t at, std::string_view text) {
  return file.size() >= at + text.size() && std::equal(text.begin(), text.end(), file.begin() + at, [](char a, auto b) {
           return static_cast<std::uint8_t>(a) == b;
         });
}

DecodedImage decode(Bytes file, const DecodeOptions& options, std::string_view name) {
  if (has_text(file, 0, "\xff\xd8\xff")) return decode_jpeg(file, options, name);
  if (has_text(file, 0, "\x89PNG\r\n\x1a\n")) return decode_png(file, options, name);
  if (has_text(file, 0, "RIFF") && has_text(file, 8, "WEBP")) return decode_webp(file, options, name);
  require(ErrorKind::data, !file.empty(), name, ": expected a JPEG, PNG or WebP image, got no bytes");
  fail(ErrorKind::data, name, ": expected a JPEG, PNG or WebP image, got a file of ", file.size(),
       " bytes that begins with ", hex_of(std::as_bytes(file.first(std::min<std::size_t>(file.size(), 8)))));
}

}  // namespace

void check_options(const DecodeOptions& options) {
  require(options.channels == 0 || options.channels == 1 || options.channels == 3,
          "decode_image: channels must be 0 (as in the file), 1 or 3, got ", options.channels);
  require(options.max_pixels >= 1, "decode_image: max_pixels must be at least 1, got ", options.max_pixels);
  require(options.min_height >= 0 && options.min_width >= 0, "decode_image: a smallest size must be at least 0, got ",
          options.min_height, " x ", options.min_width);
}

HostArray decode_image(Bytes file, const DecodeOptions& options, std::string_view name) {
  check_options(options);
  DecodedImage image = decode(file, options, name);
  if (options.channels != 0) image.pixels = convert_channels(std::move(image.pixels), options.channels);
  if (options.orient) image.pixels = turn_upright(std::move(image.pixels), image.orientation);
  return {TensorType{DType::u8, {image.pixels.height, image.pixels.width, image.pixels.channels}},
          std::move(image.pixels.bytes)};
}

}  // namespace karez::data
