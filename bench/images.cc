// How long do the functions of images take that a data set or a compiled function calls?
//
//   bench_images [--runs N]
//
// One thread; images of 500 x 375 and 224 x 224 pixels with 3 channels. The numbers are the least of N runs, in
// nanoseconds for each pixel of the image; a copy of the bytes shows what memory allows.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/timing.h"
#include "karez/api/images.h"

namespace karez::bench {
namespace {

data::Element image_of(DType dtype, std::int64_t height, std::int64_t width) {
  HostArray out(TensorType{dtype, {height, width, 3}});
  unsigned noise = 1;
  for (std::int64_t i = 0; i < out.count(); ++i) {
    noise = noise * 1664525u + 1013904223u;
    const auto byte = static_cast<std::uint8_t>(noise >> 24);
    if (dtype == DType::u8) out.data<std::uint8_t>()[static_cast<std::size_t>(i)] = byte;
    else out.data<float>()[static_cast<std::size_t>(i)] = static_cast<float>(byte) / 255.0f;
  }
  return data::element(std::move(out));
}

void run(int runs) {
  const std::vector<float> mean = {0.485f, 0.456f, 0.406f}, std = {0.229f, 0.224f, 0.225f};
  struct Row {
    const char* name;
    DType dtype;
    images::ImageFunction function;
  };
  const images::ImageFunction copy = [](const data::Element& element) {
    const HostArray& image = data::array_of(element);
    HostArray out(image.type());
    std::memcpy(out.bytes(), image.bytes(), static_cast<std::size_t>(image.count() * size_of(image.dtype())));
    return data::element(std::move(out));
  };
  const Row rows[] = {
      {"copy, u8", DType::u8, copy},
      {"copy, f32", DType::f32, copy},
      {"crop(1, 1, 200, 200), u8", DType::u8, images::crop(1, 1, 200, 200)},
      {"horizontal_flip, u8", DType::u8, images::horizontal_flip()},
      {"horizontal_flip, f32", DType::f32, images::horizontal_flip()},
      {"normalize, u8 to CHW", DType::u8, images::normalize(mean, std)},
      {"normalize, u8 to HWC", DType::u8, images::normalize(mean, std, false)},
      {"normalize, f32 to CHW", DType::f32, images::normalize(mean, std)},
      {"normalize, f32 to HWC", DType::f32, images::normalize(mean, std, false)},
      {"adjust_brightness", DType::u8, images::adjust_brightness(1.2)},
      {"adjust_contrast", DType::u8, images::adjust_contrast(1.2)},
      {"adjust_saturation", DType::u8, images::adjust_saturation(1.2)},
      {"resize(112, 112), u8", DType::u8, images::resize(112, 112)},
      {"resize(112, 112), f32", DType::f32, images::resize(112, 112)},
  };
  std::printf("| ns for each pixel | 500 x 375 | 224 x 224 |\n|---|---|---|\n");
  for (const Row& row : rows) {
    std::printf("| %s |", row.name);
    for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>(375, 500), {224, 224}}) {
      const data::Element image = image_of(row.dtype, height, width);
      double least = 1;
      for (int i = 0; i < runs; ++i) least = std::min(least, seconds_per_run([&] { row.function(image); }, 5));
      std::printf(" %.2f |", 1e9 * least / static_cast<double>(height * width));
    }
    std::printf("\n");
  }
}

// The stage and the compiled function on one device, whose kernels may use all cores.
void compare_resize(int runs) {
  std::printf("\n| resize of 500 x 375 to 224 x 224, ms | stage | compiled function |\n|---|---|---|\n");
  World world;
  for (const DType dtype : {DType::u8, DType::f32}) {
    const data::Element image = image_of(dtype, 375, 500);
    const images::ImageFunction stage = images::resize(224, 224);
    auto compiled = compile(world.mesh(), [](Tensor x) { return images::resize(x, 224, 224); });
    double stage_time = 1, compiled_time = 1;
    for (int i = 0; i < runs; ++i) {
      stage_time = std::min(stage_time, seconds_per_run([&] { stage(image); }, 5));
      compiled_time = std::min(compiled_time, seconds_per_run([&] { compiled(data::array_of(image)).value(); }, 5));
    }
    std::printf("| %s | %.3f | %.3f |\n", dtype == DType::u8 ? "u8" : "f32", 1e3 * stage_time, 1e3 * compiled_time);
  }
}

}  // namespace
}  // namespace karez::bench

int main(int count, char** arguments) {
  const bool has_runs = count == 3 && std::string(arguments[1]) == "--runs";
  const int runs = has_runs ? std::max(1, std::atoi(arguments[2])) : 100;
  karez::bench::run(runs);
  karez::bench::compare_resize(runs);
}
