// Changes the colours of images. The results are those of plain loops, bit for bit.
#include "karez/device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_image_colour.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "karez/kernels/cpu/image_colour.h"

#ifndef KAREZ_HWY_IMAGE_COLOUR
#define KAREZ_HWY_IMAGE_COLOUR
namespace karez::kernels {

inline std::int32_t grey_of_pixel(const std::uint8_t* rgb) {
  const unsigned sum = rgb[0] * grey_weights[0] + rgb[1] * grey_weights[1] + rgb[2] * grey_weights[2];
  return static_cast<std::int32_t>((sum + grey_half) >> grey_bits);
}

inline std::uint8_t blend_sample(std::int32_t base, std::int32_t value, float factor) {
  const float sum = static_cast<float>(base) + factor * static_cast<float>(value - base);
  return static_cast<std::uint8_t>(std::clamp(sum, 0.0f, 255.0f));
}

}  // namespace karez::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace karez::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Ints = hn::ScalableTag<std::int32_t>;
using Floats = hn::RebindToFloat<Ints>;
using Samples = hn::Rebind<std::uint8_t, Ints>;
using IntVector = hn::Vec<Ints>;
using SampleVector = hn::Vec<Samples>;

// The colours of a vector of pixels; alpha, if there is one, stays as it is.
template <int channels> struct PixelVector {
  SampleVector c[4];

  HWY_INLINE void load(const std::uint8_t* from) {
    const Samples d;
    if constexpr (channels == 1) c[0] = hn::LoadU(d, from);
    if constexpr (channels == 2) hn::LoadInterleaved2(d, from, c[0], c[1]);
    if constexpr (channels == 3) hn::LoadInterleaved3(d, from, c[0], c[1], c[2]);
    if constexpr (channels == 4) hn::LoadInterleaved4(d, from, c[0], c[1], c[2], c[3]);
  }
  HWY_INLINE void store(std::uint8_t* to) const {
    const Samples d;
    if constexpr (channels == 1) hn::StoreU(c[0], d, to);
    if constexpr (channels == 2) hn::StoreInterleaved2(c[0], c[1], d, to);
    if constexpr (channels == 3) hn::StoreInterleaved3(c[0], c[1], c[2], d, to);
    if constexpr (channels == 4) hn::StoreInterleaved4(c[0], c[1], c[2], c[3], d, to);
  }
  HWY_INLINE IntVector grey() const {
    const Ints d;
    if constexpr (channels < 3) return hn::PromoteTo(d, c[0]);
    const auto constant = [&](unsigned value) HWY_ATTR { return hn::Set(d, static_cast<std::int32_t>(value)); };
    const auto product = [&](std::size_t i)
                             HWY_ATTR { return hn::Mul(hn::PromoteTo(d, c[i]), constant(grey_weights[i])); };
    const IntVector sum = hn::Add(hn::Add(product(0), product(1)), hn::Add(product(2), constant(grey_half)));
    return hn::ShiftRight<grey_bits>(sum);
  }
};

HWY_INLINE SampleVector blend_vector(IntVector base, SampleVector value, hn::Vec<Floats> factor) {
  const Ints d;
  const Floats f;
  const auto difference = hn::ConvertTo(f, hn::Sub(hn::PromoteTo(d, value), base));
  const auto sum = hn::Add(hn::ConvertTo(f, base), hn::Mul(factor, difference));
  const auto limited = hn::Min(hn::Max(sum, hn::Zero(f)), hn::Set(f, 255.0f));
  return hn::DemoteTo(Samples(), hn::ConvertTo(d, limited));
}

// Replaces the colours by change(colour, grey), for vectors, and one(colour, grey), for the pixels at the end.
template <int channels, class Change, class One>
HWY_INLINE void change_colours(const std::uint8_t* in, std::int64_t pixels, std::uint8_t* out,
                               [[maybe_unused]] Change change, One one) {
  constexpr int colours = channels < 3 ? 1 : 3;
  [[maybe_unused]] const auto lanes = static_cast<std::int64_t>(hn::Lanes(Samples()));
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; i + lanes <= pixels; i += lanes) {
    PixelVector<channels> pixel;
    pixel.load(in + i * channels);
    const IntVector grey = pixel.grey();
    for (int c = 0; c < colours; ++c) pixel.c[c] = change(pixel.c[c], grey);
    pixel.store(out + i * channels);
  }
#endif
  for (; i < pixels; ++i) {
    const std::uint8_t* from = in + i * channels;
    std::uint8_t* to = out + i * channels;
    const std::int32_t grey = colours == 1 ? from[0] : grey_of_pixel(from);
    for (int c = 0; c < colours; ++c) to[c] = one(from[c], grey);
    if (channels % 2 == 0) to[channels - 1] = from[channels - 1];
  }
}

template <int channels>
void blend(const std::uint8_t* in, std::int64_t pixels, int base, float factor, std::uint8_t* out) {
  const IntVector bases = hn::Set(Ints(), base);
  const auto factors = hn::Set(Floats(), factor);
  change_colours<channels>(
      in, pixels, out, [&](SampleVector value, IntVector) HWY_ATTR { return blend_vector(bases, value, factors); },
      [&](std::uint8_t value, std::int32_t) HWY_ATTR { return blend_sample(base, value, factor); });
}

template <int channels> void blend_grey(const std::uint8_t* in, std::int64_t pixels, float factor, std::uint8_t* out) {
  const auto factors = hn::Set(Floats(), factor);
  change_colours<channels>(
      in, pixels, out, [&](SampleVector value, IntVector grey) HWY_ATTR { return blend_vector(grey, value, factors); },
      [&](std::uint8_t value, std::int32_t grey) HWY_ATTR { return blend_sample(grey, value, factor); });
}

template <int channels> std::int64_t grey_sum(const std::uint8_t* in, std::int64_t pixels) {
  [[maybe_unused]] const auto lanes = static_cast<std::int64_t>(hn::Lanes(Samples()));
  std::int64_t total = 0, i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Ints d;
  while (i + lanes <= pixels) {
    // A lane of 32 bits holds the sum of more than eight million greys.
    const std::int64_t end = std::min(pixels, i + lanes * (std::int64_t{1} << 20));
    IntVector sums = hn::Zero(d);
    for (; i + lanes <= end; i += lanes) {
      PixelVector<channels> pixel;
      pixel.load(in + i * channels);
      sums = hn::Add(sums, pixel.grey());
    }
    std::int32_t parts[HWY_LANES(std::int32_t)];
    hn::StoreU(sums, d, parts);
    for (std::int64_t lane = 0; lane < lanes; ++lane) total += parts[lane];
  }
#endif
  for (; i < pixels; ++i) total += channels < 3 ? in[i * channels] : grey_of_pixel(in + i * channels);
  return total;
}

// Calls f<channels>().
template <class F> HWY_INLINE auto with_channels(int channels, F f) {
  switch (channels) {
    case 1: return f.template operator()<1>();
    case 2: return f.template operator()<2>();
    case 3: return f.template operator()<3>();
    default: return f.template operator()<4>();
  }
}

void blend_colours(const std::uint8_t* in, std::int64_t pixels, int channels, int base, float factor,
                   std::uint8_t* out) {
  with_channels(channels, [&]<int n>() HWY_ATTR { blend<n>(in, pixels, base, factor, out); });
}
void blend_with_grey(const std::uint8_t* in, std::int64_t pixels, int channels, float factor, std::uint8_t* out) {
  if (channels < 3) std::memcpy(out, in, static_cast<std::size_t>(pixels * channels));
  else if (channels == 3) blend_grey<3>(in, pixels, factor, out);
  else blend_grey<4>(in, pixels, factor, out);
}
std::int64_t sum_of_greys(const std::uint8_t* in, std::int64_t pixels, int channels) {
  return with_channels(channels, [&]<int n>() HWY_ATTR { return grey_sum<n>(in, pixels); });
}

}  // namespace HWY_NAMESPACE
}  // namespace karez::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
namespace {
HWY_EXPORT(blend_colours);
HWY_EXPORT(blend_with_grey);
HWY_EXPORT(sum_of_greys);
}  // namespace

void blend_colours(const std::uint8_t* in, std::int64_t pixels, int channels, int base, float factor,
                   std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(blend_colours)(in, pixels, channels, base, factor, out);
}
void blend_with_grey(const std::uint8_t* in, std::int64_t pixels, int channels, float factor, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(blend_with_grey)(in, pixels, channels, factor, out);
}
std::int64_t sum_of_greys(const std::uint8_t* in, std::int64_t pixels, int channels) {
  return HWY_DYNAMIC_DISPATCH(sum_of_greys)(in, pixels, channels);
}

}  // namespace karez::kernels
#endif
