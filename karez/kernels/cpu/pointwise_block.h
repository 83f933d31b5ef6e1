// Runs one operation of a pointwise expression on blocks. As pointwise_lanes.h, this header is included once for each
// instruction set.
#if defined(KAREZ_POINTWISE_BLOCK) == defined(HWY_TARGET_TOGGLE)
#ifdef KAREZ_POINTWISE_BLOCK
#undef KAREZ_POINTWISE_BLOCK
#else
#define KAREZ_POINTWISE_BLOCK
#endif

#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "karez/kernels/cpu/half_lanes.h"
#include "karez/kernels/cpu/pointwise_block_op.h"
#include "karez/kernels/cpu/pointwise_lanes.h"

HWY_BEFORE_NAMESPACE();
namespace karez::kernels::HWY_NAMESPACE {

// Lambdas are inlined, so that each loop keeps its constants in registers.
#define KAREZ_INLINE HWY_ATTR __attribute__((always_inline))

// Vectors of T and their conversions from and to narrower types.
template <class T> struct Lanes;
template <> struct Lanes<float> {
  using Tag = D;
  template <bool copies> static HWY_INLINE V load(Storage storage, const void* from, std::int64_t i) {
    if (HWY_LIKELY(storage == Storage::computed)) return hn::LoadU(D(), static_cast<const float*>(from) + i);
    const HalfV half = hn::LoadU(HalfD(), static_cast<const std::uint16_t*>(from) + i);
    return storage == Storage::f16 ? widen_f16_lanes<copies>(half) : widen_bf16_lanes(half);
  }
  static HWY_INLINE void store(V x, Storage storage, void* to, std::int64_t i) {
    if (HWY_LIKELY(storage == Storage::computed)) return hn::StoreU(x, D(), static_cast<float*>(to) + i);
    hn::StoreU(storage == Storage::f16 ? round_to_f16_lanes(x) : round_to_bf16_lanes(x), HalfD(),
               static_cast<std::uint16_t*>(to) + i);
  }
};
template <> struct Lanes<double> {
  using Tag = hn::ScalableTag<double>;
  using Narrow = hn::Rebind<float, Tag>;
  template <bool copies> static HWY_INLINE hn::Vec<Tag> load(Storage storage, const void* from, std::int64_t i) {
    if (HWY_LIKELY(storage == Storage::computed)) return hn::LoadU(Tag(), static_cast<const double*>(from) + i);
    return hn::PromoteTo(Tag(), hn::LoadU(Narrow(), static_cast<const float*>(from) + i));
  }
  static HWY_INLINE void store(hn::Vec<Tag> x, Storage storage, void* to, std::int64_t i) {
    if (HWY_LIKELY(storage == Storage::computed)) return hn::StoreU(x, Tag(), static_cast<double*>(to) + i);
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128  // whose DemoteTo gives the largest f32 instead of infinity
    HWY_ALIGN double values[hn::MaxLanes(Tag())];
    hn::Store(x, Tag(), values);
    for (std::size_t k = 0; k < hn::MaxLanes(Tag()); ++k)
      static_cast<float*>(to)[i + static_cast<std::int64_t>(k)] = static_cast<float>(values[k]);
#else
    hn::StoreU(hn::DemoteTo(Narrow(), x), Narrow(), static_cast<float*>(to) + i);
#endif
  }
};

template <class T> HWY_INLINE std::int64_t bytes_of(Storage storage) {
  return storage == Storage::computed ? sizeof(T) : storage == Storage::f32 ? 4 : 2;
}

// Inputs may be in the caller's memory and end at `count`, so the last elements pass through a buffer of one vector.
template <class T, int operands, bool copies = false, class F>
HWY_INLINE void for_each_vector(const BlockOp& o, std::int64_t count, F f) {
  constexpr auto width = static_cast<std::int64_t>(hn::MaxLanes(typename Lanes<T>::Tag()));
  const Storage a_storage = o.a.storage, b_storage = o.b.storage, c_storage = o.c.storage, dst_storage = o.dst_storage;
  const auto apply_at = [&](Storage sa, Storage sb, Storage sc, Storage to, const void* x, const void* y, const void* z,
                            void* dst, std::int64_t i) KAREZ_INLINE {
    const auto a = Lanes<T>::template load<copies>(sa, x, i);
    const auto b = operands > 1 ? Lanes<T>::template load<copies>(sb, y, i) : a;
    const auto c = operands > 2 ? Lanes<T>::template load<copies>(sc, z, i) : a;
    Lanes<T>::store(f(a, b, c), to, dst, i);
  };
  std::int64_t i = 0;
  // The common combinations of storage have loops without branches.
  const auto loop = [&](auto sa, auto sb, auto to) KAREZ_INLINE {
    const void *const x = o.a.data, *const y = o.b.data, *const z = o.c.data;
    void* const dst = o.dst;
    for (; i + width <= count; i += width) apply_at(sa, sb, sb, to, x, y, z, dst, i);
  };
  const auto is = [&](Storage sa, Storage sb, Storage sc, Storage to) {
    return a_storage == sa && (operands < 2 || b_storage == sb) && (operands < 3 || c_storage == sc) &&
           dst_storage == to;
  };
  constexpr auto computed = std::integral_constant<Storage, Storage::computed>();
  constexpr auto f16 = std::integral_constant<Storage, Storage::f16>();
  constexpr auto bf16 = std::integral_constant<Storage, Storage::bf16>();
  if (is(computed, computed, computed, computed)) loop(computed, computed, computed);
  if constexpr (std::is_same_v<T, float> && operands < 3) {
    if (is(f16, f16, f16, f16)) loop(f16, f16, f16);
    if (is(bf16, bf16, bf16, bf16)) loop(bf16, bf16, bf16);
  }
  if constexpr (std::is_same_v<T, float> && operands == 2) {
    if (is(f16, computed, computed, f16)) loop(f16, computed, f16);
    if (is(bf16, computed, computed, bf16)) loop(bf16, computed, bf16);
  }
  if constexpr (std::is_same_v<T, float> && copies) {
    if (is(f16, f16, f16, computed)) loop(f16, f16, computed);
    if (is(bf16, bf16, bf16, computed)) loop(bf16, bf16, computed);
    if (is(computed, computed, computed, f16)) loop(computed, computed, f16);
    if (is(computed, computed, computed, bf16)) loop(computed, computed, bf16);
  }
  {
    const void *const x = o.a.data, *const y = o.b.data, *const z = o.c.data;
    void* const dst = o.dst;
    for (; i + width <= count; i += width) apply_at(a_storage, b_storage, c_storage, dst_storage, x, y, z, dst, i);
  }
  if (i >= count) return;
  HWY_ALIGN unsigned char tail[4][static_cast<std::size_t>(width) * sizeof(T)] = {};
  const BlockOperand from[] = {o.a, o.b, o.c};
  for (int k = 0; k < operands; ++k) {
    const std::int64_t bytes = bytes_of<T>(from[k].storage);
    std::memcpy(tail[k], static_cast<const unsigned char*>(from[k].data) + i * bytes,
                static_cast<std::size_t>((count - i) * bytes));
  }
  apply_at(a_storage, b_storage, c_storage, dst_storage, tail[0], tail[1], tail[2], tail[3], 0);
  const std::int64_t bytes = bytes_of<T>(dst_storage);
  std::memcpy(static_cast<unsigned char*>(o.dst) + i * bytes, tail[3], static_cast<std::size_t>((count - i) * bytes));
}

// Truth values are 0 and 1; NaN is true, because NaN != 0 is true.
template <class T> HWY_INLINE void run_block_of(const BlockOp& o, std::int64_t count) {
  using X = hn::Vec<typename Lanes<T>::Tag>;
  const typename Lanes<T>::Tag d;
  const auto truth = [d](auto mask) KAREZ_INLINE { return hn::IfThenElseZero(mask, hn::Set(d, T{1})); };
  const auto is_true = [d](X a) KAREZ_INLINE { return ne_of(a, hn::Zero(d)); };
  switch (o.op) {
    case ExprKind::constant:
    case ExprKind::variable: return for_each_vector<T, 1, true>(o, count, [=](X a, X, X) KAREZ_INLINE { return a; });
    case ExprKind::neg: return for_each_vector<T, 1>(o, count, [=](X a, X, X) KAREZ_INLINE { return hn::Neg(a); });
    case ExprKind::not_:
      return for_each_vector<T, 1>(o, count, [=](X a, X, X) KAREZ_INLINE { return truth(hn::Eq(a, hn::Zero(d))); });
    case ExprKind::exp:
      if constexpr (std::is_same_v<T, float>)
        if (o.a.storage == Storage::f16 && o.dst_storage == Storage::f16)
          return for_each_vector<T, 1>(o, count, [=](X a, X, X) KAREZ_INLINE { return exp_of_f16(a); });
      return for_each_vector<T, 1>(o, count, [=](X a, X, X) KAREZ_INLINE { return exp_of(a); });
    case ExprKind::log: return for_each_vector<T, 1>(o, count, [=](X a, X, X) KAREZ_INLINE { return log_of(a); });
    case ExprKind::sqrt: return for_each_vector<T, 1>(o, count, [=](X a, X, X) KAREZ_INLINE { return sqrt_of(a); });
    case ExprKind::rsqrt: return for_each_vector<T, 1>(o, count, [=](X a, X, X) KAREZ_INLINE { return rsqrt_of(a); });
    case ExprKind::tanh: return for_each_vector<T, 1>(o, count, [=](X a, X, X) KAREZ_INLINE { return tanh_of(a); });
    case ExprKind::sigmoid:
      return for_each_vector<T, 1>(o, count, [=](X a, X, X) KAREZ_INLINE { return sigmoid_of(a); });
    case ExprKind::erf: return for_each_vector<T, 1>(o, count, [=](X a, X, X) KAREZ_INLINE { return erf_of(a); });
    case ExprKind::phi: return for_each_vector<T, 1>(o, count, [=](X a, X, X) KAREZ_INLINE { return phi_of(a); });
    case ExprKind::abs: return for_each_vector<T, 1>(o, count, [=](X a, X, X) KAREZ_INLINE { return hn::Abs(a); });
    case ExprKind::sin: return for_each_vector<T, 1>(o, count, [=](X a, X, X) KAREZ_INLINE { return sin_of(a); });
    case ExprKind::cos: return for_each_vector<T, 1>(o, count, [=](X a, X, X) KAREZ_INLINE { return cos_of(a); });
    case ExprKind::add: return for_each_vector<T, 2>(o, count, [=](X a, X b, X) KAREZ_INLINE { return hn::Add(a, b); });
    case ExprKind::sub: return for_each_vector<T, 2>(o, count, [=](X a, X b, X) KAREZ_INLINE { return hn::Sub(a, b); });
    case ExprKind::mul: return for_each_vector<T, 2>(o, count, [=](X a, X b, X) KAREZ_INLINE { return hn::Mul(a, b); });
    case ExprKind::div: return for_each_vector<T, 2>(o, count, [=](X a, X b, X) KAREZ_INLINE { return hn::Div(a, b); });
    case ExprKind::lt:
      return for_each_vector<T, 2>(o, count, [=](X a, X b, X) KAREZ_INLINE { return truth(hn::Lt(a, b)); });
    case ExprKind::le:
      return for_each_vector<T, 2>(o, count, [=](X a, X b, X) KAREZ_INLINE { return truth(hn::Le(a, b)); });
    case ExprKind::gt:
      return for_each_vector<T, 2>(o, count, [=](X a, X b, X) KAREZ_INLINE { return truth(hn::Gt(a, b)); });
    case ExprKind::ge:
      return for_each_vector<T, 2>(o, count, [=](X a, X b, X) KAREZ_INLINE { return truth(hn::Ge(a, b)); });
    case ExprKind::eq:
      return for_each_vector<T, 2>(o, count, [=](X a, X b, X) KAREZ_INLINE { return truth(hn::Eq(a, b)); });
    case ExprKind::ne:
      return for_each_vector<T, 2>(o, count, [=](X a, X b, X) KAREZ_INLINE { return truth(ne_of(a, b)); });
    case ExprKind::and_:
      return for_each_vector<T, 2>(o, count,
                                   [=](X a, X b, X) KAREZ_INLINE { return truth(hn::And(is_true(a), is_true(b))); });
    case ExprKind::or_:
      return for_each_vector<T, 2>(o, count,
                                   [=](X a, X b, X) KAREZ_INLINE { return truth(hn::Or(is_true(a), is_true(b))); });
    case ExprKind::pow: return for_each_vector<T, 2>(o, count, [=](X a, X b, X) KAREZ_INLINE { return pow_of(a, b); });
    case ExprKind::max: return for_each_vector<T, 2>(o, count, [=](X a, X b, X) KAREZ_INLINE { return max_of(a, b); });
    case ExprKind::min: return for_each_vector<T, 2>(o, count, [=](X a, X b, X) KAREZ_INLINE { return min_of(a, b); });
    case ExprKind::fmod:
      return for_each_vector<T, 2>(o, count, [=](X a, X b, X) KAREZ_INLINE { return fmod_of(a, b); });
    case ExprKind::bit_and:
    case ExprKind::bit_or:
    case ExprKind::bit_xor: break;  // integer operations, which run on the plain kernel
    case ExprKind::select:
      return for_each_vector<T, 3>(o, count,
                                   [=](X a, X b, X c) KAREZ_INLINE { return hn::IfThenElse(is_true(a), b, c); });
  }
}

template <class T> HWY_INLINE void fill_rows_of(const T* values, std::int64_t rows, std::int64_t columns, T* out) {
  const typename Lanes<T>::Tag d;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto value = hn::Set(d, values[r]);
    for (std::int64_t i = 0; i < columns; i += static_cast<std::int64_t>(hn::MaxLanes(d)))
      hn::StoreU(value, d, out + r * columns + i);
  }
}

#undef KAREZ_INLINE

}  // namespace karez::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
