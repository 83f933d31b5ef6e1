// Lines as they end, of which the last ones are kept.
#include "tools/karez/last_words.h"

#include <algorithm>

namespace karez::tools {

namespace {
bool is_in_passing(std::string_view line) {
  return line.starts_with("karez warning: ") || (line.starts_with("karez: ") && line.find(" ranks x ") != line.npos);
}
}  // namespace

void LastWords::take(std::string_view bytes) {
  for (const char byte : bytes) {
    if (byte == '\n') end_line();
    else if (line_.size() < longest) line_ += byte;
  }
}

void LastWords::end_line() {
  append(words_, line_);
  line_.clear();
}

// A line that is not indented begins anew; an empty one says nothing.
void LastWords::append(std::string& words, std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos || is_in_passing(line)) return;
  if (begin == 0) words.clear();
  else if (!words.empty()) words += ' ';
  words += line.substr(begin);
  words.resize(std::min(words.size(), longest));
}

std::string LastWords::text() const {
  std::string out = words_;
  append(out, line_);
  return out;
}

}  // namespace karez::tools
