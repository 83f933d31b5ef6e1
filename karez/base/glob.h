// Patterns over dotted names, "block?.fc*.weight": compiled once, matched in time proportional to the name.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

namespace karez::base {

// '*'      any run of characters within one part (a part is what stands between dots)
// '?'      one character of a part;  [abc], [a-c], [!a-c]  one that is listed, or not
// "**"     any run, dots too; "**." in front of a part also stands for no part at all: "**.bias" matches "bias" and
// "a.b.bias" {a,b}    either pattern; they may nest A pattern that matches a module's whole name means all below it:
// "block0" matches "block0.fc.weight". What is malformed (a bracket that is not closed or not opened, a set without an
// element, with a dot or a range that runs backwards, no pattern at all) is an error.
class Glob {
 public:
  explicit Glob(std::string_view pattern);
  bool matches(std::string_view name) const;

 private:
  class Compiler;
  struct Step {
    enum class Kind : std::uint8_t { character, fork, end };  // one of `set`; go on at `to` and at `other`; matched
    Kind kind = Kind::end;
    std::bitset<256> set = {};
    int to = 0, other = -1;
  };
  std::vector<Step> steps_;
};

}  // namespace karez::base
