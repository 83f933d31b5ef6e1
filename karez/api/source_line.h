// SourceLine: file and line number of a line of the user's program, which error messages name.
#pragma once

#include <string>

namespace karez {

// A line of the user's program. The string of the file name must stay valid until the process ends, also if the caller
// is not written in C++.
class SourceLine {
 public:
  SourceLine() : SourceLine("", 0) {}
  SourceLine(const char* file, unsigned line) : file_(file), line_(line) {}
  // Use this as a default argument; it then gives the line of the call.
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
