// Tests of decoding and encoding: values, damaged files, limits, and several threads.
#include "karez/data/images.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "karez/base/test_error.h"
#include "karez/data/images/pixels.h"

namespace karez::data {
namespace {

using Bytes = std::vector<std::uint8_t>;

HostArray picture(std::int64_t height, std::int64_t width, std::int64_t channels, unsigned seed = 1) {
  std::mt19937 random(seed);
  HostArray out(TensorType{DType::u8, {height, width, channels}});
  for (std::uint8_t& value : out.data<std::uint8_t>()) value = static_cast<std::uint8_t>(random());
  return out;
}

// A picture that JPEG changes little.
HostArray smooth_picture(std::int64_t height, std::int64_t width, std::int64_t channels) {
  HostArray out(TensorType{DType::u8, {height, width, channels}});
  auto* to = out.data<std::uint8_t>().data();
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < channels; ++c) *to++ = static_cast<std::uint8_t>(3 * y + 2 * x + 20 * c);
  return out;
}

bool same(const HostArray& a, const HostArray& b) {
  return a.type() == b.type() && std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.count())) == 0;
}

int largest_difference(const HostArray& a, const HostArray& b) {
  int worst = a.shape() == b.shape() ? 0 : 1000;
  for (std::size_t i = 0; worst < 1000 && i < a.data<std::uint8_t>().size(); ++i)
    worst = std::max(worst, std::abs(a.data<std::uint8_t>()[i] - b.data<std::uint8_t>()[i]));
  return worst;
}

std::string decode_error(const Bytes& file, const DecodeOptions& options = {}) {
  try {
    decode_image(file, options, "a.img");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::data);
    return error.what();
  }
  return "";
}

TEST(Images, PngKeepsAllValues) {
  for (std::int64_t channels = 1; channels <= 4; ++channels)
    for (auto [height, width] : {std::pair(1, 1), {1, 9}, {13, 1}, {17, 31}}) {
      const HostArray image = picture(height, width, channels);
      EXPECT_TRUE(same(decode_image(encode_png(image)), image)) << height << " x " << width << " x " << channels;
    }
}

TEST(Images, JpegKeepsSmoothPictures) {
  for (std::int64_t channels : {1, 3})
    for (auto [height, width] : {std::pair(1, 1), {1, 9}, {13, 1}, {17, 31}}) {
      const HostArray image = smooth_picture(height, width, channels);
      EXPECT_LE(largest_difference(decode_image(encode_jpeg(image, 100)), image), 12);
    }
}

TEST(Images, ChannelsAreConverted) {
  const HostArray rgba = HostArray::of<std::uint8_t>({1, 2, 4}, {255, 0, 0, 7, 10, 200, 30, 0});
  const HostArray grey = HostArray::of<std::uint8_t>({1, 2, 2}, {9, 1, 200, 2});
  EXPECT_TRUE(same(decode_image(encode_png(rgba), {.channels = 3}),
                   HostArray::of<std::uint8_t>({1, 2, 3}, {255, 0, 0, 10, 200, 30})));
  EXPECT_TRUE(same(decode_image(encode_png(rgba), {.channels = 1}), HostArray::of<std::uint8_t>({1, 2, 1}, {76, 124})));
  EXPECT_TRUE(same(decode_image(encode_png(grey), {.channels = 3}),
                   HostArray::of<std::uint8_t>({1, 2, 3}, {9, 9, 9, 200, 200, 200})));
  EXPECT_TRUE(same(decode_image(encode_png(grey), {.channels = 1}), HostArray::of<std::uint8_t>({1, 2, 1}, {9, 200})));
}

TEST(Images, TruncatedFilesAreErrors) {
  for (const Bytes& file : {encode_jpeg(smooth_picture(20, 30, 3)), encode_png(picture(20, 30, 3))})
    for (std::size_t count = 0; count < file.size(); ++count) {
      const std::string error = decode_error(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(count)));
      ASSERT_NE(error, "") << count << " of " << file.size() << " bytes";
      ASSERT_EQ(error.find("a.img: "), 0u) << error;
    }
}

TEST(Images, DamagedFilesAreDecodedOrErrors) {
  std::mt19937 random(3);
  int errors = 0;
  for (const Bytes& file : {encode_jpeg(smooth_picture(20, 30, 3)), encode_png(picture(20, 30, 3))})
    for (int trial = 0; trial < 500; ++trial) {
      Bytes damaged = file;
      for (unsigned i = 0; i <= random() % 4; ++i)
        damaged[random() % damaged.size()] = static_cast<std::uint8_t>(random());
      errors += !decode_error(damaged, {.max_pixels = 1 << 20}).empty();
    }
  EXPECT_GT(errors, 400);
}

TEST(Images, AJpegFileWithoutBytesInItsMiddleIsAnError) {
  Bytes file = encode_jpeg(picture(64, 64, 3));
  file.erase(file.begin() + 1000, file.end() - 100);
  EXPECT_NE(decode_error(file).find("premature end of data segment"), std::string::npos) << decode_error(file);
}

TEST(Images, OtherFilesAreErrors) {
  EXPECT_EQ(decode_error({}), "a.img: expected a JPEG, PNG or WebP image, got no bytes");
  EXPECT_EQ(decode_error({'G', 'I', 'F', '8'}),
            "a.img: expected a JPEG, PNG or WebP image, got a file of 4 bytes that begins with 47494638");
  EXPECT_EQ(decode_error({'G', 'I', 'F', '8', '9', 'a', 1, 0, 2, 0}),
            "a.img: expected a JPEG, PNG or WebP image, got a file of 10 bytes that begins with 4749463839610100");
}

TEST(Images, LargeImagesAreErrors) {
  for (const Bytes& file : {encode_jpeg(smooth_picture(20, 30, 3)), encode_png(picture(20, 30, 3))}) {
    EXPECT_EQ(decode_error(file, {.max_pixels = 600}), "");
    EXPECT_EQ(decode_error(file, {.max_pixels = 599}),
              "a.img: the image must have at most 599 pixels (max_pixels), got 30 x 20");
  }
  Bytes huge = encode_png(picture(1, 1, 1));
  for (std::size_t i = 16; i < 24; ++i) huge[i] = i % 4 == 0 ? 0x10 : 0;  // 2^28 x 2^28 pixels, with a wrong checksum
  EXPECT_NE(decode_error(huge), "");
}

TEST(Images, IllegalOptionsAreErrors) {
  const Bytes file = encode_png(picture(1, 1, 1));
  EXPECT_EQ(error_of([&] { decode_image(file, {.channels = 2}); }),
            "decode_image: channels must be 0 (as in the file), 1 or 3, got 2");
  EXPECT_EQ(error_of([&] { decode_image(file, {.max_pixels = 0}); }),
            "decode_image: max_pixels must be at least 1, got 0");
  EXPECT_EQ(error_of([&] { encode_jpeg(picture(2, 2, 4)); }),
            "encode_jpeg: expected pixels [height, width, 1 or 3], got [2, 2, 4]");
  EXPECT_EQ(error_of([&] { encode_jpeg(picture(2, 2, 3), 101); }),
            "encode_jpeg: quality must be between 1 and 100, got 101");
  EXPECT_EQ(error_of([&] { encode_png(picture(2, 2, 5)); }),
            "encode_png: expected pixels [height, width, 1 to 4], got [2, 2, 5]");
}

TEST(Images, JpegIsDecodedAtTheSmallestScaleThatSuffices) {
  const Bytes file = encode_jpeg(smooth_picture(203, 300, 3));
  const auto shape = [&](std::int64_t height, std::int64_t width) {
    return decode_image(file, {.min_height = height, .min_width = width}).shape();
  };
  EXPECT_EQ(shape(0, 0), (Shape{203, 300, 3}));
  EXPECT_EQ(shape(26, 38), (Shape{26, 38, 3}));  // sides are rounded up
  EXPECT_EQ(shape(27, 38), (Shape{51, 75, 3}));
  EXPECT_EQ(shape(26, 76), (Shape{102, 150, 3}));
  EXPECT_EQ(shape(0, 151), (Shape{203, 300, 3}));
  EXPECT_EQ(shape(1000, 1000), (Shape{203, 300, 3}));
}

TEST(Images, OrientationsTurnTheImage) {
  // The letters of EXIF's orientations 1 to 8, rows of an image that is stored as ab / cd / ef.
  const std::vector<std::pair<Shape, std::string>> expected = {
      {{3, 2, 1}, "abcdef"}, {{3, 2, 1}, "badcfe"}, {{3, 2, 1}, "fedcba"}, {{3, 2, 1}, "efcdab"},
      {{2, 3, 1}, "acebdf"}, {{2, 3, 1}, "ecafdb"}, {{2, 3, 1}, "fdbeca"}, {{2, 3, 1}, "bdface"}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    Pixels stored(3, 2, 1);
    std::memcpy(stored.data(), "abcdef", 6);
    const Pixels upright = turn_upright(std::move(stored), orientation);
    const auto& [shape, letters] = expected[static_cast<std::size_t>(orientation - 1)];
    EXPECT_EQ((Shape{upright.height, upright.width, upright.channels}), shape) << orientation;
    EXPECT_EQ(std::string(upright.data(), upright.data() + 6), letters) << orientation;
  }
}

TEST(Images, ExifOrientationIsReadInBothByteOrders) {
  const auto read = [](std::string text) {
    return exif_orientation({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  };
  using namespace std::string_literals;
  const std::string little =
      "II*\0\x08\0\0\0\x02\0\x01\x01\x03\0\x01\0\0\0\x05\0\0\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"s;
  const std::string big = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0"s;
  EXPECT_EQ(read(little), 6);
  EXPECT_EQ(read(big), 8);
  EXPECT_EQ(read("Exif\0\0"s + big), 8);
  for (std::size_t count = 0; count < little.size() - 4; ++count) EXPECT_EQ(read(little.substr(0, count)), 1) << count;
  EXPECT_EQ(read("MI\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0"s), 1);
  EXPECT_EQ(read("MM\0*\xff\xff\xff\xff\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0"s), 1);
  EXPECT_EQ(read("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x09\0\0"s), 1);
}

TEST(Images, SeveralThreadsDecodeAtTheSameTime) {
  const HostArray image = picture(40, 50, 3);
  const Bytes png = encode_png(image), jpeg = encode_jpeg(image), half(jpeg.begin(), jpeg.begin() + 300);
  const HostArray expected = decode_image(jpeg);
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (int& count : wrong)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        count += !same(decode_image(png), image) + !same(decode_image(jpeg), expected) + decode_error(half).empty();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace karez::data
