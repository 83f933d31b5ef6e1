// Parses, prints and checks index signatures.
#include <algorithm>

#include "karez/base/scanner.h"
#include "karez/base/text.h"
#include "karez/graph/op.h"

namespace karez::graph {
namespace {

std::vector<std::string> parse_operand(Scanner& in) {
  std::vector<std::string> letters;
  if (in.accept("(")) {
    in.expect(")");
    return letters;
  }
  while (in.peek_name()) { letters.push_back(in.word()); }
  return letters;
}

std::vector<std::vector<std::string>> parse_operand_list(Scanner& in) {
  std::vector<std::vector<std::string>> operands{parse_operand(in)};
  while (in.accept(",")) operands.push_back(parse_operand(in));
  return operands;
}

bool appears(const std::vector<std::vector<std::string>>& side, const std::string& letter) {
  return std::any_of(side.begin(), side.end(), [&](const auto& operand) {
    return std::find(operand.begin(), operand.end(), letter) != operand.end();
  });
}

Reduce parse_reduce(Scanner& in) {
  Scanner start = in;
  std::string name = in.word();
  if (const auto reduce = tensor::reduce_from(name)) return *reduce;
  start.fail_here("expected sum, max or min");
}

using OutsideEffect = Signature::OutsideEffect;
constexpr std::pair<OutsideEffect, std::string_view> outside_effect_names[] = {{OutsideEffect::factor, "factor"},
                                                                               {OutsideEffect::divisor, "divisor"},
                                                                               {OutsideEffect::condition, "condition"},
                                                                               {OutsideEffect::unknown, "unknown"}};

OutsideEffect parse_outside_effect(Scanner& in) {
  Scanner start = in;
  const std::string name = in.word();
  for (const auto& [effect, effect_name] : outside_effect_names)
    if (effect_name == name) return effect;
  start.fail_here("expected factor, divisor, condition or unknown");
}

// Parses one clause after a '|'.
void parse_clause(Scanner& in, Signature& s) {
  auto parse_letter = [&](bool allow_results) {
    Scanner start = in;
    std::string letter = in.word();
    if (letter == never_split) start.fail_here("a dimension that is never split has no letter");
    if (!appears(s.in, letter) && !(allow_results && appears(s.out, letter)))
      start.fail_here(cat("no operand has the letter '", letter, "'"));
    return letter;
  };
  auto operand = [&] {
    Scanner start = in;
    std::int64_t number = in.integer();
    if (number < 0 || number >= static_cast<std::int64_t>(s.in.size()))
      start.fail_here(cat("there is no operand ", number));
    return static_cast<int>(number);
  };
  if (in.accept("linear")) {
    while (in.accept("{")) {
      std::vector<int> group;
      while (!in.accept("}")) {
        if (!group.empty()) in.expect(",");
        group.push_back(operand());
      }
      s.linear.push_back(std::move(group));
    }
  } else if (in.accept("outside")) {
    do {
      const int number = operand();
      s.outside[number] = parse_outside_effect(in);
    } while (in.accept(","));
  } else if (in.accept("picks")) {
    s.picks = true;
  } else if (in.accept("moves")) {
    s.moves = true;
  } else {
    do {
      std::string letter = parse_letter(true);
      if (in.accept("divides")) {
        s.divides[letter] = in.integer();
      } else if (in.accept("masked")) {
        s.masked.insert(letter);
      } else {
        in.expect("by");
        s.reduced[letter] = parse_reduce(in);
      }
    } while (in.peek_name());
  }
}

std::string print_operand_list(const std::vector<std::vector<std::string>>& side) {
  return join(side, ", ", [](const auto& operand) { return operand.empty() ? std::string("()") : join(operand, " "); });
}

// A dimension of an operand or result, and its letter; used to check the signature of a node.
struct LabelledDim {
  const std::string& letter;
  std::int64_t size;
  const char* side;  // "operand"
  std::size_t index;
  const TensorType& type;

  std::string text() const { return cat(side, " ", index, " ", type); }  // "operand 1 f32[3, 4]"
};

std::vector<LabelledDim> labelled_dims(const NodeView& node, const Signature& s) {
  std::vector<LabelledDim> out;
  auto side = [&](const auto& letters, std::size_t count, auto type, const char* what) {
    require(letters.size() == count, "its signature ", s, " has ", letters.size(), " ", what, "s; the node has ",
            count);
    for (std::size_t i = 0; i < count; ++i) {
      const TensorType& t = type(i);
      require(letters[i].size() == t.shape.size(), "its signature ", s, " gives ", what, " ", i, " ", letters[i].size(),
              " dimensions, but its type is ", t);
      for (std::size_t d = 0; d < letters[i].size(); ++d) {
        const std::string& letter = letters[i][d];
        if (letter == never_split) continue;
        require(!letter.empty(), "its signature gives ", what, " ", i, " no letter in dimension ", d,
                "; a dimension that is never split has '", never_split, "'");
        require(std::count(letters[i].begin(), letters[i].end(), letter) == 1, "its signature ", s, " has '", letter,
                "' twice in ", what, " ", i);
        out.push_back({letter, t.shape[d], what, i, t});
      }
    }
  };
  side(
      s.in, node.in_count(), [&](std::size_t i) -> const TensorType& { return node.in_type(i); }, "operand");
  side(
      s.out, node.out_count(), [&](std::size_t i) -> const TensorType& { return node.out_type(i); }, "result");
  return out;
}

void check(const NodeView& node, const Signature& s) {
  std::map<std::string, const LabelledDim*> first;
  std::vector<LabelledDim> dims = labelled_dims(node, s);
  for (const LabelledDim& dim : dims) {
    if (auto divides = s.divides.find(dim.letter); divides != s.divides.end()) {
      require(divides->second > 0 && dim.size % divides->second == 0, "its signature ", s, " limits splits of '",
              dim.letter, "' to divisors of ", divides->second, ", which does not divide size ", dim.size, " of ",
              dim.side, " ", dim.index, " ", dim.type);
      continue;  // the size of a merged dimension may be any multiple of its major factor
    }
    auto [entry, inserted] = first.try_emplace(dim.letter, &dim);
    if (!inserted && entry->second->size != dim.size)
      fail("sizes of '", dim.letter, "' differ: ", entry->second->size, " in ", entry->second->text(), " and ",
           dim.size, " in ", dim.text());
  }
  for (const auto& group : s.linear)
    for (int operand : group)
      require(operand >= 0 && static_cast<std::size_t>(operand) < node.in_count(),
              "a linear group of its signature names operand ", operand, ", but the node has ", node.in_count(),
              " operands");
}

}  // namespace

Signature parse_signature(std::string_view text) {
  Scanner in(text, "signature");
  Signature s;
  if (!in.peek("->")) s.in = parse_operand_list(in);
  in.expect("->");
  s.out = parse_operand_list(in);
  while (in.accept("|")) parse_clause(in, s);
  if (!in.at_end()) in.fail_here("unexpected text after the signature");
  return s;
}

std::string print(const Signature& s) {
  std::string text = s.in.empty() ? "-> " : cat(print_operand_list(s.in), " -> ");
  text += print_operand_list(s.out);
  std::vector<std::string> clauses;
  for (const auto& [letter, reduce] : s.reduced) clauses.push_back(cat(letter, " by ", name_of(reduce)));
  for (const auto& [letter, extent] : s.divides) clauses.push_back(cat(letter, " divides ", extent));
  for (const std::string& letter : s.masked) clauses.push_back(cat(letter, " masked"));
  if (s.picks) clauses.emplace_back("picks");
  if (!s.linear.empty())
    clauses.push_back(
        cat("linear ", join(s.linear, " ", [](const auto& group) { return cat("{", join(group, ", "), "}"); })));
  if (!s.outside.empty())
    clauses.push_back(cat("outside ", join(s.outside, ", ", [](const auto& entry) {
                            return cat(entry.first, " ",
                                       outside_effect_names[static_cast<std::size_t>(entry.second)].second);
                          })));
  if (s.moves) clauses.push_back("moves");
  for (const std::string& clause : clauses) text += cat(" | ", clause);
  return text;
}

Signature signature_of(const NodeView& node) {
  const auto& index = node.node().op->index;
  try {
    Signature s = index.index() == 0 ? parse_signature(std::get<0>(index)) : std::get<1>(index)(node);
    if (s.in.empty() && node.in_count() == 1)
      s.in.emplace_back();  // an empty left side means no operand or one scalar, depending on the node
    check(node, s);
    return s;
  } catch (const Error& error) { fail(error.kind, describe(*node.graph, node.id), ": ", error.what()); }
}

}  // namespace karez::graph
