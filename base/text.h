// Text in small pieces: concatenation, joining, splitting, number formats that read back to the same bits.
#pragma once

#include <charconv>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace karez {

// The shortest decimal text that reads back to the same double; always shows that it is not an integer ("1.0", "0.1", "inf").
std::string number(double value);

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
    std::ostringstream stream;
    stream << part;
    out += stream.str();
  }
}

template <class... Parts> std::string cat(const Parts&... parts) {
  std::string out;
  (append_part(out, parts), ...);
  return out;
}

// join({1, 2, 3}, ", ") == "1, 2, 3"; `show` turns an item into something `cat` takes.
template <class Items, class Show> std::string join(const Items& items, std::string_view separator, Show show) {
  std::string out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += separator;
    first = false;
    append_part(out, show(item));
  }
  return out;
}

template <class Items> std::string join(const Items& items, std::string_view separator) {
  return join(
      items, separator, [](const auto& item) -> const auto& { return item; });
}

std::vector<std::string> split(std::string_view text, char separator);  // keeps empty pieces
std::string_view trim(std::string_view text);                           // without white space at both ends
bool starts_with(std::string_view text, std::string_view prefix);
bool glob_match(std::string_view pattern, std::string_view text);  // '*' any run of characters, '?' one
std::string quote(std::string_view text);                          // "a \"b\"\n" in C's escapes
std::string bytes_text(std::int64_t bytes);                        // "1.50 MiB", for people

}  // namespace karez
