// Functions that join, split and quote text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "karez/base/cat.h"

namespace karez::base {

// join({1, 2, 3}, ", ") == "1, 2, 3"; `show` converts an item to a value that `cat` accepts.
template <class Items, class Show> std::string join(const Items& items, std::string_view separator, Show show) {
  std::string out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += separator;
    first = false;
    TextPart(show(item)).append_to(out);
  }
  return out;
}

template <class Items> std::string join(const Items& items, std::string_view separator) {
  return join(
      items, separator, [](const auto& item) -> const auto& { return item; });
}

std::vector<std::string> split(std::string_view text, char separator);  // keeps empty pieces
std::string_view trim(std::string_view text);                           // removes white space at both ends
bool starts_with(std::string_view text, std::string_view prefix);
std::string quote(std::string_view text);    // "a \"b\"\n" with C's escapes
std::string bytes_text(std::int64_t bytes);  // "1.50 MiB"

}  // namespace karez::base
