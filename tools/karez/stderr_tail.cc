// Splits bytes into lines and keeps the last lines.
#include "tools/karez/stderr_tail.h"

#include <algorithm>

namespace karez::tools {

namespace {
bool is_log_line(std::string_view line) {
  return line.starts_with("karez warning: ") || (line.starts_with("karez: ") && line.find(" ranks x ") != line.npos);
}
}  // namespace

void StderrTail::take(std::string_view bytes) {
  for (const char byte : bytes) {
    if (byte == '\n') end_line();
    else if (line_.size() < max_bytes) line_ += byte;
  }
}

void StderrTail::end_line() {
  append(text_, line_);
  line_.clear();
}

// A line that is not indented replaces the tail; an empty line is ignored.
void StderrTail::append(std::string& tail, std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos || is_log_line(line)) return;
  if (begin == 0) tail.clear();
  else if (!tail.empty()) tail += ' ';
  tail += line.substr(begin);
  tail.resize(std::min(tail.size(), max_bytes));
}

std::string StderrTail::text() const {
  std::string out = text_;
  append(out, line_);
  return out;
}

}  // namespace karez::tools
