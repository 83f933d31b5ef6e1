// A cursor over text for the hand-written parsers (attributes, expressions, graphs, plans): one error style, with line
// and column.
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
  bool accept(std::string_view token);  // takes it if it is next
  void expect(std::string_view token);
  std::string name();  // [A-Za-z_][A-Za-z0-9_.:/-]*   (a trailing '-' is not taken when '>' follows)
  std::string word();  // [A-Za-z_][A-Za-z0-9_]*
  bool peek_name();
  std::string quoted();  // what `quote` wrote
  std::int64_t integer();
  bool peek_number();
  // A number; `is_integer` tells whether it had neither point nor exponent. Knows inf, -inf and nan.
  double number(bool& is_integer);
  std::size_t position() const { return at_; }
  [[noreturn]] void fail_here(std::string_view message) const;

 private:
  std::string_view text_;
  std::string what_;
  std::size_t at_ = 0;
};

}  // namespace karez::base
