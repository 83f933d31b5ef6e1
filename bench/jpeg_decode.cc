// How fast are images decoded, relative to libjpeg-turbo alone, and how long do functions of images take?
//
//   bench_jpeg_decode [--pairs N]
//
// An image of 500 x 375 pixels that looks like a photograph is decoded by decode_image and by calls of libjpeg-turbo
// into memory that exists, in turn. Target: at least 0.9 of its rate. The second table has the times of functions that
// follow in a usual data set of images; it has no target.
#include <cstdio>  // before jpeglib.h, which needs FILE

#include <jpeglib.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/timing.h"
#include "karez/api/images.h"
#include "karez/data/images.h"

namespace karez::bench {
namespace {

constexpr std::int64_t height = 375, width = 500;

HostArray photograph() {
  HostArray out(TensorType{DType::u8, {height, width, 3}});
  auto* to = out.data<std::uint8_t>().data();
  unsigned noise = 1;
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c) {
        noise = noise * 1664525u + 1013904223u;
        const double shade =
            128 + 60 * std::sin(0.02 * static_cast<double>(x + 40 * c)) * std::cos(0.03 * static_cast<double>(y)) +
            30 * std::sin(0.3 * static_cast<double>(x - y)) + static_cast<double>(noise >> 27);
        *to++ = static_cast<std::uint8_t>(std::clamp(shade, 0.0, 255.0));
      }
  return out;
}

// The calls that any program needs; an error ends the program.
void decode_alone(const std::vector<std::uint8_t>& file, std::vector<std::uint8_t>& pixels) {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_read_header(&info, TRUE);
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels.data() + std::size_t{info.output_scanline} * static_cast<std::size_t>(width) * 3;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
}

void run(int pairs) {
  const std::vector<std::uint8_t> file = data::encode_jpeg(photograph(), 90);
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(height * width) * 3);
  std::vector<double> ratios, alone, ours;
  for (int pair = 0; pair < pairs; ++pair) {
    alone.push_back(seconds_per_run([&] { decode_alone(file, pixels); }, 50));
    ours.push_back(seconds_per_run([&] { data::decode_image(file); }, 50));
    ratios.push_back(alone.back() / ours.back());
  }
  std::printf("| decoding %zu bytes | ms | rate, relative | least | most |\n|---|---|---|---|---|\n", file.size());
  std::printf("| libjpeg-turbo | %.3f | 1 | | |\n| decode_image | %.3f | %.3f | %.3f | %.3f |\n\n", 1e3 * median(alone),
              1e3 * median(ours), median(ratios), *std::min_element(ratios.begin(), ratios.end()),
              *std::max_element(ratios.begin(), ratios.end()));

  const data::Element image = data::element(data::decode_image(file));
  const data::Element small = images::center_crop(224, 224)(images::resize(256)(image));
  const data::RandomKey key{1, 0, 0};
  const images::RandomImageFunction part = images::random_resized_crop(224, 224),
                                    jitter = images::color_jitter(0.4, 0.4, 0.4);
  const std::vector<std::pair<std::string, std::function<void()>>> rows = {
      {"resize(256), bilinear", [&, f = images::resize(256)] { f(image); }},
      {"resize(256), bicubic", [&, f = images::resize(256, true)] { f(image); }},
      {"random_resized_crop(224)", [&] { part(image, key); }},
      {"horizontal_flip of 224 x 224", [&, f = images::horizontal_flip()] { f(small); }},
      {"color_jitter of 224 x 224", [&] { jitter(small, key); }},
      {"normalize of 224 x 224", [&, f = images::normalize({0.5f}, {0.25f})] { f(small); }},
  };
  std::printf("| function | ms |\n|---|---|\n");
  for (const auto& [name, f] : rows) {
    std::vector<double> seconds;
    for (int pair = 0; pair < pairs; ++pair) seconds.push_back(seconds_per_run(f, 50));
    std::printf("| %s | %.3f |\n", name.c_str(), 1e3 * median(seconds));
  }
}

}  // namespace
}  // namespace karez::bench

int main(int count, char** arguments) {
  const bool has_pairs = count == 3 && std::string(arguments[1]) == "--pairs";
  karez::bench::run(has_pairs ? std::max(1, std::atoi(arguments[2])) : 15);
}
