// Max pooling of f32 and its gradient on channels-last data, with vectors along the channels.
#include "karez/device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_pool.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/team.h"
#include "karez/kernels/cpu/window.h"

#ifndef KAREZ_HWY_POOL
#define KAREZ_HWY_POOL
namespace karez::kernels {

// One tap of a window: its number in the window, and the pixel on the other side of the pooling (the input in the
// forward direction, the output in the backward direction).
struct Tap {
  std::int64_t pixel;
  std::int32_t number;
};
// For each row (column) of one side, the taps along that dimension: taps[begin[i]] to taps[begin[i + 1] - 1].
struct Taps {
  std::vector<int> begin{0};
  std::vector<Tap> taps;
};
struct PoolPlan {
  std::int64_t n = 0, c = 0, h = 0, w = 0, p = 0, q = 0;  // x is [n, c, h, w], y is [n, c, p, q]
  std::int64_t kernel_h = 1, kernel_w = 1;
  bool tiles = false;  // windows without overlap, padding or gaps
  Taps rows, columns;  // forward: the taps of a window; backward: those of a pixel
};

}  // namespace karez::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace karez::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls body(c, load, load_int, store, store_int) along the channels, for full vectors and a masked tail.
template <class Body> HWY_INLINE void over_channels(std::int64_t channels, Body body) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<std::int32_t> di;
  using V = hn::Vec<decltype(d)>;
  using I = hn::Vec<decltype(di)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= channels; c += lanes)
    body(
        c, [d](const float* p) HWY_ATTR { return hn::LoadU(d, p); },
        [di](const std::int32_t* p) HWY_ATTR { return hn::LoadU(di, p); },
        [d](V v, float* p) HWY_ATTR { hn::StoreU(v, d, p); },
        [di](I v, std::int32_t* p) HWY_ATTR { hn::StoreU(v, di, p); });
  if (c == channels) return;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(channels - c));
  const auto mask_int = hn::FirstN(di, static_cast<std::size_t>(channels - c));
  body(
      c, [=](const float* p) HWY_ATTR { return hn::MaskedLoad(mask, d, p); },
      [=](const std::int32_t* p) HWY_ATTR { return hn::MaskedLoad(mask_int, di, p); },
      [=](V v, float* p) HWY_ATTR { hn::BlendedStore(v, mask, d, p); },
      [=](I v, std::int32_t* p) HWY_ATTR { hn::BlendedStore(v, mask_int, di, p); });
}

// Updates the running maximum and its tap. The first of equal values is kept, and NaN counts as larger than any number.
template <class D, class V, class I> HWY_INLINE void update_max(D, V value, std::int32_t tap, V& best, I& index) {
  const hn::RebindToSigned<D> di;
  const auto is_number = hn::Eq(value, value), best_is_number = hn::Eq(best, best);
  const auto replaces = hn::Or(hn::Gt(value, best), hn::AndNot(is_number, best_is_number));
  best = hn::IfThenElse(replaces, value, best);
  index = hn::IfThenElse(hn::RebindMask(di, replaces), hn::Set(di, tap), index);
}

// Computes the rows of windows `from` to `to` - 1. Rows are numbered across all images of the batch.
void max_pool_rows(const PoolPlan& plan, const float* x, float* y, std::int32_t* argmax, std::int64_t from,
                   std::int64_t to) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<std::int32_t> di;
  const std::int64_t c = plan.c;
  for (std::int64_t row = from; row < to; ++row) {
    const std::int64_t p = row % plan.p;
    const float* image = x + row / plan.p * plan.h * plan.w * c;
    for (std::int64_t q = 0; q < plan.q; ++q) {
      float* out = y + (row * plan.q + q) * c;
      std::int32_t* index = argmax + (row * plan.q + q) * c;
      if (plan.tiles && plan.kernel_h == 2 && plan.kernel_w == 2) {
        const float *top = image + (2 * p * plan.w + 2 * q) * c, *bottom = top + plan.w * c;
        over_channels(c, [&](std::int64_t i, auto load, auto, auto store, auto store_int) HWY_ATTR {
          auto best = load(top + i);
          auto tap = hn::Zero(di);
          update_max(d, load(top + c + i), 1, best, tap);
          update_max(d, load(bottom + i), 2, best, tap);
          update_max(d, load(bottom + c + i), 3, best, tap);
          store(best, out + i);
          store_int(tap, index + i);
        });
        continue;
      }
      over_channels(c, [&](std::int64_t i, auto load, auto, auto store, auto store_int) HWY_ATTR {
        auto best = hn::Set(d, -std::numeric_limits<float>::infinity());
        auto tap = hn::Set(di, -1);  // for a window that contains only padding
        for (int r = plan.rows.begin[static_cast<std::size_t>(p)]; r < plan.rows.begin[static_cast<std::size_t>(p) + 1];
             ++r)
          for (int s = plan.columns.begin[static_cast<std::size_t>(q)];
               s < plan.columns.begin[static_cast<std::size_t>(q) + 1]; ++s) {
            const Tap &row_tap = plan.rows.taps[static_cast<std::size_t>(r)],
                      &column_tap = plan.columns.taps[static_cast<std::size_t>(s)];
            const auto value = load(image + (row_tap.pixel * plan.w + column_tap.pixel) * c + i);
            const std::int32_t number = row_tap.number * static_cast<std::int32_t>(plan.kernel_w) + column_tap.number;
            // The first tap always replaces the initial value: it may be -inf, which is not larger.
            const auto first = hn::Lt(tap, hn::Zero(di));
            best = hn::IfThenElse(hn::RebindMask(d, first), value, best);
            tap = hn::IfThenElse(first, hn::Set(di, number), tap);
            update_max(d, value, number, best, tap);
          }
        store(best, out + i);
        store_int(tap, index + i);
      });
    }
  }
}

// For windows without overlap, padding or gaps: the maximum pixel of each window gets the window's gradient, and the
// other pixels get zero. Rows of windows are numbered as in max_pool_rows().
void max_pool_grad_tiles(const PoolPlan& plan, const float* dy, const std::int32_t* argmax, float* dx,
                         std::int64_t from, std::int64_t to) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<std::int32_t> di;
  const std::int64_t c = plan.c, line = plan.w * c;
  for (std::int64_t row = from; row < to; ++row) {
    const std::int64_t p = row % plan.p;
    float* image = dx + row / plan.p * plan.h * line;
    for (std::int64_t q = 0; q < plan.q; ++q) {
      const float* gradient = dy + (row * plan.q + q) * c;
      const std::int32_t* index = argmax + (row * plan.q + q) * c;
      float* corner = image + p * plan.kernel_h * line + q * plan.kernel_w * c;
      over_channels(c, [&](std::int64_t i, auto load, auto load_int, auto store, auto) HWY_ATTR {
        const auto g = load(gradient + i);
        const auto tap = load_int(index + i);
        for (std::int64_t r = 0; r < plan.kernel_h; ++r)
          for (std::int64_t s = 0; s < plan.kernel_w; ++s) {
            const auto is_maximum = hn::Eq(tap, hn::Set(di, static_cast<std::int32_t>(r * plan.kernel_w + s)));
            store(hn::IfThenElseZero(hn::RebindMask(d, is_maximum), g), corner + r * line + s * c + i);
          }
      });
    }
    // Sets the pixels outside all windows to zero: the end of each line, and the lines below the last window.
    const std::int64_t covered_width = plan.q * plan.kernel_w;
    for (std::int64_t r = 0; r < plan.kernel_h && covered_width < plan.w; ++r) {
      float* end = image + (p * plan.kernel_h + r) * line + covered_width * c;
      std::fill(end, end + (plan.w - covered_width) * c, 0.0f);
    }
    if (p + 1 == plan.p) std::fill(image + plan.p * plan.kernel_h * line, image + plan.h * line, 0.0f);
  }
}

// For any windows: computes the rows of pixels `from` to `to` - 1. The gradient of a pixel is the sum of the gradients
// of the windows in which it is the maximum.
void max_pool_grad_rows(const PoolPlan& plan, const float* dy, const std::int32_t* argmax, float* dx, std::int64_t from,
                        std::int64_t to) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<std::int32_t> di;
  const std::int64_t c = plan.c;
  for (std::int64_t row = from; row < to; ++row) {
    const auto h = static_cast<std::size_t>(row % plan.h);
    const std::int64_t image = row / plan.h * plan.p * plan.q;
    for (std::size_t w = 0; w < static_cast<std::size_t>(plan.w); ++w) {
      over_channels(c, [&](std::int64_t i, auto load, auto load_int, auto store, auto) HWY_ATTR {
        auto sum = hn::Zero(d);
        for (int r = plan.rows.begin[h]; r < plan.rows.begin[h + 1]; ++r)
          for (int s = plan.columns.begin[w]; s < plan.columns.begin[w + 1]; ++s) {
            const Tap &row_tap = plan.rows.taps[static_cast<std::size_t>(r)],
                      &column_tap = plan.columns.taps[static_cast<std::size_t>(s)];
            const std::int64_t at = (image + row_tap.pixel * plan.q + column_tap.pixel) * c + i;
            const auto number =
                hn::Set(di, row_tap.number * static_cast<std::int32_t>(plan.kernel_w) + column_tap.number);
            sum = hn::Add(sum,
                          hn::IfThenElseZero(hn::RebindMask(d, hn::Eq(load_int(argmax + at), number)), load(dy + at)));
          }
        store(sum, dx + (row * plan.w + static_cast<std::int64_t>(w)) * c + i);
      });
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace karez::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
namespace {
HWY_EXPORT(max_pool_rows);
HWY_EXPORT(max_pool_grad_tiles);
HWY_EXPORT(max_pool_grad_rows);

constexpr std::int64_t grain = 32768;  // fewer elements are not worth a second thread

bool is_channels_last(const View& view) {
  return view.rank() == 4 && same_order(view.shape, view.strides, channels_last(view.shape));
}

std::optional<SlidingWindow> window_for(const CallSpec& call, const View& x, const View& y) {
  const Ints& kernel = call.attrs.ints("kernel");
  if (kernel.size() != 2 || kernel[0] < 1 || kernel[1] < 1 || x.count() == 0 || y.count() == 0) return std::nullopt;
  if (x.shape[0] != y.shape[0] || x.shape[1] != y.shape[1]) return std::nullopt;
  const SlidingWindow window = window_of(call.attrs, kernel[0], kernel[1]);
  return window.fits(x.shape, y.shape) ? std::optional(window) : std::nullopt;
}

// Lists the taps of each position. find(i, r) returns the pixel on the other side at tap r of position i; pixels
// outside 0..bound-1 are skipped.
template <class Find> Taps taps_of(std::int64_t positions, std::int64_t kernel, std::int64_t bound, Find find) {
  Taps out;
  for (std::int64_t i = 0; i < positions; ++i) {
    for (std::int64_t r = 0; r < kernel; ++r)
      if (const std::int64_t pixel = find(i, r); pixel >= 0 && pixel < bound)
        out.taps.push_back({pixel, static_cast<std::int32_t>(r)});
    out.begin.push_back(static_cast<int>(out.taps.size()));
  }
  return out;
}

PoolPlan plan_of(const View& x, const View& y, const SlidingWindow& w) {
  PoolPlan out;
  out.n = x.shape[0], out.c = x.shape[1], out.h = x.shape[2], out.w = x.shape[3], out.p = y.shape[2],
  out.q = y.shape[3];
  out.kernel_h = w.kernel_h, out.kernel_w = w.kernel_w;
  out.tiles = w.stride_h == w.kernel_h && w.stride_w == w.kernel_w && w.pad_h == 0 && w.pad_w == 0 &&
              w.dilation_h == 1 && w.dilation_w == 1;
  return out;
}

bool supports_forward(const CallSpec& call) {
  return has_operands(call, 1, 2) && call.in[0].dtype == DType::f32 && call.out[0].dtype == DType::f32 &&
         call.out[1].dtype == DType::i32 && is_channels_last(call.in[0]) && is_channels_last(call.out[0]) &&
         is_channels_last(call.out[1]) && call.out[1].shape == call.out[0].shape &&
         window_for(call, call.in[0], call.out[0]).has_value();
}

bool supports_gradient(const CallSpec& call) {
  return has_operands(call, 2, 1) && call.in[0].dtype == DType::f32 && call.in[1].dtype == DType::i32 &&
         call.out[0].dtype == DType::f32 && is_channels_last(call.in[0]) && is_channels_last(call.in[1]) &&
         is_channels_last(call.out[0]) && call.in[1].shape == call.in[0].shape &&
         window_for(call, call.out[0], call.in[0]).has_value();
}

PreparedKernel max_pool(const CallSpec& call) {
  const auto window = window_for(call, call.in[0], call.out[0]);
  require_fit(window.has_value(), call, "the windows do not fit the shapes");
  PoolPlan pool_plan = plan_of(call.in[0], call.out[0], *window);
  pool_plan.rows = taps_of(pool_plan.p, window->kernel_h, pool_plan.h,
                           [&](std::int64_t p, std::int64_t r) { return window->row(p, r); });
  pool_plan.columns = taps_of(pool_plan.q, window->kernel_w, pool_plan.w,
                              [&](std::int64_t q, std::int64_t s) { return window->column(q, s); });
  return [plan = std::move(pool_plan), team = call.team](const KernelArgs& args) {
    parallel_for(team, plan.n * plan.p, std::max<std::int64_t>(grain / (plan.q * plan.c), 1),
                 [&](std::int64_t from, std::int64_t to, int) {
                   HWY_DYNAMIC_DISPATCH(max_pool_rows)
                   (plan, elements<float>(args.in[0]), elements<float>(args.out[0]),
                    elements<std::int32_t>(args.out[1]), from, to);
                 });
  };
}

PreparedKernel max_pool_grad(const CallSpec& call) {
  const auto window = window_for(call, call.out[0], call.in[0]);
  require_fit(window.has_value(), call, "the windows do not fit the shapes");
  PoolPlan pool_plan = plan_of(call.out[0], call.in[0], *window);
  pool_plan.rows = taps_of(pool_plan.h, window->kernel_h, pool_plan.p,
                           [&](std::int64_t h, std::int64_t r) { return window->output_row(h, r); });
  pool_plan.columns = taps_of(pool_plan.w, window->kernel_w, pool_plan.q,
                              [&](std::int64_t w, std::int64_t s) { return window->output_column(w, s); });
  return [plan = std::move(pool_plan), team = call.team](const KernelArgs& args) {
    const std::int64_t rows = plan.tiles ? plan.n * plan.p : plan.n * plan.h,
                       row = plan.h * plan.w * plan.c / (plan.tiles ? plan.p : plan.h);
    parallel_for(team, rows, std::max<std::int64_t>(grain / std::max<std::int64_t>(row, 1), 1),
                 [&](std::int64_t from, std::int64_t to, int) {
                   const float* dy = elements<float>(args.in[0]);
                   const auto* argmax = elements<std::int32_t>(args.in[1]);
                   if (plan.tiles) HWY_DYNAMIC_DISPATCH(max_pool_grad_tiles)
                   (plan, dy, argmax, elements<float>(args.out[0]), from, to);
                   else HWY_DYNAMIC_DISPATCH(max_pool_grad_rows)(plan, dy, argmax, elements<float>(args.out[0]), from,
                                                                 to);
                 });
  };
}

}  // namespace

std::vector<KernelRow> hwy_pool_rows() {
  KernelRow forward, backward;
  forward.name = "hwy.max_pool", forward.op = "max_pool", forward.rank = 10, forward.supports = supports_forward,
  forward.prepare = max_pool;
  backward.name = "hwy.max_pool_grad", backward.op = "max_pool_grad", backward.rank = 10,
  backward.supports = supports_gradient;
  backward.prepare = max_pool_grad;
  return {forward, backward};
}

}  // namespace karez::kernels
#endif
