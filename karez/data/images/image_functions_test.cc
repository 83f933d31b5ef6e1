// Tests of the functions of images: values, errors, and random numbers that depend only on the key.
#include "karez/data/image_functions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "karez/base/test_error.h"

namespace karez::data {
namespace {

template <class T> std::vector<T> values(const HostArray& array) {
  return {array.data<T>().begin(), array.data<T>().end()};
}

template <class T> HostArray counted(Shape shape) {
  HostArray out(TensorType{tensor::dtype_of<T>(), std::move(shape)});
  for (std::size_t i = 0; i < out.data<T>().size(); ++i) out.data<T>()[i] = static_cast<T>(i + 1);
  return out;
}

using Bytes = std::vector<std::uint8_t>;

TEST(ImageFunctions, OtherFieldsArePassedOn) {
  Element in = element({counted<std::uint8_t>({2, 3}), HostArray::of<std::int64_t>({}, {7})});
  in.index = 5;
  const Element out = images::horizontal_flip(nullptr)(in);
  EXPECT_EQ(values<std::uint8_t>(array_of(out)), (Bytes{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(values<std::int64_t>(array_of(out, 1)), (std::vector<std::int64_t>{7}));
  EXPECT_EQ(out.structure, in.structure);
  EXPECT_EQ(out.index, 5);
}

TEST(ImageFunctions, CropsOfAnyDtype) {
  const Element small = element(counted<std::uint8_t>({2, 3, 2})), floats = element(counted<float>({3, 3}));
  EXPECT_EQ(values<std::uint8_t>(array_of(images::crop(1, 1, 1, 2)(small))), (Bytes{9, 10, 11, 12}));
  EXPECT_EQ(values<float>(array_of(images::center_crop(1, 1)(floats))), (std::vector<float>{5}));
  EXPECT_EQ(values<float>(array_of(images::center_crop(1, 5)(floats))), (std::vector<float>{0, 4, 5, 6, 0}));
  EXPECT_EQ(array_of(images::pad(2)(floats)).shape(), (Shape{7, 7}));
  EXPECT_EQ(error_of([&] { images::crop(1, 1, 2, 1)(small); }),
            "crop: a window of 2 x 1 at row 1 and column 1 is not inside an image of 2 x 3");
  EXPECT_EQ(error_of([] { images::crop(-1, 0, 2, 1); }), "crop: top and left must be at least 0, got -1 and 0");
  EXPECT_EQ(error_of([] { images::center_crop(0, 2); }), "center_crop: height and width must be at least 1, got 0 x 2");
  EXPECT_EQ(error_of([] { images::horizontal_flip(nullptr)(element(counted<float>({4}))); }),
            "horizontal_flip: expected an image [height, width, channels] or [height, width], got shape [4]");
}

TEST(ImageFunctions, RandomCropsAreWindowsOfThePaddedImage) {
  const Element image = element(counted<std::int32_t>({4, 5}));
  const HostArray padded = array_of(images::pad(2)(image));
  const images::RandomImageFunction crop = images::random_crop(3, 4, 2);
  std::set<std::pair<std::int64_t, std::int64_t>> places;
  for (std::int64_t record = 0; record < 500; ++record) {
    const HostArray window = array_of(crop(image, {3, 0, record}));
    ASSERT_EQ(window.shape(), (Shape{3, 4}));
    EXPECT_EQ(values<std::int32_t>(window), values<std::int32_t>(array_of(crop(image, {3, 0, record}))));
    std::pair<std::int64_t, std::int64_t> place = {-1, -1};
    for (std::int64_t top = 0; top <= 5; ++top)
      for (std::int64_t left = 0; left <= 5; ++left)
        if (values<std::int32_t>(window) ==
            values<std::int32_t>(array_of(images::crop(top, left, 3, 4)(element(padded)))))
          place = {top, left};
    ASSERT_NE(place.first, -1) << record;
    places.insert(place);
  }
  EXPECT_EQ(places.size(), 36u);  // all windows of 8 x 9 pixels
  EXPECT_EQ(error_of([&] { images::random_crop(9, 4, 2)(image, {}); }),
            "random_crop: a window of 9 x 4 is larger than an image of 4 x 5 with a padding of 2");
}

TEST(ImageFunctions, RandomNumbersDependOnAllPartsOfTheKeyAndOnTheFunction) {
  const Element image = element(counted<std::uint8_t>({1, 2}));
  const auto pattern = [&](const images::RandomImageFunction& f, std::uint64_t seed, std::int64_t epoch) {
    std::string out;
    for (std::int64_t record = 0; record < 64; ++record)
      out += values<std::uint8_t>(array_of(f(image, {seed, epoch, record})))[0] == 2 ? '1' : '0';
    return out;
  };
  const images::RandomImageFunction flip = images::random_horizontal_flip(0.5, nullptr);
  const std::string first = pattern(flip, 1, 0);
  EXPECT_EQ(pattern(flip, 1, 0), first);
  EXPECT_NE(pattern(flip, 2, 0), first);
  EXPECT_NE(pattern(flip, 1, 1), first);
  EXPECT_NE(pattern(images::random_crop(1, 1), 1, 0), first);
  EXPECT_EQ(pattern(images::random_horizontal_flip(0, nullptr), 1, 0), std::string(64, '0'));
  EXPECT_EQ(pattern(images::random_horizontal_flip(1, nullptr), 1, 0), std::string(64, '1'));
  EXPECT_EQ(error_of([] { images::random_horizontal_flip(1.5, nullptr); }),
            "random_horizontal_flip: p must be between 0 and 1, got 1.5");
}

TEST(ImageFunctions, CutOutRemovesASquare) {
  const Element image = element(counted<float>({5, 6, 2}));
  std::set<std::int64_t> zeros;
  for (std::int64_t record = 0; record < 200; ++record) {
    const std::vector<float> out = values<float>(array_of(images::cut_out(3)(image, {1, 0, record})));
    std::int64_t top = 9, bottom = -1, left = 9, right = -1, count = 0;
    for (std::int64_t i = 0; i < 60; ++i) {
      if (out[static_cast<std::size_t>(i)] != 0) {
        EXPECT_EQ(out[static_cast<std::size_t>(i)], static_cast<float>(i + 1));
        continue;
      }
      const std::int64_t y = i / 12, x = i / 2 % 6;
      top = std::min(top, y), bottom = std::max(bottom, y), left = std::min(left, x), right = std::max(right, x),
      ++count;
    }
    EXPECT_EQ(count, (bottom - top + 1) * (right - left + 1) * 2);
    EXPECT_TRUE(bottom - top == 2 || top == 0 || bottom == 4);
    EXPECT_TRUE(right - left == 2 || left == 0 || right == 5);
    zeros.insert(count);
  }
  EXPECT_EQ(zeros, (std::set<std::int64_t>{8, 12, 18}));
}

TEST(ImageFunctions, NormalizeDividesBytesBy255) {
  const Element image = element(HostArray::of<std::uint8_t>({1, 2, 2}, {0, 51, 102, 255}));
  EXPECT_EQ(values<float>(array_of(images::normalize({0.5f, 0}, {0.5f, 2}, true, {})(image))),
            (std::vector<float>{-1, (102 / 255.f - 0.5f) / 0.5f, 51 / 255.f / 2, 0.5f}));
  EXPECT_EQ(values<float>(array_of(images::normalize({0}, {1}, false, {})(image))),
            (std::vector<float>{0, 51 / 255.f, 102 / 255.f, 1}));
  const Element floats = element(HostArray::of<float>({1, 2}, {3, 5}));
  EXPECT_EQ(array_of(images::normalize({1}, {2}, true, {})(floats)).shape(), (Shape{1, 1, 2}));
  EXPECT_EQ(values<float>(array_of(images::normalize({1}, {2}, true, {})(floats))), (std::vector<float>{1, 2}));
  EXPECT_EQ(error_of([&] {
              images::normalize({1, 2, 3}, {2}, true, {})(image);
            }),
            "normalize: expected 1 or 2 numbers, one for each channel, got 3");
  EXPECT_EQ(error_of([] { images::normalize({1}, {0}, true, {}); }),
            "normalize: a number of std must be above 0, got 0.0");
  EXPECT_EQ(error_of([] {
              images::normalize({1}, {1}, true, {})(element(counted<std::int32_t>({1, 2})));
            }),
            "normalize: expected an image of u8 or f32, got i32");
}

TEST(ImageFunctions, OneHotLabelsOfEachDtype) {
  const std::vector<float> expected = {0, 0, 1, 1, 0, 0};
  EXPECT_EQ(values<float>(array_of(images::one_hot(3)(element(HostArray::of<std::int64_t>({2}, {2, 0}))))), expected);
  EXPECT_EQ(values<float>(array_of(images::one_hot(3)(element(HostArray::of<std::int32_t>({2}, {2, 0}))))), expected);
  EXPECT_EQ(values<float>(array_of(images::one_hot(3)(element(HostArray::of<std::uint8_t>({2}, {2, 0}))))), expected);
  for (std::int64_t label : {-1, 3})
    EXPECT_EQ(error_of([&] { images::one_hot(3)(element(HostArray::of<std::int64_t>({}, {label}))); }),
              cat("one_hot: a label must be at least 0 and below 3 (classes), got ", label));
  EXPECT_EQ(error_of([] { images::one_hot(3)(element(HostArray::of<float>({}, {1}))); }),
            "one_hot: expected labels of i64, i32 or u8, got f32");
  EXPECT_EQ(error_of([] { images::one_hot(3, 1)(element(HostArray::of<float>({}, {1}))); }),
            "one_hot: the element has 1 fields, but the labels must be in field 1");
}

TEST(ImageFunctions, MixUpMixesEachRowWithTheOneBefore) {
  const Element batch = element({HostArray::of<float>({3, 1}, {1, 10, 100}), HostArray::of<float>({3}, {0, 0, 1})});
  std::vector<double> ratios;
  for (std::int64_t record = 0; record < 2000; ++record) {
    const Element out = images::mix_up(0.4)(batch, {1, 0, record});
    const std::vector<float> x = values<float>(array_of(out)), y = values<float>(array_of(out, 1));
    const float ratio = y[2];
    ratios.push_back(ratio);
    EXPECT_FLOAT_EQ(y[0], 1 - ratio);
    EXPECT_EQ(y[1], 0);
    EXPECT_NEAR(x[0], 1 * ratio + 100 * (1 - ratio), 1e-4);
    EXPECT_NEAR(x[1], 10 * ratio + 1 * (1 - ratio), 1e-4);
    EXPECT_NEAR(x[2], 100 * ratio + 10 * (1 - ratio), 1e-4);
  }
  double mean = 0, variance = 0;
  for (double ratio : ratios) mean += ratio / static_cast<double>(ratios.size());
  for (double ratio : ratios) variance += (ratio - mean) * (ratio - mean) / static_cast<double>(ratios.size());
  EXPECT_NEAR(mean, 0.5, 0.03);
  EXPECT_NEAR(variance, 1 / (4 * (2 * 0.4 + 1)), 0.01);  // of Beta(a, a): 1 / (4 (2 a + 1))
  const Element uneven = element({HostArray::of<float>({3}, {1, 10, 100}), HostArray::of<float>({2}, {0, 1})});
  EXPECT_EQ(error_of([&] { images::mix_up(1)(uneven, {}); }),
            "mix_up: expected as many labels as images, got shapes [3] and [2]");
  EXPECT_EQ(error_of([] { images::mix_up(0); }), "mix_up: alpha must be above 0, got 0.0");
}

TEST(ImageFunctions, ResizeCallsTheKernelWithTheSizeOfTheShorterSide) {
  const auto twos = [](const float*, std::int64_t, std::int64_t, std::int64_t channels, float* out, std::int64_t height,
                       std::int64_t width,
                       bool bicubic) { std::fill_n(out, height * width * channels, bicubic ? 2.5f : 2.0f); };
  const images::ResizeKernels ones = {
      .bytes = [](const std::uint8_t*, std::int64_t, std::int64_t, std::int64_t channels, std::uint8_t* out,
                  std::int64_t height, std::int64_t width,
                  bool) { std::memset(out, 1, static_cast<std::size_t>(height * width * channels)); },
      .floats = twos};
  const Element image = element(counted<std::uint8_t>({4, 6, 2}));
  EXPECT_EQ(array_of(images::resize({.height = 6}, ones)(image)).shape(), (Shape{6, 9, 2}));
  EXPECT_EQ(array_of(images::resize({.height = 3, .width = 5}, ones)(image)).shape(), (Shape{3, 5, 2}));
  // A kernel that writes which filter was requested.
  const images::ResizeKernels filter = {
      .bytes = [](const std::uint8_t*, std::int64_t, std::int64_t, std::int64_t, std::uint8_t* out, std::int64_t,
                  std::int64_t, bool bicubic) { out[0] = bicubic ? 3 : 2; },
      .floats = twos};
  for (bool bicubic : {false, true}) {
    const images::ResizeOptions one = {.height = 1, .width = 1, .bicubic = bicubic};
    const Element square = element(counted<std::uint8_t>({4, 4, 1}));
    EXPECT_EQ(array_of(images::resize(one, filter)(square)).data<std::uint8_t>()[0], bicubic ? 3 : 2);
    EXPECT_EQ(array_of(images::random_resized_crop(one, {}, filter)(square, {})).data<std::uint8_t>()[0],
              bicubic ? 3 : 2);
  }
  EXPECT_EQ(error_of([&] { images::resize({.height = 0}, ones); }),
            "resize: height and width must be at least 1, got 0 x 0");
  EXPECT_EQ(error_of([&] {
              images::resize({.height = 3}, ones)(element(counted<std::int32_t>({2, 2})));
            }),
            "resize: expected an image of u8 or f32, got i32");
  EXPECT_EQ(error_of([&] {
              images::resize({.height = 3}, {ones.bytes, nullptr});
            }),
            "resize: the kernels must not be null");
  const Element floats = element(counted<float>({2, 2, 2}));  // alpha is a channel as the others
  EXPECT_EQ(values<float>(array_of(images::resize({.height = 1, .width = 1}, ones)(floats))),
            (std::vector<float>{2, 2}));
  EXPECT_EQ(values<float>(array_of(
                images::random_resized_crop({.height = 1, .width = 1, .bicubic = true}, {}, ones)(floats, {}))),
            (std::vector<float>{2.5f, 2.5f}));
  EXPECT_EQ(error_of([&] {
              images::resize({.height = 3}, ones)(element(counted<std::uint8_t>({0, 2, 3})));
            }),
            "resize: the image has no pixels: its shape is [0, 2, 3]");
}

TEST(ImageFunctions, DecodeSkipsDamagedRecordsByOption) {
  const std::vector<std::uint8_t> file = encode_png(counted<std::uint8_t>({2, 2, 3}));
  Element good = element(HostArray::of<std::uint8_t>({static_cast<std::int64_t>(file.size())}, file)),
          bad = element(HostArray::of<std::uint8_t>({2}, {1, 2}));
  bad.index = 8;
  EXPECT_EQ(array_of(images::decode()(good)).shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(error_of([&] { images::decode()(bad); }),
            "the image of record 8: expected a JPEG, PNG or WebP image, got a file of 2 bytes that begins with 0102");
  EXPECT_TRUE(images::decode({}, true)(bad).skipped);
  EXPECT_FALSE(images::decode({}, true)(good).skipped);
  EXPECT_EQ(error_of([&] { images::decode({}, true)(element(counted<float>({3}))); }),
            "decode: expected the bytes of a file, u8[n], got f32[3]");
}

}  // namespace
}  // namespace karez::data
