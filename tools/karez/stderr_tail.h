// Keeps the end of a rank's standard error: the last unindented line and the indented lines after it, joined into one
// line.
#pragma once

#include <string>
#include <string_view>

#include "tools/namespace.h"

namespace karez::tools {

//   "one\nit cannot go on:\n  the disk is full\n"   gives   "it cannot go on: the disk is full"
class StderrTail {
 public:
  void take(std::string_view bytes);  // ignores warnings of Karez and the line that it prints at startup
  std::string text() const;           // includes an unterminated line; truncated to `max_bytes`
  static constexpr std::size_t max_bytes = 1000;

 private:
  void end_line();
  static void append(std::string& tail, std::string_view line);

  std::string text_, line_;
};

}  // namespace karez::tools
