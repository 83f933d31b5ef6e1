// Globs as nondeterministic automata: all states that a prefix reaches are tracked together, so matching is linear.
#include "karez/base/glob.h"

#include "karez/base/error.h"

namespace karez::base {
namespace {

constexpr int max_depth = 32;  // the limit of nested braces

std::size_t index_of(char c) { return static_cast<unsigned char>(c); }

}  // namespace

// Recursive descent: pattern = piece*, piece = character, '?', '*', "**", [set], {pattern,pattern}.
class Glob::Compiler {
 public:
  Compiler(std::string_view pattern, std::vector<Step>& steps) : text_(pattern), steps_(steps) {
    require(!text_.empty(), "a pattern must not be empty; \"**\" matches every name");
    in_part_.set();
    in_part_.reset(index_of('.'));
    any_.set();
    pieces(0);
    require(at_ == text_.size(), error_prefix(), "'", text_[at_], "' at character ", at_ + 1, " has no matching '{'");
    steps_.push_back({});
  }

 private:
  std::string error_prefix() const { return cat("pattern '", text_, "': "); }
  bool at(std::string_view text) const { return text_.substr(at_, text.size()) == text; }
  int next() const { return static_cast<int>(steps_.size()); }
  void character(const std::bitset<256>& set) { steps_.push_back({Step::Kind::character, set, next() + 1}); }

  // Repeats the set any number of times, even zero: a fork leads into the loop and past it.
  void repeat(const std::bitset<256>& set) {
    const int fork = next();
    steps_.push_back({Step::Kind::fork, {}, fork + 1, fork + 2});
    steps_.push_back({Step::Kind::character, set, fork});
  }

  void pieces(int depth) {
    bool part_begins = at_ == 0 || text_[at_ - 1] == '.';
    while (at_ < text_.size() && text_[at_] != '}' && !(depth > 0 && text_[at_] == ',')) {
      const char c = text_[at_];
      const bool begins = std::exchange(part_begins, c == '.');
      if (begins && at("**.")) {  // matches any number of parts with their dots, even none
        at_ += 3;
        const int fork = next();
        steps_.push_back({Step::Kind::fork, {}, fork + 1, 0});
        repeat(any_);
        character(std::bitset<256>().set(index_of('.')));
        steps_[static_cast<std::size_t>(fork)].alternative = next();
        part_begins = true;
      } else if (at("**")) {
        at_ += 2;
        repeat(any_);
      } else if (c == '*') {
        ++at_;
        repeat(in_part_);
      } else if (c == '?') {
        ++at_;
        character(in_part_);
      } else if (c == '[') {
        set();
      } else if (c == '{') {
        alternatives(depth);
      } else {
        require(c != ']', error_prefix(), "']' at character ", at_ + 1, " has no matching '['");
        ++at_;
        character(std::bitset<256>().set(index_of(c)));
      }
    }
  }

  void set() {
    const std::size_t begin = at_++;
    std::bitset<256> out;
    const bool negated = at("!");
    if (negated) ++at_;
    const std::size_t set_begin = at_;
    while (at_ < text_.size() && text_[at_] != ']') {
      const char from = text_[at_++];
      char to = from;
      if (at("-") && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        to = text_[at_ + 1];
        at_ += 2;
      }
      require(index_of(from) <= index_of(to), error_prefix(), "the range ", from, "-", to, " is reversed");
      require(from != '.' && to != '.', error_prefix(),
              "a set must not contain a dot; it matches one character within a part");
      for (std::size_t i = index_of(from); i <= index_of(to); ++i) out.set(i);
    }
    require(at_ < text_.size(), error_prefix(), "'[' at character ", begin + 1, " is not closed");
    require(at_ > set_begin, error_prefix(), "the set at character ", begin + 1, " is empty");
    ++at_;
    character((negated ? ~out : out) & in_part_);
  }

  void alternatives(int depth) {
    require(depth < max_depth, error_prefix(), "braces nest more than ", max_depth, " deep");
    const std::size_t begin = at_++;
    std::vector<std::size_t> ends;  // forks that jump past the last alternative
    while (true) {
      const int fork = next();
      steps_.push_back({Step::Kind::fork, {}, fork + 1, -1});
      pieces(depth + 1);
      require(at_ < text_.size(), error_prefix(), "'{' at character ", begin + 1, " is not closed");
      ends.push_back(steps_.size());
      steps_.push_back({Step::Kind::fork, {}, 0, -1});
      if (text_[at_++] == '}') break;
      steps_[static_cast<std::size_t>(fork)].alternative = next();
    }
    for (std::size_t end : ends) steps_[end].to = next();
  }

  std::string_view text_;
  std::vector<Step>& steps_;
  std::size_t at_ = 0;
  std::bitset<256> in_part_, any_;
};

Glob::Glob(std::string_view pattern) { Compiler(pattern, steps_); }

bool Glob::matches(std::string_view name) const {
  std::vector<int> current, next, pending;
  std::vector<std::size_t> last_rounds(steps_.size(), 0);  // the last round in which each step was reached
  bool end = false;
  auto reach = [&](std::vector<int>& list, int step, std::size_t round) {
    pending.push_back(step);
    while (!pending.empty()) {
      const auto s = static_cast<std::size_t>(pending.back());
      pending.pop_back();
      if (last_rounds[s] == round) continue;
      last_rounds[s] = round;
      if (steps_[s].kind == Step::Kind::character) list.push_back(static_cast<int>(s));
      end |= steps_[s].kind == Step::Kind::end;
      if (steps_[s].kind != Step::Kind::fork) continue;
      pending.push_back(steps_[s].to);
      if (steps_[s].alternative >= 0) pending.push_back(steps_[s].alternative);
    }
  };
  reach(current, 0, 1);
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (end && name[i] == '.' && i > 0) return true;  // the pattern names a module that contains this name
    end = false;
    next.clear();
    for (int step : current)
      if (const Step& s = steps_[static_cast<std::size_t>(step)]; s.set.test(index_of(name[i])))
        reach(next, s.to, i + 2);
    current.swap(next);
    if (current.empty() && !end) return false;
  }
  return end;
}

}  // namespace karez::base
