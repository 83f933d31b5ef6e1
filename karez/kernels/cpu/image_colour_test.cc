// Compares colours with plain loops, on every instruction set.
#include "karez/kernels/cpu/image_colour.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "karez/device/test_highway.h"

namespace karez::kernels {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes random_bytes(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes out(static_cast<std::size_t>(count));
  for (std::uint8_t& byte : out) byte = static_cast<std::uint8_t>(random());
  return out;
}

int grey(const std::uint8_t* pixel, int channels) {
  if (channels < 3) return pixel[0];
  return (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 32768) / 65536;
}

// base < 0: the grey of each pixel.
Bytes blended(const Bytes& in, int channels, int base, float factor) {
  Bytes out = in;
  for (std::size_t at = 0; at < in.size(); at += static_cast<std::size_t>(channels))
    for (std::size_t c = 0; c < (channels < 3 ? 1u : 3u); ++c) {
      const int from = base < 0 ? grey(&in[at], channels) : base;
      const volatile float product = factor * static_cast<float>(in[at + c] - from);  // no fused multiply-add
      out[at + c] = static_cast<std::uint8_t>(std::clamp(static_cast<float>(from) + product, 0.0f, 255.0f));
    }
  return out;
}

TEST(ImageColour, EqualsPlainLoops) {
  constexpr std::uint8_t guard = 77;
  const int sets = on_every_instruction_set([&](const char* name) {
    for (int channels = 1; channels <= 4; ++channels)
      for (std::int64_t pixels : {0, 1, 7, 16, 33, 64, 1000}) {
        const Bytes in = random_bytes(pixels * channels, static_cast<unsigned>(pixels));
        std::int64_t sum = 0;
        for (std::int64_t i = 0; i < pixels; ++i) sum += grey(in.data() + i * channels, channels);
        EXPECT_EQ(sum_of_greys(in.data(), pixels, channels), sum) << name << " " << channels << " " << pixels;
        for (float factor : {0.0f, 0.3f, 1.0f, 1.7f, 1000.0f})
          for (int base : {-1, 0, 78, 255}) {
            Bytes out(in.size() + 8, guard);
            if (base < 0) blend_with_grey(in.data(), pixels, channels, factor, out.data());
            else blend_colours(in.data(), pixels, channels, base, factor, out.data());
            for (std::size_t i = in.size(); i < out.size(); ++i) EXPECT_EQ(out[i], guard) << "a byte after the image";
            out.resize(in.size());
            EXPECT_EQ(out, blended(in, channels, base, factor))
                << name << ", " << channels << " channels, " << pixels << " pixels, " << base << ", " << factor;
          }
      }
  });
  EXPECT_GE(sets, 1);
}

TEST(ImageColour, TheSumOfGreysMayExceed32Bits) {
  const std::int64_t pixels = 20'000'000;
  const Bytes white(static_cast<std::size_t>(pixels), 255);
  EXPECT_EQ(sum_of_greys(white.data(), pixels, 1), 255 * pixels);
}

}  // namespace
}  // namespace karez::kernels
