// Kernels along one axis: arg_max and cumsum.
#include "karez/device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_axis.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "karez/kernels/cpu/axis_slices.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/half_lanes.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/pointwise_block.h"
#include "karez/kernels/cpu/pointwise_lanes.h"

#ifndef KAREZ_HWY_AXIS
#define KAREZ_HWY_AXIS
namespace karez::kernels {

constexpr std::int64_t column_block = 512;  // neighbouring slices that are processed together

// The slices of one block: element i of slice r of x is x[r * x_next + i * x_step].
template <class T, class R> struct SliceBlock {
  const T* x;
  R* y;
  std::int64_t count, slices, x_step, x_next, y_step, y_next;
};

}  // namespace karez::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace karez::kernels::HWY_NAMESPACE {
namespace {

// The vectors in which elements are compared: of T, or of f32 if T is a half type.
template <class T> struct Compared {
  using Lane = T;
  using Tag = hn::ScalableTag<T>;
  static HWY_INLINE hn::Vec<Tag> load(const T* from) { return hn::LoadU(Tag(), from); }
};
template <> struct Compared<tensor::Bf16> {
  using Lane = float;
  using Tag = D;
  static HWY_INLINE V load(const tensor::Bf16* from) {
    return widen_bf16_lanes(hn::LoadU(HalfD(), reinterpret_cast<const std::uint16_t*>(from)));
  }
};
template <> struct Compared<tensor::F16> {
  using Lane = float;
  using Tag = D;
  static HWY_INLINE V load(const tensor::F16* from) {
    return widen_f16_lanes(hn::LoadU(HalfD(), reinterpret_cast<const std::uint16_t*>(from)));
  }
};

// Returns whether x replaces the earlier maximum: it is larger, or it is the first NaN.
template <class L> HWY_INLINE bool is_better(L x, L best) { return x > best || (x != x && best == best); }

template <class T> std::int64_t arg_max_of_row(const T* x, std::int64_t count) {
  using Lane = typename Compared<T>::Lane;
  const typename Compared<T>::Tag d;
  constexpr auto width = static_cast<std::int64_t>(hn::MaxLanes(typename Compared<T>::Tag()));
  constexpr std::int64_t chunk = 64 * width;
  constexpr bool is_real = std::is_floating_point_v<Lane>;
  const auto first_from = [&](std::int64_t i, auto matches) HWY_ATTR {
    while (!matches(static_cast<Lane>(x[i]))) ++i;
    return i;
  };
  Lane best = static_cast<Lane>(x[0]);
  std::int64_t best_chunk = 0, i = 0;
  if (best != best) return 0;
  for (; i + width <= count;) {
    const std::int64_t begin = i, end = std::min(count, begin + chunk);
    auto a = hn::Set(d, best), b = a;
    auto nan = hn::Ne(a, a);
    const auto join = [&](auto& largest, std::int64_t at) HWY_ATTR {
      const auto v = Compared<T>::load(x + at);
      largest = hn::Max(v, largest);
      if constexpr (is_real) nan = hn::Or(nan, hn::IsNaN(v));
    };
    for (; i + 2 * width <= end; i += 2 * width) {
      join(a, i);
      join(b, i + width);
    }
    for (; i + width <= end; i += width) join(a, i);
    if (is_real && !hn::AllFalse(d, nan)) return first_from(begin, [](Lane v) { return v != v; });
    HWY_ALIGN Lane lanes_of_max[static_cast<std::size_t>(width)];
    hn::Store(hn::Max(a, b), d, lanes_of_max);
    const Lane largest = *std::max_element(lanes_of_max, lanes_of_max + width);
    if (largest > best) best = largest, best_chunk = begin;
  }
  for (; i < count; ++i) {
    const auto v = static_cast<Lane>(x[i]);
    if (v != v) return i;
    if (v > best) best = v, best_chunk = i;
  }
  return first_from(best_chunk, [best](Lane v) { return v == best; });
}

// Keeps the largest elements of neighbouring slices in a block that stays in the cache, and visits x in memory order.
template <class T> void arg_max_of_columns(const SliceBlock<T, std::int64_t>& o) {
  using Lane = typename Compared<T>::Lane;
  const typename Compared<T>::Tag d;
  constexpr auto width = static_cast<std::int64_t>(hn::MaxLanes(typename Compared<T>::Tag()));
  HWY_ALIGN Lane best[column_block];
  for (std::int64_t c = 0; c < o.slices; ++c) best[c] = static_cast<Lane>(o.x[c]), o.y[c * o.y_next] = 0;
  for (std::int64_t i = 1; i < o.count; ++i) {
    const T* x = o.x + i * o.x_step;
    const auto update = [&](std::int64_t c) {
      const auto v = static_cast<Lane>(x[c]);
      if (is_better(v, best[c])) best[c] = v, o.y[c * o.y_next] = i;
    };
    std::int64_t c = 0;
    for (; c + width <= o.slices; c += width) {
      const auto v = Compared<T>::load(x + c);
      const auto old = hn::LoadU(d, best + c);
      auto better = hn::Gt(v, old);
      if constexpr (std::is_floating_point_v<Lane>) better = hn::Or(better, hn::AndNot(hn::IsNaN(old), hn::IsNaN(v)));
      if (HWY_LIKELY(hn::AllFalse(d, better))) continue;
      for (std::int64_t k = c; k < c + width; ++k) update(k);
    }
    for (; c < o.slices; ++c) update(c);
  }
}

template <class T> void arg_max_block(const SliceBlock<T, std::int64_t>& o) {
  if (o.x_step != 1) return arg_max_of_columns(o);
  for (std::int64_t r = 0; r < o.slices; ++r) o.y[r * o.y_next] = arg_max_of_row(o.x + r * o.x_next, o.count);
}

// Sums of T in the type of the plain row, so that the results have the same bits. The sums of four slices run at the
// same time, because an addition has a latency of several cycles.
template <class T> HWY_INLINE void sum_row(const SliceBlock<T, T>& o, std::int64_t slice) {
  const T* x = o.x + slice * o.x_next;
  T* y = o.y + slice * o.y_next;
  Wide<T> sum{};
  for (std::int64_t i = 0; i < o.count; ++i)
    y[i * o.y_step] = static_cast<T>(sum += static_cast<Wide<T>>(x[i * o.x_step]));
}
template <class T> HWY_INLINE void sum_four_rows(const SliceBlock<T, T>& o, std::int64_t slice) {
  const T *x0 = o.x + slice * o.x_next, *x1 = x0 + o.x_next, *x2 = x1 + o.x_next, *x3 = x2 + o.x_next;
  T *y0 = o.y + slice * o.y_next, *y1 = y0 + o.y_next, *y2 = y1 + o.y_next, *y3 = y2 + o.y_next;
  const std::int64_t from = o.x_step, to = o.y_step;
  Wide<T> a{}, b{}, c{}, d{};
  for (std::int64_t i = 0; i < o.count; ++i) {
    y0[i * to] = static_cast<T>(a += static_cast<Wide<T>>(x0[i * from]));
    y1[i * to] = static_cast<T>(b += static_cast<Wide<T>>(x1[i * from]));
    y2[i * to] = static_cast<T>(c += static_cast<Wide<T>>(x2[i * from]));
    y3[i * to] = static_cast<T>(d += static_cast<Wide<T>>(x3[i * from]));
  }
}

// Rounds to the neighbouring f32 with an odd last bit, unless x is an f32. Rounding the result to a half type is then
// the same as rounding x, because the last bit says that x is not the midpoint of two half numbers.
HWY_INLINE float round_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  const auto back = static_cast<double>(nearest);
  const std::uint32_t away = std::abs(back) > std::abs(x), inexact = back != x;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(nearest) - away) | inexact);
}

// Conversions of `count` numbers between T and double, in vectors; results are rounded to nearest once.
template <class T> HWY_INLINE void widen(const T* from, double* to, std::int64_t count) {
  constexpr auto width = static_cast<std::int64_t>(hn::MaxLanes(D64()));
  std::int64_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    for (; i + width <= count; i += width)
      hn::StoreU(hn::PromoteTo(D64(), hn::LoadU(hn::Rebind<float, D64>(), from + i)), D64(), to + i);
  } else {
    HWY_ALIGN float part[lanes];
    for (; i + lanes <= count; i += lanes) {
      hn::Store(Compared<T>::load(from + i), D(), part);
      for (std::int64_t k = 0; k < lanes; k += width)
        hn::StoreU(hn::PromoteTo(D64(), hn::LoadU(hn::Rebind<float, D64>(), part + k)), D64(), to + i + k);
    }
  }
  for (; i < count; ++i) to[i] = static_cast<double>(from[i]);
}
template <class T> HWY_INLINE void narrow(const double* from, T* to, std::int64_t count) {
  constexpr auto width = static_cast<std::int64_t>(hn::MaxLanes(D64()));
  std::int64_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    for (; i + width <= count; i += width) Lanes<double>::store(hn::LoadU(D64(), from + i), Storage::f32, to, i);
  } else {
    HWY_ALIGN float part[lanes];
    for (; i + lanes <= count; i += lanes) {
      for (std::int64_t k = 0; k < lanes; ++k) part[k] = round_to_odd(from[i + k]);
      const V x = hn::Load(D(), part);
      hn::StoreU(std::is_same_v<T, tensor::F16> ? round_to_f16_lanes(x) : round_to_bf16_lanes(x), HalfD(),
                 reinterpret_cast<std::uint16_t*>(to + i));
    }
  }
  for (; i < count; ++i) to[i] = static_cast<T>(from[i]);
}

// As sum_row, for `rows` contiguous slices in either direction. Blocks of them are copied, because slices that are a
// multiple of 4096 bytes apart compete for the same lines of the cache.
template <class T, int rows> HWY_INLINE void sum_float_rows(const SliceBlock<T, T>& o, std::int64_t slice) {
  constexpr std::int64_t block = 256;
  HWY_ALIGN double part[rows][block + 8];
  const bool reverse = o.x_step < 0;
  double a = 0, b = 0, c = 0, d = 0;
  for (std::int64_t i = 0; i < o.count; i += block) {
    const std::int64_t n = std::min(block, o.count - i), begin = reverse ? -(i + n - 1) : i;
    for (int r = 0; r < rows; ++r) widen(o.x + (slice + r) * o.x_next + begin, part[r], n);
    std::int64_t at = reverse ? n - 1 : 0;
    const std::int64_t step = reverse ? -1 : 1;
    for (std::int64_t k = 0; k < n; ++k, at += step) {
      part[0][at] = a += part[0][at];
      if constexpr (rows == 4) {
        part[1][at] = b += part[1][at];
        part[2][at] = c += part[2][at];
        part[3][at] = d += part[3][at];
      }
    }
    for (int r = 0; r < rows; ++r) narrow(part[r], o.y + (slice + r) * o.y_next + begin, n);
  }
}

// Keeps the sums of neighbouring slices in a block that stays in the cache, and visits x and y in memory order.
template <class T> void sum_columns(const SliceBlock<T, T>& o) {
  if constexpr (std::is_same_v<T, double> || std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<std::conditional_t<std::is_integral_v<T>, T, int>>;
    using Sum = std::conditional_t<std::is_integral_v<T>, Unsigned, double>;  // integers wrap around
    const hn::ScalableTag<Sum> d;
    const auto width = static_cast<std::int64_t>(hn::Lanes(d));
    HWY_ALIGN Sum sum[column_block] = {};
    for (std::int64_t i = 0; i < o.count; ++i) {
      const auto* x = reinterpret_cast<const Sum*>(o.x + i * o.x_step);
      auto* y = reinterpret_cast<Sum*>(o.y + i * o.y_step);
      std::int64_t c = 0;
      for (; c + width <= o.slices; c += width) {
        const auto total = hn::Add(hn::LoadU(d, sum + c), hn::LoadU(d, x + c));
        hn::StoreU(total, d, sum + c);
        hn::StoreU(total, d, y + c);
      }
      for (; c < o.slices; ++c) y[c] = sum[c] = static_cast<Sum>(sum[c] + x[c]);
    }
  } else {
    const D64 d;
    constexpr auto width = static_cast<std::int64_t>(hn::MaxLanes(D64()));
    HWY_ALIGN double sum[column_block] = {};
    HWY_ALIGN double terms[column_block];
    for (std::int64_t i = 0; i < o.count; ++i) {
      widen(o.x + i * o.x_step, terms, o.slices);
      std::int64_t c = 0;
      for (; c + width <= o.slices; c += width)
        hn::StoreU(hn::Add(hn::LoadU(d, sum + c), hn::LoadU(d, terms + c)), d, sum + c);
      for (; c < o.slices; ++c) sum[c] += terms[c];
      narrow(sum, o.y + i * o.y_step, o.slices);
    }
  }
}

template <class T> void cumsum_block(const SliceBlock<T, T>& o, bool columns) {
  if (columns) return sum_columns(o);
  std::int64_t r = 0;
  if constexpr (std::is_same_v<T, float> || tensor::is_half_type<T>) {
    if (std::abs(o.x_step) == 1 && o.y_step == o.x_step) {
      for (; r + 4 <= o.slices; r += 4) sum_float_rows<T, 4>(o, r);
      for (; r < o.slices; ++r) sum_float_rows<T, 1>(o, r);
    }
  }
  for (; r + 4 <= o.slices; r += 4) sum_four_rows(o, r);
  for (; r < o.slices; ++r) sum_row(o, r);
}

void arg_max_any(DType dtype, const SliceBlock<std::byte, std::int64_t>& o) {
  const auto run = [&]<class T>() HWY_ATTR {
    arg_max_block<T>({reinterpret_cast<const T*>(o.x), o.y, o.count, o.slices, o.x_step, o.x_next, o.y_step, o.y_next});
  };
  if (dtype == DType::b8) return run.template operator()<std::uint8_t>();  // bools are 0 and 1
  with_number(dtype, run);
}
void cumsum_any(DType dtype, const SliceBlock<std::byte, std::byte>& o, bool columns) {
  with_number(dtype, [&]<class T>() HWY_ATTR {
    cumsum_block<T>({reinterpret_cast<const T*>(o.x), reinterpret_cast<T*>(o.y), o.count, o.slices, o.x_step, o.x_next,
                     o.y_step, o.y_next},
                    columns);
  });
}

}  // namespace
}  // namespace karez::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
namespace {
HWY_EXPORT(arg_max_any);
HWY_EXPORT(cumsum_any);

// The operands of the slices are the result, in which the axis has one element, and x. Elements must be contiguous
// either along the axis or in the innermost other dimension.
std::optional<AxisSlices> arg_max_slices(const CallSpec& call) {
  if (!has_operands(call, 1, 1) || call.out[0].dtype != DType::i64 || !call.attrs.has("axis")) return std::nullopt;
  View result = call.out[0];
  const std::int64_t axis = call.attrs.integer("axis");
  if (axis < 0 || axis > result.rank()) return std::nullopt;
  result.shape.insert(result.shape.begin() + axis, 1);
  result.strides.insert(result.strides.begin() + axis, 0);
  auto slices = axis_slices({call.in[0], result}, axis);
  if (slices && slices->step[0] != 1 && slices->loops.step(0) != 1) return std::nullopt;
  return slices;
}

PreparedKernel arg_max(const CallSpec& call) {
  const auto slices = arg_max_slices(call);
  require_fit(slices.has_value(), call, "the fast kernel does not support these strides");
  return [slices = *slices, dtype = call.in[0].dtype, team = call.team](const KernelArgs& args) {
    for_each_slice_block(
        slices, team, slices.size[0], column_block, [&](const SliceOffsets& at, std::int64_t count, int) {
          HWY_DYNAMIC_DISPATCH(arg_max_any)
          (dtype, {args.in[0] + at[0] * size_of(dtype), elements<std::int64_t>(args.out[0]) + at[1], slices.size[0],
                   count, slices.step[0], slices.loops.step(0), slices.step[1], slices.loops.step(1)});
        });
  };
}

// The operands of the slices are the result and x.
std::optional<AxisSlices> cumsum_slices(const CallSpec& call) {
  if (!has_operands(call, 1, 1) || call.in[0].dtype == DType::b8 || call.in[0].dtype != call.out[0].dtype ||
      call.in[0].shape != call.out[0].shape || !call.attrs.has("axis"))
    return std::nullopt;
  return axis_slices({call.out[0], call.in[0]}, call.attrs.integer("axis"));
}

PreparedKernel cumsum(const CallSpec& call) {
  const auto slices = cumsum_slices(call);
  require_fit(slices.has_value(), call, "the fast kernel does not support these operands");
  const bool columns = slices->loops.step(0) == 1 && slices->loops.step(1) == 1 && slices->loops.inner() > 1;
  return [slices = *slices, dtype = call.in[0].dtype, columns, reverse = call.attrs.flag("reverse", false),
          team = call.team](const KernelArgs& args) {
    const std::int64_t bytes = size_of(dtype), count = slices.size[1], sign = reverse ? -1 : 1;
    const std::int64_t first = reverse ? count - 1 : 0;
    for_each_slice_block(slices, team, count, column_block, [&](const SliceOffsets& at, std::int64_t blocks, int) {
      HWY_DYNAMIC_DISPATCH(cumsum_any)
      (dtype,
       {args.in[0] + (at[1] + first * slices.step[1]) * bytes, args.out[0] + (at[0] + first * slices.step[0]) * bytes,
        count, blocks, sign * slices.step[1], slices.loops.step(1), sign * slices.step[0], slices.loops.step(0)},
       columns);
    });
  };
}

KernelRow row_of(std::string op, std::function<bool(const CallSpec&)> supports,
                 std::function<PreparedKernel(const CallSpec&)> prepare) {
  KernelRow row;
  row.name = cat("hwy.", op);
  row.op = std::move(op);
  row.rank = 10;
  row.supports = std::move(supports);
  row.prepare = std::move(prepare);
  return row;
}

}  // namespace

std::vector<KernelRow> hwy_axis_rows() {
  return {row_of(
              "arg_max", [](const CallSpec& call) { return arg_max_slices(call).has_value(); }, arg_max),
          row_of(
              "cumsum", [](const CallSpec& call) { return cumsum_slices(call).has_value(); }, cumsum)};
}

}  // namespace karez::kernels
#endif
