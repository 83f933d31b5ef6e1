// Reductions of contiguous runs of elements to one number. As pointwise_lanes.h, this header is included once for each
// instruction set.
#if defined(KAREZ_ROW_REDUCTION_LANES) == defined(HWY_TARGET_TOGGLE)
#ifdef KAREZ_ROW_REDUCTION_LANES
#undef KAREZ_ROW_REDUCTION_LANES
#else
#define KAREZ_ROW_REDUCTION_LANES
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "karez/kernels/cpu/pointwise_lanes.h"
#include "karez/kernels/cpu/reduce_kind.h"
#include "karez/kernels/namespace.h"

HWY_BEFORE_NAMESPACE();
namespace karez::kernels::HWY_NAMESPACE {

template <class T> using TagOf = hn::ScalableTag<T>;
template <class T> using VecOf = hn::Vec<TagOf<T>>;

template <class Number> struct Sum {
  using T = Number;
  static constexpr T identity = 0;
  static HWY_INLINE VecOf<T> join(VecOf<T> a, VecOf<T> b) { return hn::Add(a, b); }
  static HWY_INLINE T reduce_lanes(VecOf<T> v) { return hn::GetLane(hn::SumOfLanes(TagOf<T>(), v)); }
};
// Returns whether any lane is the zero with this sign.
template <class T> HWY_INLINE bool has_zero(VecOf<T> v, bool negative) {
  const hn::RebindToSigned<TagOf<T>> words;
  const auto bits = hn::BitCast(words, hn::Set(TagOf<T>(), negative ? T{-0.0} : T{0.0}));
  return !hn::AllFalse(words, hn::Eq(hn::BitCast(words, v), bits));
}

// As in karez/base/ieee_min_max.h: NaN is propagated, and -0 is less than +0.
template <class Number> struct Max {
  using T = Number;
  static constexpr T identity = -std::numeric_limits<T>::infinity();
  static HWY_INLINE VecOf<T> join(VecOf<T> a, VecOf<T> b) { return max_of(a, b); }
  static HWY_INLINE T reduce_lanes(VecOf<T> v) {
    if (!hn::AllFalse(TagOf<T>(), hn::IsNaN(v))) return std::numeric_limits<T>::quiet_NaN();
    const T largest = hn::GetLane(hn::MaxOfLanes(TagOf<T>(), v));
    return largest != 0 ? largest : has_zero<T>(v, false) ? T{0.0} : T{-0.0};
  }
};
template <class Number> struct Min {
  using T = Number;
  static constexpr T identity = std::numeric_limits<T>::infinity();
  static HWY_INLINE VecOf<T> join(VecOf<T> a, VecOf<T> b) { return min_of(a, b); }
  static HWY_INLINE T reduce_lanes(VecOf<T> v) {
    if (!hn::AllFalse(TagOf<T>(), hn::IsNaN(v))) return std::numeric_limits<T>::quiet_NaN();
    const T smallest = hn::GetLane(hn::MinOfLanes(TagOf<T>(), v));
    return smallest != 0 ? smallest : has_zero<T>(v, true) ? T{-0.0} : T{0.0};
  }
};

template <class K> using Element = typename K::T;
template <class K> constexpr auto lanes_per_vector = static_cast<std::int64_t>(hn::MaxLanes(TagOf<Element<K>>()));

template <class K> HWY_INLINE VecOf<Element<K>> load_masked(const Element<K>* p, hn::Mask<TagOf<Element<K>>> mask) {
  const TagOf<Element<K>> d;
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p), hn::Set(d, K::identity));
}

// Joins a contiguous run of `count` elements to a vector. A run may be joined in parts, with the same bits, if all
// parts but the last are multiples of four chunks. `load.at(i)` is the vector at element i, and `load.first(i, mask)`
// its first elements, with the identity after them.
template <class K, class Load>
HWY_INLINE VecOf<Element<K>> join_run_of(VecOf<Element<K>> total, std::int64_t count, Load load) {
  constexpr std::int64_t lanes = lanes_per_vector<K>;
  const TagOf<Element<K>> d;
  const auto initial = hn::Set(d, K::identity);
  std::int64_t i = 0;
  while (i + 4 * lanes <= count) {
    // Four independent sums, because an addition has a latency of four cycles.
    auto a = initial, b = initial, c = initial, e = initial;
    const std::int64_t end = std::min(count, i + 4 * chunk);
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      a = K::join(a, load.at(i));
      b = K::join(b, load.at(i + lanes));
      c = K::join(c, load.at(i + 2 * lanes));
      e = K::join(e, load.at(i + 3 * lanes));
    }
    total = K::join(total, K::join(K::join(a, b), K::join(c, e)));
  }
  for (; i + lanes <= count; i += lanes) total = K::join(total, load.at(i));
  if (i < count) total = K::join(total, load.first(i, hn::FirstN(d, static_cast<std::size_t>(count - i))));
  return total;
}
template <class K> struct RunLoad {
  const Element<K>* x;
  HWY_INLINE VecOf<Element<K>> at(std::int64_t i) const { return hn::LoadU(TagOf<Element<K>>(), x + i); }
  HWY_INLINE VecOf<Element<K>> first(std::int64_t i, hn::Mask<TagOf<Element<K>>> mask) const {
    return load_masked<K>(x + i, mask);
  }
};
template <class K>
HWY_INLINE VecOf<Element<K>> join_run(VecOf<Element<K>> total, const Element<K>* x, std::int64_t count) {
  return join_run_of<K>(total, count, RunLoad<K>{x});
}
// Reduces one contiguous run of `count` elements to a number.
template <class K> HWY_INLINE Element<K> reduce_run(const Element<K>* x, std::int64_t count) {
  return K::reduce_lanes(join_run<K>(hn::Set(TagOf<Element<K>>(), K::identity), x, count));
}

}  // namespace karez::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
