// Derives all legal shardings of a node on a mesh from its index signature.
#include <algorithm>

#include "karez/graph/op.h"

namespace karez::graph {
namespace {

// Returns the letters in order of appearance, operands before results.
std::vector<std::string> letters_of(const Signature& s) {
  std::vector<std::string> letters;
  for (const auto* side : {&s.in, &s.out})
    for (const auto& operand : *side)
      for (const std::string& letter : operand)
        if (letter != never_split && std::find(letters.begin(), letters.end(), letter) == letters.end())
          letters.push_back(letter);
  return letters;
}

// Returns the dimension of an operand that has the letter, or -1.
int dim_of(const std::vector<std::string>& operand, const std::string& letter) {
  auto position = std::find(operand.begin(), operand.end(), letter);
  return position == operand.end() ? -1 : static_cast<int>(position - operand.begin());
}

bool can_be_partial(const TensorType& type, Reduce reduce) {
  return reduce != Reduce::sum || has_partial_sums(type.dtype);
}

// Returns the sharding that splits a letter: operands and results with the letter are Split along its dimension, other
// operands are Broadcast, and other results are Partial of the letter's kind. If no operand has the letter, nothing is
// reduced, and results without the letter are Broadcast.
std::optional<Sharding> split(const NodeView& node, const Signature& s, const std::string& letter) {
  auto kind = s.reduced.find(letter);
  Reduce reduce = kind == s.reduced.end() ? Reduce::sum : kind->second;
  Sharding out;
  bool summed = false;
  for (std::size_t i = 0; i < s.in.size(); ++i) {
    int d = dim_of(s.in[i], letter);
    summed = summed || d >= 0;
    if (d >= 0 && node.in_type(i).shape[static_cast<std::size_t>(d)] == 1) return std::nullopt;
    out.in.push_back(d < 0 ? B() : S(d));
  }
  for (std::size_t i = 0; i < s.out.size(); ++i) {
    int d = dim_of(s.out[i], letter);
    if (d >= 0 && node.out_type(i).shape[static_cast<std::size_t>(d)] == 1) return std::nullopt;
    if (d < 0 && summed && !can_be_partial(node.out_type(i), reduce)) return std::nullopt;
    out.out.push_back(d >= 0 ? S(d) : summed ? P(reduce) : B());
  }
  return out;
}

// Returns the sharding in which operands of the group and all results are Partial, and other operands are Broadcast.
std::optional<Sharding> pass_partial(const NodeView& node, const std::vector<int>& group, Reduce reduce) {
  Sharding out{std::vector<Sbp>(node.in_count(), B()), std::vector<Sbp>(node.out_count(), P(reduce))};
  for (int operand : group) {
    if (!can_be_partial(node.in_type(static_cast<std::size_t>(operand)), reduce)) return std::nullopt;
    out.in[static_cast<std::size_t>(operand)] = P(reduce);
  }
  for (std::size_t i = 0; i < node.out_count(); ++i)
    if (!can_be_partial(node.out_type(i), reduce)) return std::nullopt;
  return out;
}

// A sharding on one axis, and the `divides` letter that it splits.
struct AxisSharding {
  Sharding sharding;
  std::string divides;
};

std::vector<AxisSharding> axis_shardings(const NodeView& node, const Signature& s, int size) {
  std::vector<AxisSharding> out;
  auto add = [&](std::optional<Sharding> sharding, std::string divides = {}) {
    if (sharding &&
        std::none_of(out.begin(), out.end(), [&](const AxisSharding& w) { return w.sharding == *sharding; }))
      out.push_back({*std::move(sharding), std::move(divides)});
  };
  add(Sharding{std::vector<Sbp>(node.in_count(), B()), std::vector<Sbp>(node.out_count(), B())});
  if (size == 1) return out;
  for (const std::string& letter : letters_of(s)) {
    auto divides = s.divides.find(letter);
    if (divides == s.divides.end()) {
      add(split(node, s, letter));
    } else if (divides->second % size == 0) {
      add(split(node, s, letter), letter);
    }
  }
  for (const auto& group : s.linear)
    if (!group.empty()) add(pass_partial(node, group, Reduce::sum));
  if (s.moves && node.in_count() > 0)
    for (Reduce reduce : {Reduce::sum, Reduce::max, Reduce::min}) add(pass_partial(node, {0}, reduce));
  return out;
}

// Returns whether the combination of shardings, one per axis, is legal.
bool is_consistent(const NodeView& node, const Signature& s, const Mesh& mesh,
                   const std::vector<const AxisSharding*>& chosen) {
  // Several axes may split a merged dimension only if the product of their sizes divides its major factor.
  std::map<std::string, std::int64_t> parts;
  for (std::size_t axis = 0; axis < chosen.size(); ++axis)
    if (!chosen[axis]->divides.empty())
      parts.try_emplace(chosen[axis]->divides, 1).first->second *= mesh.axes[axis].size;
  for (const auto& [letter, count] : parts)
    if (s.divides.at(letter) % count != 0) return false;
  // Each value has one kind of Partial, as is_valid() checks: a maximum of sums is not a sum of maxima.
  auto valid = [&](const TensorType& type, auto entry) {
    Layout layout;
    for (const AxisSharding* choice : chosen) layout.push_back(entry(choice->sharding));
    return is_valid(type, mesh, layout);
  };
  for (std::size_t i = 0; i < node.in_count(); ++i)
    if (!valid(node.in_type(i), [&](const Sharding& w) { return w.in[i]; })) return false;
  for (std::size_t i = 0; i < node.out_count(); ++i)
    if (!valid(node.out_type(i), [&](const Sharding& w) { return w.out[i]; })) return false;
  return true;
}

}  // namespace

std::vector<Sharding> shardings(const NodeView& node, int size) {
  std::vector<Sharding> out;
  for (AxisSharding& choice : axis_shardings(node, signature_of(node), size)) out.push_back(std::move(choice.sharding));
  return out;
}

std::vector<std::vector<Sharding>> mesh_shardings(const NodeView& node, const Mesh& mesh) {
  Signature s = signature_of(node);
  std::vector<std::vector<AxisSharding>> shardings_by_axis;
  for (const MeshAxis& axis : mesh.axes) shardings_by_axis.push_back(axis_shardings(node, s, axis.size));
  std::vector<std::vector<Sharding>> out;
  std::vector<const AxisSharding*> chosen;
  auto visit = [&](auto&& self) -> void {
    if (chosen.size() < shardings_by_axis.size()) {
      for (const AxisSharding& choice : shardings_by_axis[chosen.size()]) {
        chosen.push_back(&choice);
        self(self);
        chosen.pop_back();
      }
    } else if (is_consistent(node, s, mesh, chosen)) {
      std::vector<Sharding> combination;
      for (const AxisSharding* choice : chosen) combination.push_back(choice->sharding);
      out.push_back(std::move(combination));
    }
  };
  visit(visit);
  return out;
}

}  // namespace karez::graph
