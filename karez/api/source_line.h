// SourceLine: a line of the user's program, which error messages quote.
#pragma once

#include <string>

namespace karez {

// A line of the user's program. A caller in another language must keep the string of the file's name valid until the
// process ends.
class SourceLine {
 public:
  SourceLine() : SourceLine("", 0) {}
  SourceLine(const char* file, unsigned line) : file_(file), line_(line) {}
  // As a default argument: the line of the call.
  static SourceLine current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
  const char* file_name() const { return file_; }
  unsigned line() const { return line_; }

 private:
  const char* file_;
  unsigned line_;
};

std::string print(const SourceLine& line);  // "net.cc:12"

}  // namespace karez
