// Prefixes complete lines; an incomplete line is buffered until its end arrives.
#include "tools/karez/line_prefixer.h"

#include <algorithm>

namespace karez::tools {

std::string LinePrefixer::take(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const bool ends = bytes[0] == '\n';
    if (ends || line_.size() == max_line_bytes) {
      out += prefix_ + line_ + '\n';
      line_.clear();
      if (ends) bytes.remove_prefix(1);
    } else {
      const std::size_t count = std::min({bytes.find('\n'), bytes.size(), max_line_bytes - line_.size()});
      line_ += bytes.substr(0, count);
      bytes.remove_prefix(count);
    }
  }
  return out;
}

std::string LinePrefixer::rest() {
  if (line_.empty()) return {};
  std::string out = prefix_ + line_ + '\n';
  line_.clear();
  return out;
}

}  // namespace karez::tools
