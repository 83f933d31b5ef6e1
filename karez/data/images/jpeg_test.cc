// Tests that JPEG files with too many scans are errors. They are written by libjpeg-turbo with lists of scans.
#include <cstdio>  // before jpeglib.h, which needs FILE

#include <jpeglib.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "karez/base/test_error.h"
#include "karez/data/images.h"

namespace karez::data {
namespace {

// A progressive grey image of 8 x 8 pixels whose coefficients are sent one by one, and bit by bit.
std::vector<std::uint8_t> progressive_file(int bits) {
  std::vector<jpeg_scan_info> scans = {{1, {0}, 0, 0, 0, 0}};
  for (int bit = bits; bit >= 0; --bit)
    for (int k = 1; k < 64; ++k) scans.push_back({1, {0}, k, k, bit == bits ? 0 : bit + 1, bit});
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &bytes, &count);
  info.image_height = info.image_width = 8, info.input_components = 1, info.in_color_space = JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  info.scan_info = scans.data(), info.num_scans = static_cast<int>(scans.size());
  jpeg_start_compress(&info, TRUE);
  std::vector<JSAMPLE> pixels(8);
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 8; ++x) pixels[static_cast<std::size_t>(x)] = static_cast<JSAMPLE>(37 * x * y + 11 * x);
    JSAMPROW row = pixels.data();
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::vector<std::uint8_t> out(bytes, bytes + count);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return out;
}

TEST(Jpeg, AtMost500ScansAreRead) {
  EXPECT_EQ(decode_image(progressive_file(6)).shape(), (Shape{8, 8, 1}));                      // 442 scans
  const std::string error = error_of([] { decode_image(progressive_file(8), {}, "a.jpg"); });  // 568 scans
  EXPECT_NE(error.find("more than 500 scans"), std::string::npos) << error;
}

}  // namespace
}  // namespace karez::data
