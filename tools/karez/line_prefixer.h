// Splits the output of a rank into lines with the rank as a prefix, so that lines of several ranks do not mix.
#pragma once

#include <string>
#include <string_view>

#include "tools/namespace.h"

namespace karez::tools {

class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}
  // Returns the lines that are complete now, each with the prefix. Bytes are not changed; a line longer than
  // `max_line_bytes` is split.
  std::string take(std::string_view bytes);
  std::string rest();  // the last, unterminated line, with a line end
  static constexpr std::size_t max_line_bytes = 1 << 16;

 private:
  std::string prefix_, line_;
};

}  // namespace karez::tools
