// Tests of WebP files of libwebp's encoder.
#include <gtest/gtest.h>
#include <webp/encode.h>

#include "karez/base/test_error.h"
#include "karez/data/images.h"

namespace karez::data {
namespace {

using Bytes = std::vector<std::uint8_t>;

// A lossless file of pixels with 3 or 4 channels.
Bytes webp(const Bytes& pixels, int height, int width, int channels) {
  std::uint8_t* memory = nullptr;
  const std::size_t size = channels == 3 ? WebPEncodeLosslessRGB(pixels.data(), width, height, 3 * width, &memory)
                                         : WebPEncodeLosslessRGBA(pixels.data(), width, height, 4 * width, &memory);
  const Bytes out(memory, memory + size);
  WebPFree(memory);
  return out;
}

Bytes pixels(int count) {
  Bytes out;
  for (int i = 0; i < count; ++i) out.push_back(static_cast<std::uint8_t>(i * 37 % 251 | 1));
  return out;
}

TEST(Webp, LosslessFilesAreDecoded) {
  for (int channels : {3, 4})
    for (const auto& [height, width] : {std::pair(1, 1), {2, 3}, {17, 5}}) {
      const Bytes expected = pixels(height * width * channels);
      const HostArray image = decode_image(webp(expected, height, width, channels));
      EXPECT_EQ(image.shape(), (Shape{height, width, channels}));
      EXPECT_EQ(Bytes(image.data<std::uint8_t>().begin(), image.data<std::uint8_t>().end()), expected);
    }
}

TEST(Webp, TruncatedAndLargeFilesAreErrors) {
  const Bytes file = webp(pixels(17 * 5 * 3), 17, 5, 3);
  for (std::size_t size = 12; size < file.size() - 1; ++size)  // a byte at the end is padding
    EXPECT_NE(error_of([&] { decode_image(std::span(file).first(size), {}, "a.webp"); }), "no error") << size;
  EXPECT_EQ(error_of([&] { decode_image(file, {.max_pixels = 84}, "a.webp"); }),
            "a.webp: the image must have at most 84 pixels (max_pixels), got 5 x 17");
}

}  // namespace
}  // namespace karez::data
