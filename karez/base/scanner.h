// A cursor over text for the hand-written parsers (attributes, expressions, graphs, plans), whose errors give line and
// column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "karez/base/error.h"

namespace karez::base {

class Scanner {
 public:
  Scanner(std::string_view text, std::string what) : text_(text), what_(std::move(what)) {}

  void skip_space();  // white space and '#' comments to the end of the line
  bool at_end();
  bool peek(std::string_view token);    // after white space
  bool accept(std::string_view token);  // consumes the token if it is next
  void expect(std::string_view token);
  std::string name();  // [A-Za-z_][A-Za-z0-9_.:/-]*   (without a trailing ':', and without a '-' before '>')
  std::string word();  // [A-Za-z_][A-Za-z0-9_]*
  bool peek_name();
  std::string quoted();  // reads text that `quote` has written
  std::int64_t integer();
  bool peek_number();
  // Reads a number, inf, -inf or nan. Sets `is_integer` to true if the number has neither point nor exponent.
  double number(bool& is_integer);
  std::size_t position() const { return at_; }
  [[noreturn]] void fail_here(std::string_view message) const;

 private:
  std::string_view text_;
  std::string what_;
  std::size_t at_ = 0;
};

}  // namespace karez::base
