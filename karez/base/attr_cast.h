// Conversion of a numeric attribute to an element type; a value that an integer type does not represent is an error.
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

// Whether the integer type T represents this double exactly; false for infinities and NaN.
template <class T> bool is_representable(double value) {
  constexpr double bound = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;  // 2^31 or 2^63, exactly
  return value == std::trunc(value) && value >= -bound && value < bound;
}

// The attribute of this name and of any kind; a missing attribute is an error.
inline const Attr& attr_at(const Attrs& attrs, std::string_view name) {
  for (const auto& [key, attr] : attrs.items())
    if (key == name) return attr;
  fail("attribute '", name, "' is missing in ", attrs.print());
}

// Integers keep all 64 bits of an integer attribute, which a double would lose; bools convert to and from 0 and 1.
template <class T> T attr_cast(const Attr& attr) {
  constexpr const char* name = std::is_same_v<T, bool> ? "bool" : sizeof(T) == 4 ? "i32" : "i64";
  if (const auto* truth = std::get_if<bool>(&attr)) return static_cast<T>(*truth);
  if (const auto* whole = std::get_if<std::int64_t>(&attr)) {
    if constexpr (std::is_same_v<T, bool>) require(*whole == 0 || *whole == 1, *whole, " is not a valid ", name);
    else if constexpr (std::is_integral_v<T>)
      require(*whole >= std::numeric_limits<T>::min() && *whole <= std::numeric_limits<T>::max(), *whole,
              " is not a valid ", name);
    return static_cast<T>(*whole);
  }
  const auto* real = std::get_if<double>(&attr);
  require(real != nullptr, "the attribute must be a number, got a text or a list");
  if constexpr (std::is_same_v<T, bool>) require(*real == 0 || *real == 1, *real, " is not a valid ", name);
  else if constexpr (std::is_integral_v<T>) require(is_representable<T>(*real), *real, " is not a valid ", name);
  return static_cast<T>(*real);
}

}  // namespace karez::base
