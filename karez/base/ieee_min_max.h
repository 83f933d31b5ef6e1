// The larger and the smaller of two numbers: one rule for expressions, reductions, fused ReLU and collectives.
#pragma once

#include <cmath>
#include <type_traits>

namespace karez::base {

// IEEE 754-2019's maximum and minimum. A NaN on either side wins, so that a broken value is seen and not lost; +0 is
// above -0, so that no order or grouping of a reduction shows in its result.
template <class T> T ieee_maximum(T a, T b) {
  if constexpr (!std::is_integral_v<T>) {  // halves are classes
    if (a != a) return a;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a > b ? a : b;
}
template <class T> T ieee_minimum(T a, T b) {
  if constexpr (!std::is_integral_v<T>) {  // halves are classes
    if (a != a) return a;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}

}  // namespace karez::base
