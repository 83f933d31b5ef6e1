// Maximum and minimum of two numbers, with one definition for expressions, reductions, fused ReLU and collectives.
#pragma once

#include <cmath>
#include <type_traits>

namespace karez::base {

// IEEE 754-2019's maximum and minimum. If either operand is NaN, the result is NaN, so that invalid values are not
// lost. +0 is greater than -0, so that a reduction's result does not depend on its order or grouping.
template <class T> T ieee_maximum(T a, T b) {
  if constexpr (!std::is_integral_v<T>) {  // not is_floating_point_v: the half types are classes
    if (a != a) return a;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a > b ? a : b;
}
template <class T> T ieee_minimum(T a, T b) {
  if constexpr (!std::is_integral_v<T>) {  // not is_floating_point_v: the half types are classes
    if (a != a) return a;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}

}  // namespace karez::base
