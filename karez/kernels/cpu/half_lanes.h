// Conversions of vectors between f32 and 16-bit floats, and the exponential of the latter. As pointwise_lanes.h, this
// header is included once for each instruction set.
#if defined(KAREZ_HALF_LANES) == defined(HWY_TARGET_TOGGLE)
#ifdef KAREZ_HALF_LANES
#undef KAREZ_HALF_LANES
#else
#define KAREZ_HALF_LANES
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "karez/kernels/cpu/pointwise_lanes.h"
#include "karez/kernels/namespace.h"

HWY_BEFORE_NAMESPACE();
namespace karez::kernels::HWY_NAMESPACE {

using HalfD = hn::Rebind<std::uint16_t, D>;  // a 16-bit value for each float of D
using HalfV = hn::Vec<HalfD>;

HWY_INLINE V widen_bf16_lanes(HalfV half) {
  const hn::RebindToUnsigned<D> bits;
  return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(bits, half)));
}

// Rounds to nearest, with ties to even, as tensor::Bf16 does.
HWY_INLINE HalfV round_to_bf16_lanes(V x) {
  const hn::RebindToUnsigned<D> bits;
  const hn::RebindToSigned<D> words;
  const auto all = hn::BitCast(bits, x);
  const auto even = hn::And(hn::ShiftRight<16>(all), hn::Set(bits, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(all, hn::Add(even, hn::Set(bits, 0x7FFF))));
  const auto quiet_nan = hn::Or(hn::ShiftRight<16>(all), hn::Set(bits, 0x40));
  const auto nan = hn::RebindMask(bits, ne_of(x, x));
  return hn::DemoteTo(HalfD(), hn::BitCast(words, hn::IfThenElse(nan, quiet_nan, rounded)));
}

// Converts as tensor::F16 does, which keeps signalling NaNs. The instruction makes them quiet, as most operations do.
template <bool keeps_signalling_nan = false> HWY_INLINE V widen_f16_lanes(HalfV half) {
  const D d;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const V x = hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
  if (!keeps_signalling_nan || HWY_LIKELY(hn::AllFalse(d, hn::IsNaN(x)))) return x;
#endif
  const hn::RebindToUnsigned<D> bits;
  const auto word = hn::PromoteTo(bits, half);
  const auto sign = hn::ShiftLeft<16>(hn::And(word, hn::Set(bits, 0x8000)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(word, hn::Set(bits, 0x7FFF)));
  const auto normal = hn::Add(magnitude, hn::Set(bits, 112u << 23));
  const auto smallest_normal = hn::Set(bits, 113u << 23);  // the bits of 2^-14
  const auto subnormal =
      hn::BitCast(bits, hn::Sub(hn::BitCast(d, hn::Add(magnitude, smallest_normal)), hn::BitCast(d, smallest_normal)));
  const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(bits, 1u << 23)), subnormal, normal);
  const auto nonfinite = hn::Or(magnitude, hn::Set(bits, 0x7F800000));
  return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(hn::Lt(magnitude, hn::Set(bits, 31u << 23)), finite, nonfinite)));
}

// Rounds to nearest, with ties to even, as tensor::F16 does.
HWY_INLINE HalfV round_to_f16_lanes(V x) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::BitCast(HalfD(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), x));
#else
  const D d;
  const hn::RebindToUnsigned<D> bits;
  const hn::RebindToSigned<D> words;
  const auto all = hn::BitCast(bits, x);
  const auto magnitude = hn::And(all, hn::Set(bits, 0x7FFFFFFF));
  const auto sign = hn::ShiftRight<16>(hn::Xor(all, magnitude));
  const auto even = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(bits, 1));
  const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, even), hn::Set(bits, 0xFFF - (112u << 23))));
  // The sum with 0.5 is rounded to a multiple of 2^-24, which is the distance of the subnormal numbers.
  const auto half = hn::BitCast(bits, hn::Set(d, 0.5f));
  const auto subnormal = hn::Sub(hn::BitCast(bits, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f))), half);
  const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(bits, 113u << 23)), subnormal, normal);
  const auto nan = hn::Or(hn::And(hn::ShiftRight<13>(magnitude), hn::Set(bits, 0x3FF)), hn::Set(bits, 0x7E00));
  const auto nonfinite = hn::IfThenElse(hn::Gt(magnitude, hn::Set(bits, 255u << 23)), nan, hn::Set(bits, 0x7C00));
  const auto out = hn::IfThenElse(hn::Lt(magnitude, hn::Set(bits, 143u << 23)), finite, nonfinite);  // below 2^16
  return hn::DemoteTo(HalfD(), hn::BitCast(words, hn::Or(out, sign)));
#endif
}

// The exponential of values that were f16, for a result that is rounded to f16. Each of the 65536 values gives the same
// f16 as exp_of, in fewer operations: within the range in which the result is neither 0 nor inf, 2^q is one addition to
// the exponent, and adding `rounder` rounds to an integer q, whose bits are the lowest ones of the sum.
HWY_INLINE V exp_of_f16(V x) {
  const D d;
  const hn::RebindToSigned<D> words;
  const V rounder = lanes_of(12582912);  // 1.5 * 2^23
  const V clamped = hn::Max(hn::Min(x, lanes_of(12)), lanes_of(-20));
  const V sum = hn::MulAdd(clamped, lanes_of(1.442695040888963407359924681f), rounder), q = hn::Sub(sum, rounder);
  // r = x - q log 2, and the polynomial of hn::Exp
  const V r = hn::MulAdd(q, lanes_of(-1.428606765330187045e-6f), hn::MulAdd(q, lanes_of(-0.693145751953125f), clamped));
  const V r2 = hn::Mul(r, r), r4 = hn::Mul(r2, r2);
  const V p0 = hn::MulAdd(lanes_of(0.166666671633720397949219f), r, lanes_of(0.5f));
  const V p1 = hn::MulAdd(lanes_of(0.00833336077630519866943359f), r, lanes_of(0.0416664853692054748535156f));
  const V p2 = hn::MulAdd(lanes_of(0.000198527617612853646278381f), r, lanes_of(0.00139304355252534151077271f));
  const V y = hn::Add(hn::MulAdd(hn::MulAdd(p2, r4, hn::MulAdd(p1, r2, p0)), r2, r), lanes_of(1));
  const auto scaled = hn::Add(hn::BitCast(words, y), hn::ShiftLeft<23>(hn::BitCast(words, sum)));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::BitCast(d, scaled));
}

}  // namespace karez::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
