// The output of a rank, line by line with the rank as a prefix, so that lines of several ranks do not mix.
#pragma once

#include <string>
#include <string_view>

#include "tools/namespace.h"

namespace karez::tools {

class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}
  // The lines that are complete now, each with the prefix. Bytes are not changed; a line longer than `longest` is
  // split.
  std::string take(std::string_view bytes);
  std::string rest();  // the last, unterminated line, with a line end
  static constexpr std::size_t longest = 1 << 16;

 private:
  std::string prefix_, line_;
};

}  // namespace karez::tools
