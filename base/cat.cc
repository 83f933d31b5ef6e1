// Concatenation: the parts that need no template.
#include "base/cat.h"

#include <array>
#include <charconv>
#include <cmath>
#include <sstream>

namespace karez::base {

std::string number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 40> buffer;
  auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void append_streamed(std::string& out, void (*write)(std::ostream&, const void*), const void* value) {
  std::ostringstream stream;
  write(stream, value);
  out += stream.str();
}

}  // namespace karez::base
