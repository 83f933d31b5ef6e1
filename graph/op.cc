// The table of ops, and the default rules for what a row leaves out.
#include "graph/op.h"

#include <algorithm>
#include <numeric>

#include "base/text.h"

namespace karez::graph {
namespace {

// Levenshtein's distance: how many letters to insert, drop or replace.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      std::size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

OpTable::OpTable(std::vector<OpDef> rows) {
  for (OpDef& row : rows) {
    std::string name = row.name;
    bool is_word = !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
    require(is_word && (name[0] < '0' || name[0] > '9'), "an op cannot be named ", quote(name));
    require(static_cast<bool>(row.infer), "op '", name, "' has no infer");
    require(rows_.try_emplace(name, std::move(row)).second, "two ops are called '", name, "'");
  }
}

const OpDef* OpTable::find(std::string_view name) const {
  auto at = rows_.find(name);
  return at == rows_.end() ? nullptr : &at->second;
}

const OpDef& OpTable::at(std::string_view name) const {
  if (const OpDef* op = find(name)) return *op;
  std::vector<std::pair<std::size_t, std::string_view>> near;
  for (const auto& [other, row] : rows_) {
    std::size_t away = other.find(name) != std::string::npos && !name.empty() ? 1 : distance(name, other);
    if (away <= std::max<std::size_t>(2, name.size() / 3)) near.emplace_back(away, other);
  }
  std::sort(near.begin(), near.end());
  if (near.size() > 5) near.resize(5);
  std::string hint = near.empty() ? cat("; there are ", rows_.size()) : cat("; near it: ", join(near, ", ", [](const auto& n) { return n.second; }));
  fail("no op is called '", name, "'", hint);
}

std::vector<const OpDef*> OpTable::rows() const {
  std::vector<const OpDef*> out;
  for (const auto& [name, row] : rows_) out.push_back(&row);
  return out;
}

Attrs localise(const LocalView& view) {
  const Node& node = view.node.node();
  if (node.op->localise) return node.op->localise(view);
  Attrs attrs = node.attrs;
  if (attrs.has("shape") && !view.out.empty()) attrs.set("shape", shape_of(view.out[0]));
  return attrs;
}

Cost cost_of(const OpDef& op, std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
  if (op.cost) return op.cost(in, out, attrs);
  Cost cost;
  for (const TensorType& type : in) cost.bytes += static_cast<double>(type.bytes());
  for (const TensorType& type : out) cost.bytes += static_cast<double>(type.bytes());
  return cost;
}

}  // namespace karez::graph
