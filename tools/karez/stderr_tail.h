// What a rank said last: its last line of errors that is not indented, and those that are indented behind it, as one
// line.
#pragma once

#include <string>
#include <string_view>

#include "tools/namespace.h"

namespace karez::tools {

//   "one\nit cannot go on:\n  the disk is full\n"   gives   "it cannot go on: the disk is full"
class StderrTail {
 public:
  void take(std::string_view bytes);  // what Karez itself says in passing (who started it, warnings) is no last word
  std::string text() const;           // also of a line that nothing ended; cut where it is longer than `longest`
  static constexpr std::size_t longest = 1000;

 private:
  void end_line();
  static void append(std::string& tail, std::string_view line);

  std::string text_, line_;
};

}  // namespace karez::tools
