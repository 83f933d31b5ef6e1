// Glob patterns over dotted names such as "block?.fc*.weight", matched in time linear in the length of the name.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

namespace karez::base {

// '*'    any characters within one part (the text between two dots)
// '?'    one character of a part;  [abc], [a-c], [!a-c]  one character that is listed, or not listed
// "**"   any characters and dots; "**." before a part also matches no part: "**.bias" matches "bias" and "a.b.bias"
// {a,b}  either pattern; braces may nest
// A pattern that matches a module's full name matches all names below it: "block0" matches "block0.fc.weight". A
// malformed pattern (unmatched bracket, empty set, set with a dot or a reversed range, empty pattern) is an error.
class Glob {
 public:
  explicit Glob(std::string_view pattern);
  bool matches(std::string_view name) const;

 private:
  class Compiler;
  struct Step {
    // character: matches one of `set`; fork: continues at `to` and at `alternative`; end: the pattern matches
    enum class Kind : std::uint8_t { character, fork, end };
    Kind kind = Kind::end;
    std::bitset<256> set = {};
    int to = 0, alternative = -1;
  };
  std::vector<Step> steps_;
};

}  // namespace karez::base
