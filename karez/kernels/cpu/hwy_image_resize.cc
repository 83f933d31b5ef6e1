// Resizes images of bytes or floats along one dimension. Sums of bytes are integers (resize_weights.h); the products of
// floats are rounded before they are added, so that the results are the same on all instruction sets.
#include "karez/device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_image_resize.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "karez/kernels/cpu/image_resize.h"
#include "karez/kernels/cpu/resize_weights.h"

#ifndef KAREZ_HWY_IMAGE_RESIZE
#define KAREZ_HWY_IMAGE_RESIZE
namespace karez::kernels {

// A sum begins with this number, and this function makes a sample from it.
inline std::int32_t first_sum(std::uint8_t) { return 1 << (resize_weight_bits - 1); }
inline float first_sum(float) { return 0; }
inline void store_sum(std::int32_t sum, std::uint8_t* to) {
  *to = static_cast<std::uint8_t>(std::clamp(sum >> resize_weight_bits, 0, 255));
}
inline void store_sum(float sum, float* to) { *to = sum; }

}  // namespace karez::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace karez::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One sample: the sum of samples that have a distance of `step`.
template <class T>
HWY_INLINE void resize_sample(const T* in, std::int64_t step, const typename ResizeTaps<T>::Window& window, T* out) {
  auto sum = first_sum(T{});
  for (std::int64_t t = 0; t < window.count; ++t) sum += in[t * step] * window.weights[t];
  store_sum(sum, out);
}

template <class T>
void resize_row_samples(const T* in, std::int64_t rows, std::int64_t width, std::int64_t channels,
                        const ResizeTaps<T>& taps, T* out) {
  for (std::int64_t y = 0; y < rows; ++y, in += width * channels)
    for (std::int64_t x = 0; x < taps.size(); ++x) {
      const auto window = taps.at(x);
      for (std::int64_t c = 0; c < channels; ++c)
        resize_sample(in + window.first * channels + c, channels, window, out++);
    }
}

#if HWY_TARGET != HWY_SCALAR

template <class D> HWY_INLINE hn::Vec<D> load_samples(D d, const std::uint8_t* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<std::uint8_t, D>(), from));
}
template <class D> HWY_INLINE hn::Vec<D> load_samples(D d, const float* from) { return hn::LoadU(d, from); }
template <class D> HWY_INLINE void store_sums(D, hn::Vec<D> sums, std::uint8_t* to) {
  const hn::Rebind<std::uint8_t, D> bytes;
  hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRight<resize_weight_bits>(sums)), bytes, to);
}
template <class D> HWY_INLINE void store_sums(D d, hn::Vec<D> sums, float* to) { hn::StoreU(sums, d, to); }

// Rows of 3 or 4 channels: a vector holds one pixel, and four rows are resized together. A load may read the sample
// after the last pixel of a row.
template <int channels, class T> void resize_four_rows(const T* const* in, const ResizeTaps<T>& taps, T* const* out) {
  const hn::FixedTag<ResizeWeight<T>, 4> d;
  const auto store = [&](hn::Vec<decltype(d)> sum, T* to) HWY_ATTR {
    T pixel[4];
    store_sums(d, sum, pixel);
    std::memcpy(to, pixel, channels * sizeof(T));
  };
  for (std::int64_t x = 0; x < taps.size(); ++x) {
    const auto window = taps.at(x);
    auto sum0 = hn::Set(d, first_sum(T{})), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    std::int64_t at = window.first * channels;
    for (std::int64_t t = 0; t < window.count; ++t, at += channels) {
      const auto weight = hn::Set(d, window.weights[t]);
      const auto product = [&](const T* from) HWY_ATTR { return hn::Mul(load_samples(d, from + at), weight); };
      sum0 = hn::Add(sum0, product(in[0])), sum1 = hn::Add(sum1, product(in[1]));
      sum2 = hn::Add(sum2, product(in[2])), sum3 = hn::Add(sum3, product(in[3]));
    }
    store(sum0, out[0] + x * channels), store(sum1, out[1] + x * channels);
    store(sum2, out[2] + x * channels), store(sum3, out[3] + x * channels);
  }
}

template <int channels, class T>
void resize_pixel_rows(const T* in, std::int64_t rows, std::int64_t width, const ResizeTaps<T>& taps, T* out) {
  const std::int64_t in_row = width * channels, out_row = taps.size() * channels;
  const std::int64_t last = rows - 1;  // has no sample after it
  for (std::int64_t y = 0; y < last; y += 4) {
    const T* from[4];
    T* to[4];
    for (int i = 0; i < 4; ++i) {
      const std::int64_t row = std::min(y + i, last - 1);  // this row may be resized more than once
      from[i] = in + row * in_row, to[i] = out + row * out_row;
    }
    resize_four_rows<channels>(from, taps, to);
  }
  resize_row_samples(in + last * in_row, 1, width, channels, taps, out + last * out_row);
}

#endif

template <class T>
HWY_INLINE void resize_rows_of(const T* in, std::int64_t rows, std::int64_t width, std::int64_t channels,
                               const ResizeTaps<T>& taps, T* out) {
#if HWY_TARGET != HWY_SCALAR
  if (channels == 3 && rows > 0) return resize_pixel_rows<3>(in, rows, width, taps, out);
  if (channels == 4 && rows > 0) return resize_pixel_rows<4>(in, rows, width, taps, out);
#endif
  resize_row_samples(in, rows, width, channels, taps, out);
}

template <class T>
HWY_INLINE void resize_columns_of(const T* in, std::int64_t row, const ResizeTaps<T>& taps, std::int64_t begin,
                                  std::int64_t end, T* out) {
  for (std::int64_t y = begin; y < end; ++y) {
    const auto window = taps.at(y);
    const T* from = in + window.first * row;
    T* to = out + y * row;
    std::int64_t x = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::ScalableTag<ResizeWeight<T>> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (; x + 4 * lanes <= row; x += 4 * lanes) {
      auto sum0 = hn::Set(d, first_sum(T{})), sum1 = sum0, sum2 = sum0, sum3 = sum0;
      for (std::int64_t t = 0; t < window.count; ++t) {
        const auto weight = hn::Set(d, window.weights[t]);
        const T* samples = from + t * row + x;
        const auto product = [&](std::int64_t i)
                                 HWY_ATTR { return hn::Mul(load_samples(d, samples + i * lanes), weight); };
        sum0 = hn::Add(sum0, product(0)), sum1 = hn::Add(sum1, product(1));
        sum2 = hn::Add(sum2, product(2)), sum3 = hn::Add(sum3, product(3));
      }
      store_sums(d, sum0, to + x), store_sums(d, sum1, to + x + lanes);
      store_sums(d, sum2, to + x + 2 * lanes), store_sums(d, sum3, to + x + 3 * lanes);
    }
    for (; x + lanes <= row; x += lanes) {
      auto sum = hn::Set(d, first_sum(T{}));
      for (std::int64_t t = 0; t < window.count; ++t)
        sum = hn::Add(sum, hn::Mul(load_samples(d, from + t * row + x), hn::Set(d, window.weights[t])));
      store_sums(d, sum, to + x);
    }
#endif
    for (; x < row; ++x) resize_sample(from + x, row, window, to + x);
  }
}

void resize_byte_rows(const std::uint8_t* in, std::int64_t rows, std::int64_t width, std::int64_t channels,
                      const ResizeTaps<std::uint8_t>& taps, std::uint8_t* out) {
  resize_rows_of(in, rows, width, channels, taps, out);
}
void resize_float_rows(const float* in, std::int64_t rows, std::int64_t width, std::int64_t channels,
                       const ResizeTaps<float>& taps, float* out) {
  resize_rows_of(in, rows, width, channels, taps, out);
}
void resize_byte_columns(const std::uint8_t* in, std::int64_t row, const ResizeTaps<std::uint8_t>& taps,
                         std::int64_t begin, std::int64_t end, std::uint8_t* out) {
  resize_columns_of(in, row, taps, begin, end, out);
}
void resize_float_columns(const float* in, std::int64_t row, const ResizeTaps<float>& taps, std::int64_t begin,
                          std::int64_t end, float* out) {
  resize_columns_of(in, row, taps, begin, end, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace karez::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
namespace {
HWY_EXPORT(resize_byte_rows);
HWY_EXPORT(resize_float_rows);
HWY_EXPORT(resize_byte_columns);
HWY_EXPORT(resize_float_columns);

template <class T>
void resize(const T* in, std::int64_t in_height, std::int64_t in_width, std::int64_t channels, T* out,
            std::int64_t out_height, std::int64_t out_width, bool bicubic) {
  const std::int64_t row = out_width * channels;
  if (in_height == out_height && in_width == out_width) {
    std::memcpy(out, in, static_cast<std::size_t>(out_height * row) * sizeof(T));
    return;
  }
  std::vector<T> rows;  // after the first pass
  if (in_width != out_width) {
    T* to = out;
    if (in_height != out_height) {
      rows.resize(static_cast<std::size_t>(in_height * row));
      to = rows.data();
    }
    resize_rows(in, in_height, in_width, channels, ResizeTaps<T>(resize_weights(in_width, out_width, bicubic)), to);
    in = to;
  }
  if (in_height != out_height)
    resize_columns(in, row, ResizeTaps<T>(resize_weights(in_height, out_height, bicubic)), 0, out_height, out);
}

}  // namespace

template <class T> ResizeTaps<T>::ResizeTaps(const ResizeWeights& exact) : bounds_(exact) {
  weights_.reserve(exact.weights.size());
  for (double weight : exact.weights)
    if constexpr (sizeof(T) == 1) weights_.push_back(fixed_resize_weight(weight));
    else weights_.push_back(static_cast<float>(weight));
  bounds_.weights.clear();
}
template class ResizeTaps<std::uint8_t>;
template class ResizeTaps<float>;

void resize_rows(const std::uint8_t* in, std::int64_t rows, std::int64_t width, std::int64_t channels,
                 const ResizeTaps<std::uint8_t>& taps, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(resize_byte_rows)(in, rows, width, channels, taps, out);
}
void resize_rows(const float* in, std::int64_t rows, std::int64_t width, std::int64_t channels,
                 const ResizeTaps<float>& taps, float* out) {
  HWY_DYNAMIC_DISPATCH(resize_float_rows)(in, rows, width, channels, taps, out);
}
void resize_columns(const std::uint8_t* in, std::int64_t row, const ResizeTaps<std::uint8_t>& taps, std::int64_t begin,
                    std::int64_t end, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(resize_byte_columns)(in, row, taps, begin, end, out);
}
void resize_columns(const float* in, std::int64_t row, const ResizeTaps<float>& taps, std::int64_t begin,
                    std::int64_t end, float* out) {
  HWY_DYNAMIC_DISPATCH(resize_float_columns)(in, row, taps, begin, end, out);
}

void resize_image(const std::uint8_t* in, std::int64_t in_height, std::int64_t in_width, std::int64_t channels,
                  std::uint8_t* out, std::int64_t out_height, std::int64_t out_width, bool bicubic) {
  resize(in, in_height, in_width, channels, out, out_height, out_width, bicubic);
}
void resize_floats(const float* in, std::int64_t in_height, std::int64_t in_width, std::int64_t channels, float* out,
                   std::int64_t out_height, std::int64_t out_width, bool bicubic) {
  resize(in, in_height, in_width, channels, out, out_height, out_width, bicubic);
}

}  // namespace karez::kernels
#endif
