// Resizes images of bytes: first each row, then each column. Sums are integers (resize_weights.h).
#include "karez/kernels/cpu/hwy_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_image_resize.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "karez/kernels/cpu/image_resize.h"
#include "karez/kernels/cpu/resize_weights.h"

#ifndef KAREZ_HWY_IMAGE_RESIZE
#define KAREZ_HWY_IMAGE_RESIZE
namespace karez::kernels {

// For each output pixel of a row or column, the input pixels that it is made from, and their weights.
struct ResizeTaps {
  static constexpr int bits = resize_weight_bits;
  struct Window {
    std::int64_t first, count;
    const std::int32_t* weights;
  };
  Window at(std::int64_t i) const {
    const auto n = static_cast<std::size_t>(i);
    return {first[n], count[n], weights.data() + n * stride};
  }
  std::int64_t size() const { return static_cast<std::int64_t>(first.size()); }

  std::vector<std::int64_t> first, count;
  std::vector<std::int32_t> weights;  // `stride` for each output pixel
  std::size_t stride = 0;
};

inline std::uint8_t round_sum(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> ResizeTaps::bits, 0, 255));
}
constexpr std::int32_t half = 1 << (ResizeTaps::bits - 1);

}  // namespace karez::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace karez::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One sample of a row, for any number of channels.
HWY_INLINE std::uint8_t row_sample(const std::uint8_t* in, std::int64_t channels, const ResizeTaps::Window& window) {
  std::int32_t sum = half;
  for (std::int64_t t = 0; t < window.count; ++t) sum += in[(window.first + t) * channels] * window.weights[t];
  return round_sum(sum);
}

void resize_row_samples(const std::uint8_t* in, std::int64_t channels, const ResizeTaps& taps, std::uint8_t* out) {
  for (std::int64_t x = 0; x < taps.size(); ++x)
    for (std::int64_t c = 0; c < channels; ++c) *out++ = row_sample(in + c, channels, taps.at(x));
}

#if HWY_TARGET != HWY_SCALAR

using Four = hn::FixedTag<std::int32_t, 4>;
using FourBytes = hn::Rebind<std::uint8_t, Four>;

// Rows of 3 or 4 channels: a vector holds one pixel, and four rows are resized together. A load may read the byte after
// the last pixel of a row.
template <int channels>
void resize_four_rows(const std::uint8_t* const* in, const ResizeTaps& taps, std::uint8_t* const* out) {
  const Four d;
  const FourBytes bytes;
  const auto store = [&](hn::Vec<Four> sum, std::uint8_t* to) HWY_ATTR {
    std::uint8_t pixel[4];
    hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRight<ResizeTaps::bits>(sum)), bytes, pixel);
    std::memcpy(to, pixel, channels);
  };
  for (std::int64_t x = 0; x < taps.size(); ++x) {
    const ResizeTaps::Window window = taps.at(x);
    auto sum0 = hn::Set(d, half), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    std::int64_t at = window.first * channels;
    for (std::int64_t t = 0; t < window.count; ++t, at += channels) {
      const auto weight = hn::Set(d, window.weights[t]);
      const auto product = [&](const std::uint8_t* from)
                               HWY_ATTR { return hn::Mul(hn::PromoteTo(d, hn::LoadU(bytes, from + at)), weight); };
      sum0 = hn::Add(sum0, product(in[0])), sum1 = hn::Add(sum1, product(in[1]));
      sum2 = hn::Add(sum2, product(in[2])), sum3 = hn::Add(sum3, product(in[3]));
    }
    store(sum0, out[0] + x * channels), store(sum1, out[1] + x * channels);
    store(sum2, out[2] + x * channels), store(sum3, out[3] + x * channels);
  }
}

template <int channels>
void resize_pixel_rows(const std::uint8_t* in, std::int64_t rows, std::int64_t width, const ResizeTaps& taps,
                       std::uint8_t* out) {
  const std::int64_t in_bytes = width * channels, out_bytes = taps.size() * channels;
  // A copy of the last row, so that the byte after it may be read.
  std::vector<std::uint8_t> last(static_cast<std::size_t>(in_bytes) + 1);
  std::memcpy(last.data(), in + (rows - 1) * in_bytes, static_cast<std::size_t>(in_bytes));
  for (std::int64_t y = 0; y < rows; y += 4) {
    const std::uint8_t* from[4];
    std::uint8_t* to[4];
    for (int i = 0; i < 4; ++i) {
      const std::int64_t row = std::min(y + i, rows - 1);  // the last row may be resized more than once
      from[i] = row == rows - 1 ? last.data() : in + row * in_bytes;
      to[i] = out + row * out_bytes;
    }
    resize_four_rows<channels>(from, taps, to);
  }
}

#endif

void resize_rows(const std::uint8_t* in, std::int64_t rows, std::int64_t width, std::int64_t channels,
                 const ResizeTaps& taps, std::uint8_t* out) {
#if HWY_TARGET != HWY_SCALAR
  if (channels == 3) return resize_pixel_rows<3>(in, rows, width, taps, out);
  if (channels == 4) return resize_pixel_rows<4>(in, rows, width, taps, out);
#endif
  for (std::int64_t y = 0; y < rows; ++y)
    resize_row_samples(in + y * width * channels, channels, taps, out + y * taps.size() * channels);
}

// Sums whole rows of `row_bytes` bytes.
void resize_columns(const std::uint8_t* in, std::int64_t row_bytes, const ResizeTaps& taps, std::uint8_t* out) {
  for (std::int64_t y = 0; y < taps.size(); ++y, out += row_bytes) {
    const ResizeTaps::Window window = taps.at(y);
    const std::uint8_t* from = in + window.first * row_bytes;
    std::int64_t x = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::ScalableTag<std::int32_t> d;
    const hn::Rebind<std::uint8_t, decltype(d)> bytes;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto store = [&](hn::Vec<decltype(d)> sum, std::uint8_t* to) HWY_ATTR {
      hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRight<ResizeTaps::bits>(sum)), bytes, to);
    };
    for (; x + 4 * lanes <= row_bytes; x += 4 * lanes) {
      auto sum0 = hn::Set(d, half), sum1 = sum0, sum2 = sum0, sum3 = sum0;
      for (std::int64_t t = 0; t < window.count; ++t) {
        const auto weight = hn::Set(d, window.weights[t]);
        const std::uint8_t* row = from + t * row_bytes + x;
        const auto product = [&](std::int64_t i) HWY_ATTR {
          return hn::Mul(hn::PromoteTo(d, hn::LoadU(bytes, row + i * lanes)), weight);
        };
        sum0 = hn::Add(sum0, product(0)), sum1 = hn::Add(sum1, product(1));
        sum2 = hn::Add(sum2, product(2)), sum3 = hn::Add(sum3, product(3));
      }
      store(sum0, out + x), store(sum1, out + x + lanes);
      store(sum2, out + x + 2 * lanes), store(sum3, out + x + 3 * lanes);
    }
#endif
    const ResizeTaps::Window column{0, window.count, window.weights};
    for (; x < row_bytes; ++x) out[x] = row_sample(from + x, row_bytes, column);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace karez::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
namespace {
HWY_EXPORT(resize_rows);
HWY_EXPORT(resize_columns);

ResizeTaps taps_of(std::int64_t in, std::int64_t out, bool bicubic) {
  ResizeWeights exact = resize_weights(in, out, bicubic);
  ResizeTaps taps{std::move(exact.first), std::move(exact.count), {}, exact.stride};
  for (double weight : exact.weights) taps.weights.push_back(fixed_resize_weight(weight));
  return taps;
}

}  // namespace

void resize_image(const std::uint8_t* in, std::int64_t in_height, std::int64_t in_width, std::int64_t channels,
                  std::uint8_t* out, std::int64_t out_height, std::int64_t out_width, bool bicubic) {
  const std::int64_t row_bytes = out_width * channels;
  if (in_height == out_height && in_width == out_width) {
    std::memcpy(out, in, static_cast<std::size_t>(out_height * row_bytes));
    return;
  }
  std::vector<std::uint8_t> rows;  // after the first pass
  if (in_width != out_width) {
    std::uint8_t* to = out;
    if (in_height != out_height) {
      rows.resize(static_cast<std::size_t>(in_height * row_bytes));
      to = rows.data();
    }
    HWY_DYNAMIC_DISPATCH(resize_rows)(in, in_height, in_width, channels, taps_of(in_width, out_width, bicubic), to);
    in = to;
  }
  if (in_height != out_height)
    HWY_DYNAMIC_DISPATCH(resize_columns)(in, row_bytes, taps_of(in_height, out_height, bicubic), out);
}

}  // namespace karez::kernels
#endif
