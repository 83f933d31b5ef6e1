// Moves and normalises the samples of images. The results are those of plain loops, bit for bit.
#include "karez/device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_image_samples.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "karez/kernels/cpu/image_samples.h"

#ifndef KAREZ_HWY_IMAGE_SAMPLES
#define KAREZ_HWY_IMAGE_SAMPLES
namespace karez::kernels {

constexpr std::int64_t most_channels = 4;  // of the fast loops

inline float unit_sample(std::uint8_t x) { return static_cast<float>(x) / 255.0f; }
inline float unit_sample(float x) { return x; }

}  // namespace karez::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace karez::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVector = hn::Vec<Floats>;

template <class T> using Samples = hn::Rebind<T, Floats>;
HWY_INLINE FloatVector unit_samples(hn::Vec<Samples<std::uint8_t>> x) {
  const hn::RebindToSigned<Floats> ints;
  const auto number = hn::ConvertTo(Floats(), hn::PromoteTo(ints, x));
#if !HWY_NATIVE_FMA
  return hn::Div(number, hn::Set(Floats(), 255.0f));
#else  // 1 / 255 as the sum of two floats; with one rounding, the product is the quotient for all 256 bytes
  constexpr float high = static_cast<float>(1.0 / 255), low = static_cast<float>(1.0 / 255 - static_cast<double>(high));
  return hn::MulAdd(number, hn::Set(Floats(), high), hn::Mul(number, hn::Set(Floats(), low)));
#endif
}
HWY_INLINE FloatVector unit_samples(FloatVector x) { return x; }

// The result has the order of the operand: vectors have the channels of one sample after another.
template <class T>
void normalize_in_order(const T* in, std::int64_t pixels, std::int64_t channels, const float* mean, const float* std,
                        float* out) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t samples = pixels * channels;
  std::int64_t i = 0;
  if (channels <= most_channels) {
    float means[most_channels * HWY_LANES(float)], deviations[most_channels * HWY_LANES(float)];
    for (std::int64_t k = 0; k < channels * lanes; ++k)
      means[k] = mean[k % channels], deviations[k] = std[k % channels];
    for (; i + channels * lanes <= samples; i += channels * lanes)
      for (std::int64_t k = 0; k < channels * lanes; k += lanes)
        hn::StoreU(hn::Div(hn::Sub(unit_samples(hn::LoadU(Samples<T>(), in + i + k)), hn::LoadU(d, means + k)),
                           hn::LoadU(d, deviations + k)),
                   d, out + i + k);
  }
  for (std::int64_t c = 0; i < samples; ++i, c = c + 1 == channels ? 0 : c + 1)
    out[i] = (unit_sample(in[i]) - mean[c]) / std[c];
}

#if HWY_TARGET != HWY_SCALAR
// The numbers of a vector of pixels.
template <class D> struct PixelVectors { hn::Vec<D> c[4]; };
template <int channels, class D, class T> HWY_INLINE auto load_pixels(D d, const T* from) {
  PixelVectors<D> v;
  if constexpr (channels == 1) v.c[0] = hn::LoadU(d, from);
  if constexpr (channels == 2) hn::LoadInterleaved2(d, from, v.c[0], v.c[1]);
  if constexpr (channels == 3) hn::LoadInterleaved3(d, from, v.c[0], v.c[1], v.c[2]);
  if constexpr (channels == 4) hn::LoadInterleaved4(d, from, v.c[0], v.c[1], v.c[2], v.c[3]);
  return v;
}
#endif

template <int channels, class T>
void normalize_planes(const T* in, std::int64_t pixels, const float* mean, const float* std, float* out) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= pixels; i += lanes) {
    const auto pixel = load_pixels<channels>(Samples<T>(), in + i * channels);
    for (int c = 0; c < channels; ++c)
      hn::StoreU(hn::Div(hn::Sub(unit_samples(pixel.c[c]), hn::Set(d, mean[c])), hn::Set(d, std[c])), d,
                 out + c * pixels + i);
  }
#endif
  for (; i < pixels; ++i)
    for (int c = 0; c < channels; ++c) out[c * pixels + i] = (unit_sample(in[i * channels + c]) - mean[c]) / std[c];
}

template <class T>
void normalize(const T* in, std::int64_t pixels, std::int64_t channels, const float* mean, const float* std,
               bool planes, float* out) {
  if (!planes || channels == 1) return normalize_in_order(in, pixels, channels, mean, std, out);
  if (channels == 2) return normalize_planes<2>(in, pixels, mean, std, out);
  if (channels == 3) return normalize_planes<3>(in, pixels, mean, std, out);
  if (channels == 4) return normalize_planes<4>(in, pixels, mean, std, out);
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t i = 0; i < pixels; ++i)
      out[c * pixels + i] = (unit_sample(in[i * channels + c]) - mean[c]) / std[c];
}

void normalize_bytes(const std::uint8_t* in, std::int64_t pixels, std::int64_t channels, const float* mean,
                     const float* std, bool planes, float* out) {
  normalize(in, pixels, channels, mean, std, planes, out);
}
void normalize_floats(const float* in, std::int64_t pixels, std::int64_t channels, const float* mean, const float* std,
                      bool planes, float* out) {
  normalize(in, pixels, channels, mean, std, planes, out);
}

void flip_rows(const std::byte* in, std::int64_t rows, std::int64_t width, std::size_t pixel_bytes, std::byte* out) {
  const std::size_t row = static_cast<std::size_t>(width) * pixel_bytes;
#if HWY_TARGET != HWY_SCALAR
  constexpr std::size_t vector = 16;
  const hn::FixedTag<std::uint8_t, vector> d;
  // A vector is stored with as many pixels as fit at its end. The bytes before them are overwritten by the next vector.
  const std::size_t used = pixel_bytes > vector ? 0 : vector / pixel_bytes * pixel_bytes;
  std::uint8_t order[vector] = {};
  for (std::size_t i = 0; i < used; ++i)
    order[vector - used + i] =
        static_cast<std::uint8_t>(used - pixel_bytes - i / pixel_bytes * pixel_bytes + i % pixel_bytes);
  const auto indices = hn::LoadU(d, order);
#endif
  for (std::int64_t y = 0; y < rows; ++y, in += row, out += row) {
    std::size_t at = 0;
#if HWY_TARGET != HWY_SCALAR
    for (; used > 0 && at + vector <= row; at += used)
      hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(in) + at), indices), d,
                 reinterpret_cast<std::uint8_t*>(out) + row - at - vector);
#endif
    for (; at < row; at += pixel_bytes) std::memcpy(out + row - at - pixel_bytes, in + at, pixel_bytes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace karez::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
namespace {
HWY_EXPORT(normalize_bytes);
HWY_EXPORT(normalize_floats);
HWY_EXPORT(flip_rows);
}  // namespace

void normalize_bytes(const std::uint8_t* in, std::int64_t pixels, std::int64_t channels, const float* mean,
                     const float* std, bool planes, float* out) {
  HWY_DYNAMIC_DISPATCH(normalize_bytes)(in, pixels, channels, mean, std, planes, out);
}
void normalize_floats(const float* in, std::int64_t pixels, std::int64_t channels, const float* mean, const float* std,
                      bool planes, float* out) {
  HWY_DYNAMIC_DISPATCH(normalize_floats)(in, pixels, channels, mean, std, planes, out);
}
void flip_rows(const std::byte* in, std::int64_t rows, std::int64_t width, std::size_t pixel_bytes, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(flip_rows)(in, rows, width, pixel_bytes, out);
}

}  // namespace karez::kernels
#endif
