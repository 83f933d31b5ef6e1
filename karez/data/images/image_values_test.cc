// Tests of the values of functions of images against numbers of Pillow and against formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "karez/base/test_error.h"
#include "karez/data/image_functions.h"
#include "karez/data/images/arithmetic.h"

namespace karez::data {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const Element& element) {
  const HostArray& array = array_of(element);
  return {array.data<std::uint8_t>().begin(), array.data<std::uint8_t>().end()};
}

const Bytes colours = {10, 200, 30, 255, 0, 128, 7, 7, 7, 90, 60, 250};
const Bytes greys = {10, 200, 31, 0, 255, 90};

Element rgb() { return element(HostArray::of<std::uint8_t>({2, 2, 3}, colours)); }
Element grey() { return element(HostArray::of<std::uint8_t>({2, 3}, greys)); }
// The same colours with an alpha of 1, 2, 3 and 4.
Element rgba(const Bytes& samples) {
  Bytes out;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    out.push_back(samples[i]);
    if (i % 3 == 2) out.push_back(static_cast<std::uint8_t>(i / 3 + 1));
  }
  return element(HostArray::of<std::uint8_t>({2, 2, 4}, out));
}

// Plain loops.
template <class Base>
void blend_plainly(const std::uint8_t* in, std::int64_t pixels, int channels, float factor, std::uint8_t* out,
                   Base base) {
  for (std::int64_t i = 0; i < pixels; ++i, in += channels, out += channels)
    for (int c = 0; c < channels; ++c) {
      const int from = base(in);
      const float sum = static_cast<float>(from) + factor * static_cast<float>(in[c] - from);
      out[c] = channels % 2 == 0 && c == channels - 1 ? in[c] : static_cast<std::uint8_t>(std::clamp(sum, 0.f, 255.f));
    }
}
int grey_of_pixel(const std::uint8_t* pixel, int channels) { return channels < 3 ? *pixel : grey_of(pixel); }

const images::ColourKernels kernels = {
    .blend =
        [](const std::uint8_t* in, std::int64_t pixels, int channels, int base, float factor, std::uint8_t* out) {
          blend_plainly(in, pixels, channels, factor, out, [&](const std::uint8_t*) { return base; });
        },
    .blend_with_grey =
        [](const std::uint8_t* in, std::int64_t pixels, int channels, float factor, std::uint8_t* out) {
          blend_plainly(in, pixels, channels, factor, out,
                        [&](const std::uint8_t* pixel) { return grey_of_pixel(pixel, channels); });
        },
    .sum_of_greys =
        [](const std::uint8_t* in, std::int64_t pixels, int channels) {
          std::int64_t sum = 0;
          for (std::int64_t i = 0; i < pixels; ++i) sum += grey_of_pixel(in + i * channels, channels);
          return sum;
        },
};

// The results of ImageEnhance of Pillow 13 for the factors 0, 0.3 and 1.7.
struct Case {
  images::ImageFunction (*function)(double, const images::ColourKernels&);
  std::map<double, Bytes> rgb, grey;
};
const Case cases[] = {
    {images::adjust_brightness,
     {{0, Bytes(12, 0)},
      {0.3, {3, 60, 9, 76, 0, 38, 2, 2, 2, 27, 18, 75}},
      {1.7, {17, 255, 51, 255, 0, 217, 11, 11, 11, 153, 102, 255}}},
     {{0.3, {3, 60, 9, 0, 76, 27}}, {1.7, {17, 255, 52, 0, 255, 153}}}},
    {images::adjust_contrast,
     {{0, Bytes(12, 78)},
      {0.3, {57, 114, 63, 131, 54, 93, 56, 56, 56, 81, 72, 129}},
      {1.7, {0, 255, 0, 255, 0, 163, 0, 0, 0, 98, 47, 255}}},
     {{0.3, {71, 128, 77, 68, 145, 95}}, {1.7, {0, 255, 0, 0, 255, 84}}}},
    {images::adjust_saturation,
     {{0, {124, 124, 124, 91, 91, 91, 7, 7, 7, 91, 91, 91}},
      {0.3, {89, 146, 95, 140, 63, 102, 7, 7, 7, 90, 81, 138}},
      {1.7, {0, 253, 0, 255, 0, 153, 7, 7, 7, 89, 38, 255}}},
     {{0, greys}, {1.7, greys}}},
};

TEST(ImageValues, ColoursAreThoseOfPillow) {
  for (const Case& test : cases) {
    for (const auto& [factor, expected] : test.rgb) {
      EXPECT_EQ(bytes_of(test.function(factor, kernels)(rgb())), expected) << factor;
      EXPECT_EQ(bytes_of(test.function(factor, kernels)(rgba(colours))), bytes_of(rgba(expected))) << factor;
    }
    for (const auto& [factor, expected] : test.grey)
      EXPECT_EQ(bytes_of(test.function(factor, kernels)(grey())), expected) << factor;
    EXPECT_EQ(bytes_of(test.function(1, kernels)(rgb())), colours);
    const Element empty = element(HostArray::of<std::uint8_t>({0, 4, 3}, {}));
    EXPECT_EQ(array_of(test.function(2, kernels)(empty)).shape(), (Shape{0, 4, 3}));
  }
  EXPECT_EQ(error_of([] { images::adjust_contrast(-1, kernels); }),
            "adjust_contrast: factor must be at least 0 and finite, got -1.0");
  EXPECT_EQ(error_of([] {
              images::adjust_contrast(2, kernels)(element(HostArray::of<std::uint8_t>({1, 1, 5}, Bytes(5))));
            }),
            "adjust_contrast: expected an image of 1 to 4 channels, got 5");
  EXPECT_EQ(error_of([] {
              images::adjust_contrast(2, kernels)(element(HostArray::of<float>({1, 1}, {1})));
            }),
            "adjust_contrast: expected an image of u8, got f32");
}

// Which of the three is applied shows an image that one of the others would change.
TEST(ImageValues, ColorJitterHasARangeForEachOfTheThree) {
  const Element constant = element(HostArray::of<std::uint8_t>({2, 3}, Bytes(6, 100)));
  std::set<Bytes> brightness, contrast, saturation;
  for (std::int64_t record = 0; record < 100; ++record) {
    const RandomKey key = {1, 0, record};
    for (const std::uint8_t value : bytes_of(images::color_jitter(0.2, 0, 0, kernels)(constant, key))) {
      EXPECT_GE(value, 79);
      EXPECT_LE(value, 120);
    }
    brightness.insert(bytes_of(images::color_jitter(0.2, 0, 0, kernels)(constant, key)));
    EXPECT_EQ(bytes_of(images::color_jitter(0, 0.9, 0.9, kernels)(constant, key)), Bytes(6, 100));
    contrast.insert(bytes_of(images::color_jitter(0, 0.9, 0, kernels)(grey(), key)));
    EXPECT_EQ(bytes_of(images::color_jitter(0, 0, 0.9, kernels)(grey(), key)), greys);
    saturation.insert(bytes_of(images::color_jitter(0, 0, 0.9, kernels)(rgb(), key)));
    EXPECT_EQ(bytes_of(images::color_jitter(0, 0, 0, kernels)(rgb(), key)), colours);
  }
  EXPECT_GT(brightness.size(), 20u);
  EXPECT_GT(contrast.size(), 50u);
  EXPECT_GT(saturation.size(), 50u);
  EXPECT_EQ(error_of([] { images::color_jitter(0, -0.5, 0, kernels); }),
            "color_jitter: the range of a factor must be at least 0 and finite, got -0.5");
}

std::string calls;

TEST(ImageValues, ColorJitterAppliesTheThreeInEachOrder) {
  const images::ColourKernels recording = {
      .blend = [](const std::uint8_t*, std::int64_t, int, int base, float,
                  std::uint8_t*) { calls += base == 0 ? 'b' : 'c'; },
      .blend_with_grey = [](const std::uint8_t*, std::int64_t, int, float, std::uint8_t*) { calls += 's'; },
      .sum_of_greys = [](const std::uint8_t*, std::int64_t pixels, int) { return 9 * pixels; },
  };
  std::map<std::string, int> orders;
  const auto jitter = images::color_jitter(0.5, 0.5, 0.5, recording);
  for (std::int64_t record = 0; record < 600; ++record) {
    calls.clear();
    jitter(rgb(), {1, 0, record});
    ++orders[calls];
  }
  EXPECT_EQ(orders.size(), 6u);
  for (const auto& [order, count] : orders) EXPECT_GT(count, 60) << order;
}

TEST(ImageValues, ProductsWithAlphaAreThoseOfPillow) {
  for (unsigned alpha = 0; alpha <= 255; ++alpha)
    for (unsigned value = 0; value <= 255; ++value) {
      EXPECT_EQ(multiply_samples(value, alpha), std::floor(value * alpha / 255.0 + 0.5)) << value << " " << alpha;
      const double quotient = alpha == 0 ? value : std::min(255.0, std::floor(255.0 * value / alpha));
      EXPECT_EQ(divide_by_alpha(value, alpha), quotient) << value << " " << alpha;
    }
}

struct KernelCall {
  std::vector<std::int64_t> sizes;
  Bytes in;
};
KernelCall last_call;
void record_call(const std::uint8_t* in, std::int64_t height, std::int64_t width, std::int64_t channels,
                 std::uint8_t* out, std::int64_t out_height, std::int64_t out_width, bool bicubic) {
  last_call = {{height, width, channels, out_height, out_width, bicubic}, {in, in + height * width * channels}};
  for (std::int64_t i = 0; i < out_height * out_width * channels; ++i) out[i] = static_cast<std::uint8_t>(50 + i % 7);
}

const images::ResizeKernels record_kernels = {
    .bytes = record_call,
    .floats = [](const float*, std::int64_t, std::int64_t, std::int64_t, float*, std::int64_t, std::int64_t, bool) {}};

TEST(ImageValues, ResizeMultipliesColoursByAlphaAndDividesThem) {
  const Element image = element(HostArray::of<std::uint8_t>({1, 2, 2}, {200, 128, 100, 0}));
  const Element out = images::resize({.height = 1, .width = 3, .bicubic = true}, record_kernels)(image);
  EXPECT_EQ(last_call.sizes, (std::vector<std::int64_t>{1, 2, 2, 1, 3, 1}));
  EXPECT_EQ(last_call.in, (Bytes{100, 128, 0, 0}));
  // The kernel has written 50 51 52 53 54 55.
  EXPECT_EQ(bytes_of(out), (Bytes{250, 51, 250, 53, 250, 55}));
  EXPECT_EQ(array_of(out).shape(), (Shape{1, 3, 2}));
  EXPECT_EQ(bytes_of(images::resize({.height = 4, .width = 1}, record_kernels)(rgb())),
            (Bytes{50, 51, 52, 53, 54, 55, 56, 50, 51, 52, 53, 54}));
  EXPECT_EQ(last_call.sizes, (std::vector<std::int64_t>{2, 2, 3, 4, 1, 0}));
  EXPECT_EQ(last_call.in, colours);
}

TEST(ImageValues, RandomPartsHaveLegalSizesAndAllPlaces) {
  const std::int64_t height = 20, width = 40;
  HostArray array(TensorType{DType::u8, {height, width, 2}});
  for (std::int64_t i = 0; i < height * width; ++i)  // each pixel says where it is; alpha would change it
    array.data<std::uint8_t>()[static_cast<std::size_t>(2 * i)] = static_cast<std::uint8_t>(i / width),
                                                            array.data<std::uint8_t>()[static_cast<std::size_t>(
                                                                2 * i + 1)] = 255;
  const auto crop = images::random_resized_crop({.height = 64, .width = 64},
                                                {.min_scale = 0.1, .max_scale = 0.3, .min_ratio = 0.5, .max_ratio = 2},
                                                record_kernels);
  std::set<std::int64_t> tops;
  double smallest = 1, largest = 0;
  for (std::int64_t record = 0; record < 500; ++record) {
    crop(element(array), {1, 0, record});
    const std::int64_t h = last_call.sizes[0], w = last_call.sizes[1], top = last_call.in[0];
    EXPECT_EQ(last_call.in[last_call.in.size() - 2], top + h - 1);
    EXPECT_LE(top + h, height);
    EXPECT_LE(w, width);
    // Sides are rounded.
    const auto area = static_cast<double>(h * w) / static_cast<double>(height * width);
    smallest = std::min(smallest, area), largest = std::max(largest, area);
    EXPECT_GT(static_cast<double>(w) / static_cast<double>(h), 0.4);
    EXPECT_LT(static_cast<double>(w) / static_cast<double>(h), 2.4);
    if (h == 10) tops.insert(top);
  }
  EXPECT_NEAR(smallest, 0.1, 0.015);
  EXPECT_NEAR(largest, 0.3, 0.03);
  EXPECT_GE(tops.size(), 5u);
  // No part of this ratio fits: the largest one in the middle is taken.
  images::random_resized_crop({.height = 3, .width = 3}, {.min_scale = 1, .min_ratio = 1, .max_ratio = 1},
                              record_kernels)(element(array), {1, 0, 0});
  EXPECT_EQ(last_call.sizes, (std::vector<std::int64_t>{20, 20, 2, 3, 3, 0}));
  EXPECT_EQ(last_call.in.size(), 800u);
}

TEST(ImageValues, CenterCropsPadTheLargerHalfAfterTheImage) {
  const Element image = element(HostArray::of<float>({1, 3}, {1, 2, 3}));
  const HostArray wide = array_of(images::center_crop(1, 6)(image));
  EXPECT_EQ(std::vector<float>(wide.data<float>().begin(), wide.data<float>().end()),
            (std::vector<float>{0, 1, 2, 3, 0, 0}));
  const HostArray narrow = array_of(images::center_crop(1, 2)(image));
  EXPECT_EQ(std::vector<float>(narrow.data<float>().begin(), narrow.data<float>().end()), (std::vector<float>{1, 2}));
}

TEST(ImageValues, NormalizeNeedsNumbers) {
  for (const auto& [mean, std] : {std::pair<std::vector<float>, std::vector<float>>{{}, {1}}, {{1}, {}}})
    EXPECT_EQ(error_of([&] { images::normalize(mean, std, true, {}); }),
              "normalize: mean and std must have at least one number");
}

TEST(ImageValues, NormalizedPlanesHaveTheChannelsFirst) {
  const HostArray out =
      array_of(images::normalize({0}, {1}, true, {})(element(HostArray::of<float>({1, 2, 3}, {1, 2, 3, 4, 5, 6}))));
  EXPECT_EQ(out.shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(std::vector<float>(out.data<float>().begin(), out.data<float>().end()),
            (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(ImageValues, RatiosOfMixUpHaveTheBetaDistribution) {
  const Element batch = element({HostArray::of<float>({2}, {1, 0}), HostArray::of<float>({2}, {1, 0})});
  for (const double alpha : {0.3, 1.0, 4.0}) {
    const int count = 20'000;
    double sum = 0, squares = 0, fourth = 0;
    for (std::int64_t record = 0; record < count; ++record) {
      const double ratio = array_of(images::mix_up(alpha)(batch, {2, 0, record})).data<float>()[0] - 0.5;
      sum += ratio, squares += ratio * ratio, fourth += ratio * ratio * ratio * ratio;
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    const double kurtosis = 3 - 6 / (2 * alpha + 3);  // of Beta(a, a)
    EXPECT_NEAR(sum / count, 0, 5 * std::sqrt(variance / count));
    EXPECT_NEAR(squares / count / variance, 1, 5 * std::sqrt((kurtosis - 1) / count)) << alpha;
    EXPECT_NEAR(fourth / count / (kurtosis * variance * variance), 1, 0.08) << alpha;
  }
  const Element empty = element({HostArray::of<float>({0, 3}, {}), HostArray::of<float>({0}, {})});
  EXPECT_EQ(array_of(images::mix_up(1)(empty, {})).shape(), (Shape{0, 3}));
}

}  // namespace
}  // namespace karez::data
