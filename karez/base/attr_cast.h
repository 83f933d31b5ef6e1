// Conversion of a numeric attribute to an element type; a value that an integer type cannot represent is an error.
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

// Returns whether the integer type T represents this double exactly; false for infinities and NaN.
template <class T> bool is_representable(double value) {
  constexpr double bound = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;  // 2^31 or 2^63, exactly
  return value == std::trunc(value) && value >= -bound && value < bound;
}

// Returns the attribute of this name, of any kind. A missing attribute is an error.
inline const Attr& attr_at(const Attrs& attrs, std::string_view name) {
  for (const auto& [key, attr] : attrs.items())
    if (key == name) return attr;
  fail("attribute '", name, "' is missing in ", attrs.print());
}

// Converts an attribute to T. Integers keep all 64 bits of an integer attribute; bools convert to and from 0 and 1.
template <class T> T attr_cast(const Attr& attr) {
  constexpr const char* name = std::is_same_v<T, bool> ? "bool"
                               : sizeof(T) == 1        ? "u8"
                               : sizeof(T) == 4        ? "i32"
                                                       : "i64";
  if (const auto* boolean = std::get_if<bool>(&attr)) return static_cast<T>(*boolean);
  if (const auto* int_value = std::get_if<std::int64_t>(&attr)) {
    if constexpr (std::is_same_v<T, bool>)
      require(*int_value == 0 || *int_value == 1, *int_value, " is not a valid ", name);
    else if constexpr (std::is_integral_v<T>)
      require(*int_value >= std::numeric_limits<T>::min() && *int_value <= std::numeric_limits<T>::max(), *int_value,
              " is not a valid ", name);
    return static_cast<T>(*int_value);
  }
  const auto* real_value = std::get_if<double>(&attr);
  require(real_value != nullptr, "the attribute must be a number, got a string or a list");
  if constexpr (std::is_same_v<T, bool>)
    require(*real_value == 0 || *real_value == 1, *real_value, " is not a valid ", name);
  else if constexpr (std::is_integral_v<T>)
    require(is_representable<T>(*real_value), *real_value, " is not a valid ", name);
  return static_cast<T>(*real_value);
}

}  // namespace karez::base
