// Forward convolution with one input channel (the first layer on grey images) on channels-last data, with vectors along
// the output channels: 80 GFLOP/s on one core, compared with 43 GFLOP/s with oneDNN. oneDNN is faster with two or more
// input channels.
#include "karez/device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_conv.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/team.h"
#include "karez/kernels/cpu/window.h"

#ifndef KAREZ_HWY_CONV
#define KAREZ_HWY_CONV
namespace karez::kernels {

struct SingleChannelConv {
  std::int64_t n = 0, h = 0, w = 0, o = 0, p = 0, q = 0;
  SlidingWindow window;
  std::int64_t inside_from = 0, inside_to = 0;  // the output columns whose windows need no padding at the sides
  bool bias = false, relu = false, common = false;
};

}  // namespace karez::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace karez::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Computes `pixels` neighbouring windows of one row. Keeps `vectors` vectors of output channels per window in
// registers; the pragmas ensure this, because at -O2 GCC would keep the sums in memory. Weights are [r, s, o_padded].
// Taps above or below the image are skipped. Columns are checked only if `pixels` is 1; otherwise all must be inside
// the image. `common` tells the compiler that the kernel width is 3 and that the horizontal stride and dilation are 1.
template <int pixels, int vectors, bool common>
HWY_INLINE void window_block(const SingleChannelConv& f, const float* image, const float* weights,
                             std::int64_t o_padded, const float* bias, std::int64_t p, std::int64_t q,
                             std::int64_t channels, float* out) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum[pixels][vectors];
#pragma GCC unroll 2
  for (int v = 0; v < vectors; ++v) {
    const V start = bias != nullptr ? hn::LoadU(d, bias + v * lanes) : hn::Zero(d);
#pragma GCC unroll 8
    for (int i = 0; i < pixels; ++i) sum[i][v] = start;
  }
  const SlidingWindow& sliding = f.window;
  const std::int64_t left = sliding.column(q, 0), step = common ? 1 : sliding.stride_w;
  const std::int64_t width = common ? 3 : sliding.kernel_w, dilation = common ? 1 : sliding.dilation_w;
  for (std::int64_t r = 0; r < sliding.kernel_h; ++r) {
    const std::int64_t row = sliding.row(p, r);
    if (row < 0 || row >= f.h) continue;
#pragma GCC unroll 3
    for (std::int64_t s = 0; s < width; ++s) {
      const std::int64_t column = left + s * dilation;
      if (pixels == 1 && (column < 0 || column >= f.w)) continue;
      const float* x = image + row * f.w + column;
      const float* tap = weights + (r * width + s) * o_padded;
      V weight[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) weight[v] = hn::LoadU(d, tap + v * lanes);
#pragma GCC unroll 8
      for (int i = 0; i < pixels; ++i) {
        const V value = hn::Set(d, x[i * step]);
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) sum[i][v] = hn::MulAdd(value, weight[v], sum[i][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < pixels; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      // As in the plain ReLU, NaN remains NaN and -0 becomes +0.
      const V y = f.relu ? hn::IfThenElse(hn::Le(sum[i][v], hn::Zero(d)), hn::Zero(d), sum[i][v]) : sum[i][v];
      float* to = out + i * f.o + v * lanes;
      if ((v + 1) * lanes <= channels) hn::StoreU(y, d, to);
      else hn::BlendedStore(y, hn::FirstN(d, static_cast<std::size_t>(channels - v * lanes)), d, to);
    }
  }
}

template <int vectors, bool common>
HWY_INLINE void window_row(const SingleChannelConv& f, const float* image, const float* weights, std::int64_t o_padded,
                           const float* bias, std::int64_t p, std::int64_t channels, float* out) {
  constexpr int block_pixels = vectors == 1 ? 8 : 6;
  std::int64_t q = 0;
  for (; q < f.inside_from; ++q)
    window_block<1, vectors, common>(f, image, weights, o_padded, bias, p, q, channels, out + q * f.o);
  for (; q + block_pixels <= f.inside_to; q += block_pixels)
    window_block<block_pixels, vectors, common>(f, image, weights, o_padded, bias, p, q, channels, out + q * f.o);
  for (; q + 2 <= f.inside_to; q += 2)
    window_block<2, vectors, common>(f, image, weights, o_padded, bias, p, q, channels, out + q * f.o);
  for (; q < f.q; ++q)
    window_block<1, vectors, common>(f, image, weights, o_padded, bias, p, q, channels, out + q * f.o);
}

// Computes the rows of windows `from` to `to` - 1. Rows are numbered across all images of the batch.
void single_channel_conv_rows(const SingleChannelConv& f, const float* x, const float* weights, std::int64_t o_padded,
                              const float* bias, float* y, std::int64_t from, std::int64_t to) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  for (std::int64_t row = from; row < to; ++row) {
    const float* image = x + row / f.p * f.h * f.w;
    float* out = y + row * f.q * f.o;
    for (std::int64_t o = 0; o < f.o; o += 2 * lanes) {
      const float* block_bias = bias != nullptr ? bias + o : nullptr;
      const bool wide = f.o - o > lanes;
      const auto run = f.common ? (wide ? window_row<2, true> : window_row<1, true>)
                       : wide   ? window_row<2, false>
                                : window_row<1, false>;
      run(f, image, weights + o, o_padded, block_bias, row % f.p, f.o - o, out + o);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace karez::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
namespace {
HWY_EXPORT(single_channel_conv_rows);

constexpr std::int64_t grain = 65536;          // fewer multiply-adds are not worth a second thread
constexpr std::int64_t channel_multiple = 32;  // two of the widest vectors; weights and bias are padded to multiples

bool is_channels_last(const View& view) {
  return view.rank() == 4 && view.dtype == DType::f32 &&
         same_order(view.shape, view.strides, channels_last(view.shape));
}

bool supports(const CallSpec& call) {
  const bool bias = call.attrs.flag("bias", false);
  if (!has_operands(call, bias ? 3 : 2, 1) || !is_channels_last(call.in[0]) || !is_channels_last(call.out[0]))
    return false;
  const View &x = call.in[0], &w = call.in[1], &y = call.out[0];
  if (w.rank() != 4 || w.dtype != DType::f32 || x.count() == 0 || y.count() == 0 || w.count() == 0) return false;
  if (x.shape[1] != 1 || w.shape[1] != x.shape[1] || y.shape[1] != w.shape[0] || y.shape[0] != x.shape[0]) return false;
  if (bias && (call.in[2].dtype != DType::f32 || call.in[2].shape != Shape{w.shape[0]} || !call.in[2].contiguous()))
    return false;
  return window_of(call.attrs, w.shape[2], w.shape[3]).fits(x.shape, y.shape);
}

std::int64_t workspace(const CallSpec& call) {
  const View& w = call.in[1];
  return round_up(w.shape[0], channel_multiple) * (w.shape[2] * w.shape[3] + 1) * 4;
}

PreparedKernel prepare(const CallSpec& call) {
  const View &x = call.in[0], &w = call.in[1], &y = call.out[0];
  SingleChannelConv f;
  f.n = x.shape[0], f.h = x.shape[2], f.w = x.shape[3], f.o = y.shape[1], f.p = y.shape[2], f.q = y.shape[3];
  f.window = window_of(call.attrs, w.shape[2], w.shape[3]);
  f.bias = call.attrs.flag("bias", false), f.relu = call.attrs.flag("relu", false);
  f.common = f.window.kernel_w == 3 && f.window.stride_w == 1 && f.window.dilation_w == 1;
  while (f.inside_from < f.q && f.window.column(f.inside_from, 0) < 0) ++f.inside_from;
  f.inside_to = f.inside_from;
  while (f.inside_to < f.q && f.window.column(f.inside_to, f.window.kernel_w - 1) < f.w) ++f.inside_to;
  const std::int64_t o_padded = round_up(f.o, channel_multiple),
                     rows_grain = grain / std::max<std::int64_t>(w.shape[2] * w.shape[3] * f.o * f.q, 1);
  return [f, o_padded, weight_strides = w.strides, team = call.team, rows_grain](const KernelArgs& args) {
    // Copies the weights, which are a few hundred numbers, to [r, s, o], and pads the channels with zeros.
    float* weights = elements<float>(args.workspace);
    const float* source = elements<float>(args.in[1]);
    float* to = weights;
    for (std::int64_t r = 0; r < f.window.kernel_h; ++r)
      for (std::int64_t s = 0; s < f.window.kernel_w; ++s)
        for (std::int64_t o = 0; o < o_padded; ++o)
          *to++ = o < f.o ? source[o * weight_strides[0] + r * weight_strides[2] + s * weight_strides[3]] : 0.0f;
    if (f.bias) {
      std::fill(to, to + o_padded, 0.0f);
      std::copy_n(elements<float>(args.in[2]), f.o, to);
    }
    const float* bias = f.bias ? to : nullptr;
    parallel_for(team, f.n * f.p, rows_grain, [&](std::int64_t from, std::int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(single_channel_conv_rows)
      (f, elements<float>(args.in[0]), weights, o_padded, bias, elements<float>(args.out[0]), from, end);
    });
  };
}

}  // namespace

std::vector<KernelRow> hwy_conv_rows() {
  KernelRow row;
  row.name = "hwy.conv2d";
  row.op = "conv2d";
  row.rank = 20;  // above the rank of oneDNN's row
  row.supports = supports;
  row.workspace = workspace;
  row.prepare = prepare;
  return {row};
}

}  // namespace karez::kernels
#endif
