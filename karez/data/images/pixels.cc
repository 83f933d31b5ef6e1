// Conversions of pixels between colour modes and orientations.
#include "karez/data/images/pixels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "karez/base/error.h"
#include "karez/data/images/arithmetic.h"
#include "karez/device/block_cache.h"

namespace karez::data {
namespace {

// Calls convert(from, to) for each pixel.
template <class Convert> Pixels convert_pixels(const Pixels& from, std::int64_t channels, Convert convert) {
  Pixels out(from.height, from.width, channels);
  const std::uint8_t *in = from.data(), *end = in + from.height * from.width * from.channels;
  for (std::uint8_t* to = out.data(); in != end; in += from.channels, to += channels) convert(in, to);
  return out;
}

}  // namespace

Pixels::Pixels(std::int64_t rows, std::int64_t columns, std::int64_t samples)
    : height(rows),
      width(columns),
      channels(samples),
      bytes(device::allocate_shared_bytes(checked_mul(checked_mul(rows, columns), samples))) {}

void check_size(std::int64_t height, std::int64_t width, std::int64_t max_pixels, std::string_view name) {
  require(ErrorKind::data, height > 0 && width > 0, name, ": the image has no pixels: its size is ", width, " x ",
          height);
  require(ErrorKind::data, height <= max_pixels / width, name, ": the image must have at most ", max_pixels,
          " pixels (max_pixels), got ", width, " x ", height);
}

Pixels convert_channels(Pixels pixels, int channels) {
  if (pixels.channels == channels) return pixels;
  const bool grey = pixels.channels <= 2;
  if (channels == 3) {
    if (grey)
      return convert_pixels(pixels, 3,
                            [](const std::uint8_t* in, std::uint8_t* out) { out[0] = out[1] = out[2] = *in; });
    return convert_pixels(pixels, 3, [](const std::uint8_t* in, std::uint8_t* out) { std::memcpy(out, in, 3); });
  }
  if (grey) return convert_pixels(pixels, 1, [](const std::uint8_t* in, std::uint8_t* out) { *out = *in; });
  return convert_pixels(pixels, 1, [](const std::uint8_t* in, std::uint8_t* out) { *out = grey_of(in); });
}

Pixels convert_cmyk(const Pixels& pixels) {
  return convert_pixels(pixels, 3, [](const std::uint8_t* in, std::uint8_t* out) {
    const unsigned white = in[3];  // 255 - black
    for (int c = 0; c < 3; ++c) {
      const int value = static_cast<int>(white) - static_cast<int>(multiply_samples(255u - in[c], white));
      out[c] = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
    }
  });
}

Pixels turn_upright(Pixels pixels, int orientation) {
  if (orientation <= 1 || orientation > 8) return pixels;
  // The rows of the upright image are columns of the stored one; it is read from the right, from the bottom.
  const bool transposed = orientation >= 5,
             from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8,
             from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Pixels out(transposed ? pixels.width : pixels.height, transposed ? pixels.height : pixels.width, pixels.channels);
  const auto channels = static_cast<std::size_t>(pixels.channels);
  std::uint8_t* to = out.data();
  for (std::int64_t y = 0; y < out.height; ++y)
    for (std::int64_t x = 0; x < out.width; ++x, to += channels) {
      const std::int64_t row = transposed ? x : y, column = transposed ? y : x;
      const std::uint8_t* from = pixels.row(from_bottom ? pixels.height - 1 - row : row);
      std::memcpy(to, from + static_cast<std::size_t>(from_right ? pixels.width - 1 - column : column) * channels,
                  channels);
    }
  return out;
}

int exif_orientation(std::span<const std::uint8_t> exif) {
  constexpr std::array<std::uint8_t, 6> prefix = {'E', 'x', 'i', 'f', 0, 0};
  if (exif.size() >= 6 && std::equal(prefix.begin(), prefix.end(), exif.begin())) exif = exif.subspan(6);
  if (exif.size() < 8) return 1;
  const bool little = exif[0] == 'I';
  // A number of 2 or 4 bytes; 0 after the end.
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::size_t out = 0;
    if (at > exif.size() || exif.size() - at < bytes) return out;
    for (std::size_t i = 0; i < bytes; ++i) out = out << 8 | exif[at + (little ? bytes - 1 - i : i)];
    return out;
  };
  if (exif[0] != exif[1] || (exif[0] != 'I' && exif[0] != 'M') || number(2, 2) != 42) return 1;
  const std::size_t directory = number(4, 4), entries = number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;
    if (number(entry, 2) != 0x112) continue;
    const std::size_t value = number(entry + 2, 2) == 4 ? number(entry + 8, 4) : number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace karez::data
