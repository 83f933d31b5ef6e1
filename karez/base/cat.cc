// Concatenation of parts of each kind as text.
#include "karez/base/cat.h"

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

void TextPart::append_to(std::string& out) const {
  const auto digits = [&out](auto value) {
    std::array<char, 24> buffer;
    const char* end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    out.append(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  };
  switch (kind_) {
    case Kind::text: out.append(text_, size_); break;
    case Kind::character: out += character_; break;
    case Kind::integer: digits(integer_); break;
    case Kind::natural: digits(natural_); break;
    case Kind::real: out += number(real_); break;
    case Kind::sizes: {
      const char* separator = "[";
      for (std::int64_t size : *static_cast<const std::vector<std::int64_t>*>(value_)) {
        out += separator;
        digits(size);
        separator = ", ";
      }
      out += separator[0] == '[' ? "[]" : "]";
      break;
    }
    case Kind::streamed: {
      std::ostringstream stream;
      write_(stream, value_);
      out += stream.str();
      break;
    }
  }
}

std::size_t TextPart::expected_size() const { return kind_ == Kind::text ? size_ : kind_ == Kind::character ? 1 : 4; }

std::string cat_parts(std::initializer_list<TextPart> parts) {
  std::size_t size = 0;
  for (const TextPart& part : parts) size += part.expected_size();
  std::string out;
  out.reserve(size);
  for (const TextPart& part : parts) part.append_to(out);
  return out;
}

}  // namespace karez::base
