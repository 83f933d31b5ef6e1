// Concatenation of any number of parts as text, for errors, logs and printers.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace karez::base {

// Returns the shortest decimal text that parses to the same double: "1.0", "0.1", "inf". No integer has the same text.
std::string number(double value);

// One part of a concatenation. It refers to the value without a copy, so it is valid only during the call that takes
// it. One type covers all kinds of value, so that `cat` and `require` are compiled once instead of for each combination
// of parts.
class TextPart {
 public:
  TextPart(const char* text) : TextPart(std::string_view(text)) {}
  TextPart(std::string_view text) : kind_(Kind::text), text_(text.data()), size_(text.size()) {}
  TextPart(const std::string& text) : TextPart(std::string_view(text)) {}
  // Accepts a number, bool or character; a value that converts to text; a list of sizes, "[2, 3]"; or any value that a
  // stream accepts.
  template <class T> TextPart(const T& value) {
    if constexpr (std::same_as<T, bool>) *this = TextPart(std::string_view(value ? "true" : "false"));
    else if constexpr (std::same_as<T, char>) kind_ = Kind::character, character_ = value;
    else if constexpr (std::signed_integral<T>) kind_ = Kind::integer, integer_ = value;
    else if constexpr (std::unsigned_integral<T>) kind_ = Kind::natural, natural_ = value;
    else if constexpr (std::floating_point<T>) kind_ = Kind::real, real_ = static_cast<double>(value);
    else if constexpr (std::convertible_to<const T&, std::string_view>) *this = TextPart(std::string_view(value));
    else if constexpr (std::same_as<T, std::vector<std::int64_t>>) kind_ = Kind::sizes, value_ = &value;
    else
      kind_ = Kind::streamed, value_ = &value,
      write_ = [](std::ostream& out, const void* object) { out << *static_cast<const T*>(object); };
  }

  void append_to(std::string& out) const;
  std::size_t expected_size() const;  // exact for text and characters; otherwise estimated as 4

 private:
  enum class Kind : std::uint8_t { text, character, integer, natural, real, sizes, streamed };
  using Write = void (*)(std::ostream&, const void*);

  Kind kind_;
  union {
    const char* text_;
    char character_;
    std::int64_t integer_;
    std::uint64_t natural_;
    double real_;
    const void* value_;
  };
  union {
    std::size_t size_;
    Write write_;
  };
};

std::string cat_parts(std::initializer_list<TextPart> parts);

template <class... Parts> [[gnu::always_inline]] inline std::string cat(const Parts&... parts) {
  return cat_parts({TextPart(parts)...});
}

}  // namespace karez::base
