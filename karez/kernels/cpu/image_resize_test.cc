// Compares resized images with sums in double precision, on every instruction set.
#include "karez/kernels/cpu/image_resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "karez/device/test_highway.h"

namespace karez::kernels {
namespace {

using Bytes = std::vector<std::uint8_t>;

struct Sizes {
  std::int64_t in_height, in_width, channels, out_height, out_width;
};

Bytes random_bytes(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes out(static_cast<std::size_t>(count));
  for (std::uint8_t& byte : out) byte = static_cast<std::uint8_t>(random());
  return out;
}

Bytes resized(const Bytes& in, const Sizes& s, bool bicubic) {
  constexpr std::uint8_t guard = 123;
  Bytes out(static_cast<std::size_t>(s.out_height * s.out_width * s.channels) + 64, guard);
  resize_image(in.data(), s.in_height, s.in_width, s.channels, out.data(), s.out_height, s.out_width, bicubic);
  for (std::size_t i = out.size() - 64; i < out.size(); ++i) EXPECT_EQ(out[i], guard) << "a byte after the image";
  out.resize(out.size() - 64);
  return out;
}

double filter(double x, bool bicubic) {
  x = std::fabs(x);
  if (!bicubic) return x < 1 ? 1 - x : 0;
  if (x < 1) return 1.5 * x * x * x - 2.5 * x * x + 1;
  return x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
}

// One line of samples, resized by its definition. With `round`, the sums are rounded to bytes.
std::vector<double> resized_line(const std::vector<double>& in, std::int64_t count, bool bicubic, bool round) {
  const double step = static_cast<double>(in.size()) / static_cast<double>(count), wide = std::max(1.0, step);
  std::vector<double> out;
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = 0, weights = 0;
    for (std::size_t t = 0; t < in.size(); ++t) {
      const double weight =
          filter((static_cast<double>(t) + 0.5 - (static_cast<double>(i) + 0.5) * step) / wide, bicubic);
      sum += weight * in[t], weights += weight;
    }
    out.push_back(round ? std::clamp(std::floor(sum / weights + 0.5), 0.0, 255.0) : sum / weights);
  }
  return out;
}

std::vector<double> reference(const Bytes& in, const Sizes& s, bool bicubic, bool round = true) {
  const auto at = [&](std::int64_t y, std::int64_t x, std::int64_t c, std::int64_t width) {
    return static_cast<std::size_t>((y * width + x) * s.channels + c);
  };
  std::vector<double> rows(static_cast<std::size_t>(s.in_height * s.out_width * s.channels)),
      out(static_cast<std::size_t>(s.out_height * s.out_width * s.channels));
  for (std::int64_t c = 0; c < s.channels; ++c) {
    for (std::int64_t y = 0; y < s.in_height; ++y) {
      std::vector<double> line;
      for (std::int64_t x = 0; x < s.in_width; ++x) line.push_back(in[at(y, x, c, s.in_width)]);
      line = resized_line(line, s.out_width, bicubic, round);
      for (std::int64_t x = 0; x < s.out_width; ++x) rows[at(y, x, c, s.out_width)] = line[static_cast<std::size_t>(x)];
    }
    for (std::int64_t x = 0; x < s.out_width; ++x) {
      std::vector<double> line;
      for (std::int64_t y = 0; y < s.in_height; ++y) line.push_back(rows[at(y, x, c, s.out_width)]);
      line = resized_line(line, s.out_height, bicubic, round);
      for (std::int64_t y = 0; y < s.out_height; ++y) out[at(y, x, c, s.out_width)] = line[static_cast<std::size_t>(y)];
    }
  }
  return out;
}

const std::vector<Sizes> cases = {{1, 1, 3, 1, 1},    {1, 1, 3, 7, 5},    {1, 7, 1, 1, 3},     {13, 1, 4, 5, 1},
                                  {5, 7, 2, 11, 13},  {17, 19, 3, 8, 3},  {64, 48, 4, 16, 12}, {23, 29, 3, 23, 11},
                                  {23, 29, 3, 9, 29}, {3, 100, 3, 2, 41}, {41, 37, 5, 40, 36}};

TEST(ImageResize, EqualsSumsInDoublePrecisionOnEveryInstructionSet) {
  const int sets = on_every_instruction_set([&](const char* set) {
    for (const Sizes& s : cases)
      for (bool bicubic : {false, true}) {
        const Bytes in = random_bytes(s.in_height * s.in_width * s.channels, 7);
        const Bytes out = resized(in, s, bicubic);
        const std::vector<double> expected = reference(in, s, bicubic);
        double worst = 0;
        for (std::size_t i = 0; i < out.size(); ++i) worst = std::max(worst, std::fabs(out[i] - expected[i]));
        EXPECT_LE(worst, 1) << set << ": " << s.in_height << " x " << s.in_width << " x " << s.channels << " to "
                            << s.out_height << " x " << s.out_width << (bicubic ? ", bicubic" : "");
      }
  });
  EXPECT_GE(sets, 1);
}

TEST(ImageResize, AllInstructionSetsHaveTheSameBits) {
  for (const Sizes& s : cases)
    for (bool bicubic : {false, true}) {
      const Bytes in = random_bytes(s.in_height * s.in_width * s.channels, 11);
      Bytes first;
      on_every_instruction_set([&](const char* set) {
        const Bytes out = resized(in, s, bicubic);
        if (first.empty()) first = out;
        EXPECT_EQ(out, first) << set;
      });
    }
}

TEST(ImageResize, FloatsEqualSumsInDoublePrecisionAndHaveTheSameBitsOnEveryInstructionSet) {
  for (const Sizes& s : cases)
    for (bool bicubic : {false, true}) {
      const Bytes bytes = random_bytes(s.in_height * s.in_width * s.channels, 13);
      const std::vector<float> in(bytes.begin(), bytes.end());
      const std::size_t count = static_cast<std::size_t>(s.out_height * s.out_width * s.channels);
      const std::vector<double> expected = reference(bytes, s, bicubic, false);
      std::vector<float> first;
      on_every_instruction_set([&](const char* set) {
        std::vector<float> out(count + 16, 77);
        resize_floats(in.data(), s.in_height, s.in_width, s.channels, out.data(), s.out_height, s.out_width, bicubic);
        for (std::size_t i = count; i < out.size(); ++i) EXPECT_EQ(out[i], 77) << "a sample after the image";
        double worst = 0;
        for (std::size_t i = 0; i < count; ++i) worst = std::max(worst, std::fabs(double{out[i]} - expected[i]));
        EXPECT_LE(worst, 2e-4) << set << ": " << s.in_height << " x " << s.in_width << " x " << s.channels << " to "
                               << s.out_height << " x " << s.out_width << (bicubic ? ", bicubic" : "");
        if (first.empty()) first = out;
        EXPECT_EQ(out, first) << set;
      });
    }
}

TEST(ImageResize, TransposedWeightsAreThoseOfTheTransposedMatrix) {
  for (const auto& [in, out] : {std::pair<std::int64_t, std::int64_t>(1, 1), {1, 5}, {7, 1}, {9, 4}, {4, 9}, {100, 7}})
    for (bool bicubic : {false, true}) {
      const auto matrix_of = [](const ResizeWeights& weights, std::int64_t columns, bool transpose) {
        const auto rows = static_cast<std::int64_t>(weights.first.size());
        std::vector<double> matrix(static_cast<std::size_t>(rows * columns));
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t t = 0; t < weights.count[static_cast<std::size_t>(i)]; ++t) {
            const std::int64_t column = weights.first[static_cast<std::size_t>(i)] + t;
            matrix[static_cast<std::size_t>(transpose ? column * rows + i : i * columns + column)] =
                weights.weights[static_cast<std::size_t>(i) * weights.stride + static_cast<std::size_t>(t)];
          }
        return matrix;
      };
      const ResizeWeights weights = resize_weights(in, out, bicubic);
      EXPECT_EQ(matrix_of(transposed(weights, in), out, false), matrix_of(weights, in, true)) << in << " to " << out;
    }
}

TEST(ImageResize, AnImageOfOneColourKeepsIt) {
  for (std::uint8_t value : {0, 1, 128, 254, 255})
    for (const Sizes& s : cases)
      for (bool bicubic : {false, true}) {
        const Bytes in(static_cast<std::size_t>(s.in_height * s.in_width * s.channels), value);
        for (std::uint8_t byte : resized(in, s, bicubic)) ASSERT_EQ(byte, value);
      }
}

}  // namespace
}  // namespace karez::kernels
