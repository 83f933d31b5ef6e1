// Functions of pointwise kernels on one vector of lanes, and the loop of the generated kernels. Highway compiles the
// files that use this header once for each instruction set, by including them repeatedly. So this header has a toggle
// instead of #pragma once, and its code is in a namespace named after the instruction set.
#if defined(KAREZ_POINTWISE_LANES) == defined(HWY_TARGET_TOGGLE)
#ifdef KAREZ_POINTWISE_LANES
#undef KAREZ_POINTWISE_LANES
#else
#define KAREZ_POINTWISE_LANES
#endif

#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "karez/kernels/namespace.h"

HWY_BEFORE_NAMESPACE();
namespace karez::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;   // a vector of floats
using M = hn::Mask<D>;  // a vector of truth values
inline constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(D()));

HWY_INLINE V lanes_of(float value) { return hn::Set(D(), value); }

// Vectors of f64 run the same functions, except those whose polynomials have only the accuracy of f32.
using D64 = hn::ScalableTag<double>;
using V64 = hn::Vec<D64>;

template <class X> using ElementOf = hn::TFromD<hn::DFromV<X>>;
template <class X> HWY_INLINE X all_lanes(double value) {
  return hn::Set(hn::DFromV<X>(), static_cast<ElementOf<X>>(value));
}

// Applies a scalar function of two arguments lane by lane.
template <class F, class X> HWY_INLINE X lane_by_lane(F f, X x, X y) {
  const hn::DFromV<X> d;
  constexpr std::size_t width = hn::MaxLanes(hn::DFromV<X>());
  HWY_ALIGN ElementOf<X> a[width];
  HWY_ALIGN ElementOf<X> b[width];
  hn::Store(x, d, a);
  hn::Store(y, d, b);
  for (std::size_t i = 0; i < width; ++i) a[i] = f(a[i], b[i]);
  return hn::Load(d, a);
}

// The errors stated below are the largest that were measured over ten million floats from all binades. Cases that
// Highway's functions do not define (NaN, infinities, large arguments) are handled here. The result of an element does
// not depend on other elements.

// Error: 1 ulp. The result is inf from 88.73 on, or for f64 from 709.79 on.
template <class X> HWY_INLINE X exp_of(X x) {
  const X y = hn::Exp(hn::DFromV<X>(), hn::Min(x, all_lanes<X>(sizeof(ElementOf<X>) == sizeof(float) ? 104 : 1000)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}
#if HWY_TARGET == HWY_AVX3
// As above, in half of the instructions: x = n log 2 + r, and an instruction multiplies by 2^n. The polynomial is that
// of Highway. If an operand is NaN, the instructions for the minimum and the maximum return the second one.
HWY_INLINE V exp_of(V x) {
  const V bounded = hn::Max(lanes_of(-104), hn::Min(lanes_of(104), x));
  const V n = hn::Round(hn::Mul(bounded, lanes_of(1.442695040888963407f)));
  const V r = hn::MulAdd(n, lanes_of(-1.428606765330187045e-6f), hn::MulAdd(n, lanes_of(-0.693145751953125f), bounded));
  V p = lanes_of(0.000198527617612853646278381f);
  p = hn::MulAdd(p, r, lanes_of(0.00139304355252534151077271f));
  p = hn::MulAdd(p, r, lanes_of(0.00833336077630519866943359f));
  p = hn::MulAdd(p, r, lanes_of(0.0416664853692054748535156f));
  p = hn::MulAdd(p, r, lanes_of(0.166666671633720397949219f));
  p = hn::MulAdd(p, r, lanes_of(0.5f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), lanes_of(1));
  return V{_mm512_scalef_ps(p.raw, n.raw)};
}
#endif
// Error: 1 ulp. The result is -inf for both zeros and NaN for negative x.
template <class X> HWY_INLINE X log_of(X x) {
  const hn::DFromV<X> d;
  const X zero = hn::Zero(d), inf = all_lanes<X>(std::numeric_limits<double>::infinity());
  X pole = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(inf), all_lanes<X>(std::numeric_limits<double>::quiet_NaN()));
  X y = hn::IfThenElse(hn::Gt(x, zero), hn::Log(d, x), pole);
  return hn::IfThenElse(hn::Eq(x, inf), inf, y);
}
// Error: 3 ulp.
template <class X> HWY_INLINE X tanh_of(X x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(hn::DFromV<X>(), x)); }
template <class X> HWY_INLINE X sqrt_of(X x) { return hn::Sqrt(x); }
template <class X> HWY_INLINE X rsqrt_of(X x) { return hn::Div(all_lanes<X>(1), hn::Sqrt(x)); }
template <class X> HWY_INLINE X abs_of(X x) { return hn::Abs(x); }
// Error: 3 ulp. The argument of the exponential is negative, so it never overflows, and small results keep all digits.
template <class X> HWY_INLINE X sigmoid_of(X x) {
  const X one = all_lanes<X>(1), e = exp_of(hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(hn::DFromV<X>())), e, one), hn::Add(one, e));
}
// Error: 3 ulp of 1 for |x| up to 39000. For larger arguments, where Highway's reduction by pi loses bits, the C
// library is used.
template <class X> HWY_INLINE X sin_of(X x) {
  const hn::DFromV<X> d;
  X y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, hn::Sin(d, x));  // -0 remains -0
  const auto in_range = hn::Le(hn::Abs(x), all_lanes<X>(39000));
  if (HWY_LIKELY(hn::AllTrue(d, in_range))) return y;
  return hn::IfThenElse(in_range, y, lane_by_lane([](auto a, auto) { return std::sin(a); }, x, x));
}
template <class X> HWY_INLINE X cos_of(X x) {
  const hn::DFromV<X> d;
  X y = hn::Cos(d, x);
  const auto in_range = hn::Le(hn::Abs(x), all_lanes<X>(39000));
  if (HWY_LIKELY(hn::AllTrue(d, in_range))) return y;
  return hn::IfThenElse(in_range, y, lane_by_lane([](auto a, auto) { return std::cos(a); }, x, x));
}
// Uses the C library, because exp(y log x) in f32 would lose one digit for each digit of the exponent.
template <class X> HWY_INLINE X pow_of(X x, X y) {
  return lane_by_lane([](auto a, auto b) { return std::pow(a, b); }, x, y);
}
// Uses the C library, which is exact.
template <class X> HWY_INLINE X fmod_of(X x, X y) {
  return lane_by_lane([](auto a, auto b) { return std::fmod(a, b); }, x, y);
}
// Error: 1.2 ulp. If |x| <= 1, computes x + x P(x^2); otherwise 1 - exp(-t Q(t)) with t = |x|, which rounds to 1 from t
// = 4 on. P and Q are minimax polynomials of degree 6 and 5; before rounding, the results differ from erf by at most
// 1.3e-9 and 3.1e-9.
HWY_INLINE V erf_of(V x) {
  const V one = lanes_of(1);
  V s = hn::Mul(x, x), t = hn::Min(hn::Abs(x), lanes_of(4.2f));
  V p = lanes_of(7.85385345807299e-05f);
  p = hn::MulAdd(p, s, lanes_of(-0.000801019137725234f));
  p = hn::MulAdd(p, s, lanes_of(0.00518832728266716f));
  p = hn::MulAdd(p, s, lanes_of(-0.026853810995817184f));
  p = hn::MulAdd(p, s, lanes_of(0.1128358542919159f));
  p = hn::MulAdd(p, s, lanes_of(-0.3761262595653534f));
  p = hn::MulAdd(p, s, lanes_of(0.12837916612625122f));
  p = hn::MulAdd(p, x, x);
  V q = lanes_of(-0.0002145971666323021f);
  q = hn::MulAdd(q, t, lanes_of(0.00321999192237854f));
  q = hn::MulAdd(q, t, lanes_of(-0.02290607988834381f));
  q = hn::MulAdd(q, t, lanes_of(0.10528692603111267f));
  q = hn::MulAdd(q, t, lanes_of(0.6356993317604065f));
  q = hn::MulAdd(q, t, lanes_of(1.1285200119018555f));
  V upper = hn::CopySign(hn::Sub(one, hn::Exp(D(), hn::Neg(hn::Mul(q, t)))), x);
  V y = hn::IfThenElse(hn::Le(hn::Abs(x), one), p, upper);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// The normal distribution function. Error: 6 ulp. With a = |x| and t = 2 / (2 + a / sqrt(2)), the tail below -a is t
// exp(-a^2 / 2 + P(t)) / 2, where P is that of erfcc in Numerical Recipes, chapter 6.2 (error 1.2e-7). The factor 1 +
// `rounding_error` corrects the rounding errors of the exponent.
HWY_INLINE V phi_of(V x) {
  const V one = lanes_of(1), half = lanes_of(0.5f), a = hn::Min(hn::Abs(x), lanes_of(20));
  const V t = hn::Div(lanes_of(2), hn::MulAdd(a, lanes_of(0.70710678118654752f), lanes_of(2)));
  V p = lanes_of(0.17087277f);
  p = hn::MulAdd(p, t, lanes_of(-0.82215223f));
  p = hn::MulAdd(p, t, lanes_of(1.48851587f));
  p = hn::MulAdd(p, t, lanes_of(-1.13520398f));
  p = hn::MulAdd(p, t, lanes_of(0.27886807f));
  p = hn::MulAdd(p, t, lanes_of(-0.18628806f));
  p = hn::MulAdd(p, t, lanes_of(0.09678418f));
  p = hn::MulAdd(p, t, lanes_of(0.37409196f));
  p = hn::MulAdd(p, t, lanes_of(1.00002368f));
  p = hn::MulAdd(p, t, lanes_of(-1.26551223f));
  const V square = hn::Mul(a, a), half_square = hn::Mul(square, lanes_of(-0.5f)), exponent = hn::Add(half_square, p);
  const V rounding_error = hn::NegMulAdd(hn::MulSub(a, a, square), half, hn::Sub(p, hn::Sub(exponent, half_square)));
  const V e = hn::Mul(hn::Mul(half, t), hn::Exp(D(), exponent)), tail = hn::MulAdd(e, rounding_error, e);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::Gt(x, hn::Zero(D())), hn::Sub(one, tail), tail));
}
HWY_INLINE V64 erf_of(V64 x) {
  return lane_by_lane([](double a, double) { return std::erf(a); }, x, x);
}
HWY_INLINE V64 phi_of(V64 x) {
  return lane_by_lane([](double a, double) { return std::erfc(a * -0.7071067811865476) / 2; }, x, x);
}

// As in karez/base/ieee_min_max.h, a NaN in either operand is propagated, and +0 is greater than -0. (The instructions
// propagate NaN from only one of the operands.) The bits of equal operands are combined, because they can differ only
// in the sign of a zero.
template <class X> HWY_INLINE X max_of(X x, X y) {
  const X unequal = hn::IfThenElse(hn::Or(hn::Gt(x, y), hn::IsNaN(x)), x, y);
  return hn::IfThenElse(hn::Eq(x, y), hn::And(x, y), unequal);
}
template <class X> HWY_INLINE X min_of(X x, X y) {
  const X unequal = hn::IfThenElse(hn::Or(hn::Lt(x, y), hn::IsNaN(x)), x, y);
  return hn::IfThenElse(hn::Eq(x, y), hn::Or(x, y), unequal);
}
#if HWY_TARGET == HWY_AVX3
// An instruction distinguishes the zeros, but ignores a NaN, which the sum of the operands propagates.
HWY_INLINE V max_of(V x, V y) {
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x.raw, y.raw, _CMP_UNORD_Q);
  return V{_mm512_mask_add_ps(_mm512_range_ps(x.raw, y.raw, 5), is_nan, x.raw, y.raw)};
}
HWY_INLINE V min_of(V x, V y) {
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x.raw, y.raw, _CMP_UNORD_Q);
  return V{_mm512_mask_add_ps(_mm512_range_ps(x.raw, y.raw, 4), is_nan, x.raw, y.raw)};
}
#endif
// NaN differs from everything, including itself; Highway's Ne returns false for it on x86.
template <class X> HWY_INLINE auto ne_of(X x, X y) { return hn::Not(hn::Eq(x, y)); }
HWY_INLINE V select_of(M c, V x, V y) { return hn::IfThenElse(c, x, y); }

// Bools are bytes in memory and masks in registers.
template <class T> inline constexpr std::int64_t bytes_per_lane = sizeof(float);
template <> inline constexpr std::int64_t bytes_per_lane<M> = 1;

template <class T> HWY_INLINE T load_lanes(const unsigned char* from, std::int64_t i);
template <> HWY_INLINE V load_lanes<V>(const unsigned char* from, std::int64_t i) {
  return hn::LoadU(D(), reinterpret_cast<const float*>(from) + i);
}
template <> HWY_INLINE M load_lanes<M>(const unsigned char* from, std::int64_t i) {
  const hn::Rebind<std::int32_t, D> words;
  const hn::Rebind<std::uint8_t, D> bytes;
  return hn::RebindMask(D(), hn::Ne(hn::PromoteTo(words, hn::LoadU(bytes, from + i)), hn::Zero(words)));
}
HWY_INLINE void store_lanes(V x, unsigned char* to, std::int64_t i) {
  hn::StoreU(x, D(), reinterpret_cast<float*>(to) + i);
}
HWY_INLINE void store_lanes(M x, unsigned char* to, std::int64_t i) {
  const hn::Rebind<std::int32_t, D> words;
  const hn::Rebind<std::uint8_t, D> bytes;
  hn::StoreU(hn::DemoteTo(bytes, hn::IfThenElseZero(hn::RebindMask(words, x), hn::Set(words, 1))), bytes, to + i);
}

// Computes elements begin to end - 1 in full vectors. The step of an array is -1 (all bits set). A scalar has step 0,
// and its entry of `from` points to copies of it, so that one loop handles all cases; the AND with the step takes no
// extra time compared with the loads. The function is not inlined, so that a single loop computes every element and
// equal operands give bit-identical results, wherever the range starts.
template <class E, class Result, class... Operand, std::size_t... I>
HWY_NOINLINE void run_vectors(const unsigned char* const* from, const std::int64_t* step, std::int64_t begin,
                              std::int64_t end, unsigned char* to, std::index_sequence<I...>) {
  const unsigned char* const p[] = {from[I]...};
  const std::int64_t s[] = {step[I]...};
  for (std::int64_t i = begin; i < end; i += lanes) store_lanes(E::at(load_lanes<Operand>(p[I], i & s[I])...), to, i);
}

// The pointer to E::at only provides the types of operands and result.
template <class E, class Result, class... Operand>
HWY_INLINE void run_range(Result (*)(Operand...), std::int64_t begin, std::int64_t end, const void* const* in,
                          const std::uint8_t* in_is_scalar, void* out) {
  constexpr std::size_t count = sizeof...(Operand);
  constexpr std::int64_t bytes[] = {bytes_per_lane<Operand>...};
  HWY_ALIGN unsigned char copies[count][static_cast<std::size_t>(lanes) * sizeof(float)];
  HWY_ALIGN unsigned char result[static_cast<std::size_t>(lanes) * sizeof(float)];
  const unsigned char* from[count];
  std::int64_t step[count];
  for (std::size_t k = 0; k < count; ++k) {
    from[k] = static_cast<const unsigned char*>(in[k]);
    step[k] = in_is_scalar[k] != 0 ? 0 : -1;
    if (step[k] != 0) continue;
    for (std::int64_t i = 0; i < lanes; ++i)
      std::memcpy(copies[k] + i * bytes[k], in[k], static_cast<std::size_t>(bytes[k]));
    from[k] = copies[k];
  }
  auto* to = static_cast<unsigned char*>(out);
  std::int64_t full_end = begin + (end - begin) / lanes * lanes, remaining = end - full_end;
  run_vectors<E, Result, Operand...>(from, step, begin, full_end, to, std::make_index_sequence<count>());
  if (remaining == 0) return;
  for (std::size_t k = 0; k < count; ++k) {
    if (step[k] == 0) continue;
    std::memset(copies[k], 0, sizeof copies[k]);
    std::memcpy(copies[k], from[k] + full_end * bytes[k], static_cast<std::size_t>(remaining * bytes[k]));
    from[k] = copies[k];
  }
  run_vectors<E, Result, Operand...>(from, step, 0, lanes, result, std::make_index_sequence<count>());
  std::memcpy(to + full_end * bytes_per_lane<Result>, result,
              static_cast<std::size_t>(remaining * bytes_per_lane<Result>));
}

template <class E>
void run(std::int64_t begin, std::int64_t end, const void* const* in, const std::uint8_t* in_is_scalar, void* out) {
  run_range<E>(&E::at, begin, end, in, in_is_scalar, out);
}

}  // namespace karez::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
