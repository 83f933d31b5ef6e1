// Concatenation: the text of any number of parts, as errors, logs and printers write it.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/rooms.h"

namespace karez::base {

// The shortest decimal text that reads back to the same double; always shows that it is not an integer ("1.0", "0.1", "inf").
std::string number(double value);

// What `write(stream, value)` writes, for types that only know how to stream themselves.
void append_streamed(std::string& out, void (*write)(std::ostream&, const void*), const void* value);

template <class Part> void append_part(std::string& out, const Part& part) {
  if constexpr (std::is_same_v<Part, bool>) {
    out += part ? "true" : "false";
  } else if constexpr (std::is_same_v<Part, char>) {
    out += part;
  } else if constexpr (std::is_integral_v<Part>) {
    out += std::to_string(part);
  } else if constexpr (std::is_floating_point_v<Part>) {
    out += number(static_cast<double>(part));
  } else if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    out += std::string_view(part);
  } else {
    append_streamed(
        out, [](std::ostream& stream, const void* value) { stream << *static_cast<const Part*>(value); }, &part);
  }
}

template <class... Parts> std::string cat(const Parts&... parts) {
  std::string out;
  (append_part(out, parts), ...);
  return out;
}

}  // namespace karez::base
