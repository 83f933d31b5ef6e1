// What ranks print, line by line with the rank in front, so that lines of several ranks do not mix.
#pragma once

#include <string>
#include <string_view>

#include "tools/namespace.h"

namespace karez::tools {

class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}
  // The lines that are whole now, each with the prefix. Bytes go through as they are; what is longer than `longest` is
  // cut into lines.
  std::string take(std::string_view bytes);
  std::string rest();  // the last one, that nothing ends, with an end
  static constexpr std::size_t longest = 1 << 16;

 private:
  std::string prefix_, line_;
};

}  // namespace karez::tools
