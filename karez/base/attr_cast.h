// A number as an element of another type with all its bits: what does not fit is an error, never undefined.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#include <variant>

#include "karez/base/attrs.h"
#include "karez/base/error.h"

namespace karez::base {

// Whether the integer type T holds this double exactly; infinities and NaN it does not.
template <class T> bool is_representable(double value) {
  constexpr double bound = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;  // 2^31 or 2^63, exactly
  return value == std::trunc(value) && value >= -bound && value < bound;
}

// The attribute of this name, of whatever kind; a missing one is an error.
inline const Attr& attr_at(const Attrs& attrs, std::string_view name) {
  for (const auto& [key, attr] : attrs.items())
    if (key == name) return attr;
  fail("attribute '", name, "' is missing in ", attrs.print());
}

// Integers keep all 64 bits of an integer attribute, which a double would lose; bools are 0 or 1.
template <class T> T attr_cast(const Attr& attr) {
  constexpr const char* name = std::is_same_v<T, bool> ? "bool" : sizeof(T) == 4 ? "i32" : "i64";
  if (const auto* truth = std::get_if<bool>(&attr)) return static_cast<T>(*truth);
  if (const auto* whole = std::get_if<std::int64_t>(&attr)) {
    if constexpr (std::is_same_v<T, bool>) require(*whole == 0 || *whole == 1, *whole, " is no ", name);
    else if constexpr (std::is_integral_v<T>)
      require(*whole >= std::numeric_limits<T>::min() && *whole <= std::numeric_limits<T>::max(), *whole, " is no ",
              name);
    return static_cast<T>(*whole);
  }
  const auto* real = std::get_if<double>(&attr);
  require(real != nullptr, "an attribute that is no number stands where one is wanted");
  if constexpr (std::is_same_v<T, bool>) require(*real == 0 || *real == 1, *real, " is no ", name);
  else if constexpr (std::is_integral_v<T>) require(is_representable<T>(*real), *real, " is no ", name);
  return static_cast<T>(*real);
}

}  // namespace karez::base
