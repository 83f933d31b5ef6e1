// gather, which selects rows of a table by index, and its gradient scatter_add, which adds rows to a table.
#include <algorithm>

#include "karez/ops/build.h"
#include "karez/ops/index_bounds.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

// Returns letters for `count` dimensions, such as "i0 i1 ".
std::string numbered_letters(const char* name, int count) {
  std::string text;
  for (int d = 0; d < count; ++d) text += cat(name, d, " ");
  return text;
}

OpDef gather() {
  OpDef op{
      .name = "gather",
      .doc =
          "Selects rows of a table [v, d...] by an index tensor [i...] (i32 or i64); the result is [i..., d...]. An "
          "index outside 0 to v - 1 makes the launch fail. Local attributes: {offset} is the logical number of "
          "the first local row, {limit} the number of all rows, {begin} the logical position of the first local "
          "index.",
      .inputs = 2};
  op.infer = [](std::span<const TensorType> in, const Attrs&) {
    const auto &table = in[0], &index = in[1];
    require_number("gather", table);
    require_index("gather", index);
    require(ErrorKind::type, table.rank() >= 1, "gather: the table must have at least one dimension, got ", table);
    TensorType out{table.dtype, index.shape};
    out.shape.insert(out.shape.end(), table.shape.begin() + 1, table.shape.end());
    return one_type(std::move(out));
  };
  op.index = [](const NodeView& node) {
    std::string i = numbered_letters("i", node.in_type(1).rank()),
                d = numbered_letters("d", node.in_type(0).rank() - 1);
    return parse_signature(cat("v ", d, ", ", i, " -> ", i, d, " | v masked | linear {0}"));
  };
  op.localise = [](const LocalView& view) {
    return with_index_bounds(view.node.attrs(), view.in[1], view.in[0][0], view.node.in_type(0).shape[0]);
  };
  op.grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    auto rows = n.in_type(0).shape[0];
    return {build::scatter_add(b, n.in(1), dy[0], rows), ValueId()};
  };
  // Counts the rows that are read, not all rows of the table.
  op.cost = [](std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
    return Cost{WorkClass::index, 0, bytes_of(in.subspan(1), out) + static_cast<double>(out[0].bytes())};
  };
  op.half_policy = HalfPolicy::keep;
  op.indices = [](const NodeView& node) { return graph::IndexOperand{1, node.in_type(0).shape[0]}; };
  return op;
}

OpDef scatter_add() {
  OpDef op{
      .name = "scatter_add",
      .doc =
          "Adds updates [i..., d...] to a tensor of zeros with {rows} rows [d...]; each update is added to the row "
          "given by an index tensor [i...] (i32 or i64). An index out of range makes the launch fail. Local "
          "attributes: {offset}, {limit} and {begin}, as in gather.",
      .inputs = 2};
  op.work = WorkClass::index;
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    const auto &index = in[0], &updates = in[1];
    require_index("scatter_add", index);
    require_number("scatter_add", updates);
    bool is_prefix =
        updates.rank() >= index.rank() && std::equal(index.shape.begin(), index.shape.end(), updates.shape.begin());
    require(ErrorKind::shape, is_prefix, "scatter_add: the shape of updates ", updates,
            " must begin with the shape of index ", index);
    std::int64_t rows = attrs.integer("rows");
    require(ErrorKind::type, rows >= 0, "scatter_add: rows must be at least 0, got ", rows);
    TensorType out{updates.dtype, {rows}};
    out.shape.insert(out.shape.end(), updates.shape.begin() + index.rank(), updates.shape.end());
    return one_type(std::move(out));
  };
  op.index = [](const NodeView& node) {
    int indices = node.in_type(0).rank();
    std::string i = numbered_letters("i", indices), d = numbered_letters("d", node.in_type(1).rank() - indices);
    // If no index on a device selects a row, the device's partial sum of this row is 0.
    Signature s = parse_signature(cat(i, ", ", i, d, " -> v ", d, " | linear {1}"));
    for (int k = 0; k < indices; ++k) s.masked.insert(cat("i", k));
    return s;
  };
  op.localise = [](const LocalView& view) {
    Attrs attrs = view.node.attrs();
    attrs.set("rows", view.out[0][0].size());
    return with_index_bounds(std::move(attrs), view.in[0], view.out[0][0], view.node.out_type(0).shape[0]);
  };
  op.grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    return {ValueId(), build::gather(b, dy[0], n.in(0))};
  };
  op.indices = [](const NodeView& node) { return graph::IndexOperand{0, node.out_type(0).shape[0]}; };
  return op;
}

}  // namespace

std::vector<OpDef> gather_ops() { return {gather(), scatter_add()}; }

}  // namespace karez::ops
