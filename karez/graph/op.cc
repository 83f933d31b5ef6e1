// The table of ops, and the default localise and cost rules for rows without such functions.
#include "karez/graph/op.h"

#include "karez/base/suggest_names.h"
#include "karez/base/text.h"

namespace karez::graph {

Signature::Signature() = default;
Signature::Signature(const Signature&) = default;
Signature::Signature(Signature&&) noexcept = default;
Signature& Signature::operator=(const Signature&) = default;
Signature& Signature::operator=(Signature&&) noexcept = default;
Signature::~Signature() = default;

OpTable::OpTable(std::vector<OpDef> rows) {
  for (OpDef& row : rows) {
    std::string name = row.name;
    bool is_word =
        !name.empty() &&
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
    if (!is_word || (name[0] >= '0' && name[0] <= '9')) fail(ErrorKind::name, "an op cannot be named ", quote(name));
    require(ErrorKind::name, static_cast<bool>(row.infer), "op '", name, "' has no infer function");
    require(ErrorKind::name, rows_.try_emplace(name, std::move(row)).second, "two ops are called '", name, "'");
  }
}

const OpDef* OpTable::find(std::string_view name) const {
  auto row = rows_.find(name);
  return row == rows_.end() ? nullptr : &row->second;
}

const OpDef& OpTable::at(std::string_view name) const {
  if (const OpDef* op = find(name)) return *op;
  fail(ErrorKind::name, "unknown op '", name, "'; ",
       suggest_names(name, rows_, [](const auto& row) { return row.first; }));
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
  Cost cost{.work = op.work};
  if (op.transcendentals > 0) cost.flops = op.transcendentals * static_cast<double>(out[0].count());
  for (const TensorType& type : in) cost.bytes += static_cast<double>(type.bytes());
  for (const TensorType& type : out) cost.bytes += static_cast<double>(type.bytes());
  return cost;
}

}  // namespace karez::graph
