// Compares normalised and mirrored images with plain loops, on every instruction set.
#include "karez/kernels/cpu/image_samples.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "karez/device/test_highway.h"

namespace karez::kernels {
namespace {

const std::vector<float> means = {0.485f, 0.456f, 0.406f, 0.1f, -3}, deviations = {0.229f, 0.224f, 0.225f, 1, 1e-3f};

template <class T> std::vector<T> random_samples(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> out(static_cast<std::size_t>(count));
  for (T& sample : out)
    sample = sizeof(T) == 1 ? static_cast<T>(random())
                            : static_cast<T>(std::uniform_real_distribution<float>(-2, 2)(random));
  return out;
}

template <class T> float unit(T x) { return sizeof(T) == 1 ? static_cast<float>(x) / 255 : static_cast<float>(x); }

// Compares bits, so that NaN equals itself.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

template <class T, class Kernel>
void expect_normalized(Kernel kernel, const std::vector<T>& in, std::int64_t channels, bool planes, const char* name) {
  const auto pixels = static_cast<std::int64_t>(in.size()) / channels;
  std::vector<float> expected(in.size() + 4, 77), out = expected;
  for (std::int64_t i = 0; i < pixels; ++i)
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto k = static_cast<std::size_t>(c);
      const volatile float difference = unit(in[static_cast<std::size_t>(i * channels + c)]) - means[k];
      expected[static_cast<std::size_t>(planes ? c * pixels + i : i * channels + c)] = difference / deviations[k];
    }
  kernel(in.data(), pixels, channels, means.data(), deviations.data(), planes, out.data());
  EXPECT_TRUE(same_bits(out, expected)) << name << ", " << channels << " channels, " << pixels << " pixels, "
                                        << (planes ? "planes" : "in order");
}

TEST(ImageSamples, NormalizedImagesEqualPlainLoops) {
  const int sets = on_every_instruction_set([](const char* name) {
    for (std::int64_t channels = 1; channels <= 5; ++channels)
      for (bool planes : {false, true})
        for (std::int64_t pixels : {0, 1, 7, 16, 33, 64, 1001}) {
          const auto seed = static_cast<unsigned>(pixels);
          expect_normalized(normalize_bytes, random_samples<std::uint8_t>(pixels * channels, seed), channels, planes,
                            name);
          std::vector<float> floats = random_samples<float>(pixels * channels, seed);
          for (float special :
               {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), -0.0f})
            if (!floats.empty()) floats[random_samples<std::uint8_t>(1, seed)[0] % floats.size()] = special;
          expect_normalized(normalize_floats, floats, channels, planes, name);
        }
    std::vector<std::uint8_t> all(256 * 3);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i / 3);
    for (bool planes : {false, true}) expect_normalized(normalize_bytes, all, 3, planes, name);
  });
  EXPECT_GE(sets, 1);
}

TEST(ImageSamples, MirroredRowsEqualPlainLoops) {
  const int sets = on_every_instruction_set([](const char* name) {
    for (std::size_t pixel : {1, 2, 3, 4, 6, 8, 9, 12, 16, 17, 32})
      for (std::int64_t rows : {0, 1, 3})
        for (std::int64_t width : {1, 2, 5, 6, 7, 16, 17, 31, 100}) {
          const auto bytes = static_cast<std::size_t>(rows * width) * pixel;
          const auto in = random_samples<std::uint8_t>(static_cast<std::int64_t>(bytes), 3);
          std::vector<std::uint8_t> expected(bytes + 40, 77), out = expected;
          for (std::size_t i = 0; i < bytes; ++i) {
            const std::size_t columns = static_cast<std::size_t>(width), at = i / pixel, x = at % columns;
            expected[20 + (at - x + columns - 1 - x) * pixel + i % pixel] = in[i];
          }
          flip_rows(reinterpret_cast<const std::byte*>(in.data()), rows, width, pixel,
                    reinterpret_cast<std::byte*>(out.data()) + 20);
          EXPECT_EQ(out, expected) << name << ": " << rows << " rows of " << width << " pixels of " << pixel;
        }
  });
  EXPECT_GE(sets, 1);
}

}  // namespace
}  // namespace karez::kernels
