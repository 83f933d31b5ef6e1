// Implements reduce functions as plain loops, which the compiler vectorises.
#include "karez/runtime/actor/reduce.h"

#include <type_traits>

#include "karez/base/error.h"
#include "karez/base/ieee_min_max.h"

namespace karez::runtime {
namespace {

template <class T> T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;  // wraps around on overflow; signed overflow would be undefined behaviour
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return static_cast<T>(a + b);
  }
}
template <class T, T (*combine)(T, T)> void reduce(std::byte* into, const std::byte* from, std::int64_t count) {
  T* a = reinterpret_cast<T*>(into);
  const T* b = reinterpret_cast<const T*>(from);
  for (std::int64_t i = 0; i < count; ++i) a[i] = combine(a[i], b[i]);
}

}  // namespace

comm::ReduceFn reduce_function(Reduce kind, DType dtype) {
  return with_type(dtype, [&]<class T>() -> comm::ReduceFn {
    switch (kind) {
      case Reduce::sum:
        if constexpr (std::is_same_v<T, bool>)
          fail("reduce: bools cannot be summed; use max (logical or) or min (logical and)");
        else return reduce<T, sum_of<T>>;
      case Reduce::max: return reduce<T, ieee_maximum<T>>;
      case Reduce::min: return reduce<T, ieee_minimum<T>>;
    }
    return nullptr;
  });
}

}  // namespace karez::runtime
