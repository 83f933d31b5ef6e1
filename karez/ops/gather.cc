// gather: rows of a table by index; scatter_add: its gradient, which adds rows into a table.
#include <algorithm>

#include "karez/ops/build.h"
#include "karez/ops/index_bounds.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

// "i0 i1 " for two dimensions.
std::string numbered(const char* name, int count) {
  std::string text;
  for (int d = 0; d < count; ++d) text += cat(name, d, " ");
  return text;
}

OpDef gather() {
  OpDef op{.name = "gather",
           .doc =
               "Rows of a table [v, d...] by index [i...] (i32 or i64): [i..., d...]; an index outside 0 to v - 1 "
               "makes the launch fail. Local: {offset} is the logical number of the device's first row, {limit} the "
               "number of all rows, {begin} the logical position of the device's first index.",
           .inputs = 2};
  op.infer = [](std::span<const TensorType> in, const Attrs&) {
    const auto &table = in[0], &index = in[1];
    require_number("gather", table);
    require_index("gather", index);
    require(ErrorKind::type, table.rank() >= 1, "gather: the table has no dimension: ", table);
    TensorType out{table.dtype, index.shape};
    out.shape.insert(out.shape.end(), table.shape.begin() + 1, table.shape.end());
    return std::vector{out};
  };
  op.index = [](const NodeView& node) {
    std::string i = numbered("i", node.in_type(1).rank()), d = numbered("d", node.in_type(0).rank() - 1);
    return parse_signature(cat("v ", d, ", ", i, " -> ", i, d, " | v masked | linear {0}"));
  };
  op.localise = [](const LocalView& view) {
    return with_index_bounds(view.node.attrs(), view.in[1], view.in[0][0], view.node.in_type(0).shape[0]);
  };
  op.grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    auto rows = n.in_type(0).shape[0];
    return {build::scatter_add(b, n.in(1), dy[0], rows), ValueId()};
  };
  // Reads the rows that it writes, not the whole table.
  op.cost = [](std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
    return Cost{WorkClass::index, 0, bytes_of(in.subspan(1), out) + static_cast<double>(out[0].bytes())};
  };
  op.half_policy = HalfPolicy::keep;
  op.indices = [](const NodeView& node) { return graph::IndexOperand{1, node.in_type(0).shape[0]}; };
  return op;
}

OpDef scatter_add() {
  OpDef op{.name = "scatter_add",
           .doc =
               "Sum of updates [i..., d...] into {rows} zero rows [d...] by index [i...] (i32 or i64); an index out of "
               "range makes the launch fail. Local: {offset}, {limit} and {begin} as in gather.",
           .inputs = 2};
  op.work = WorkClass::index;
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    const auto &index = in[0], &updates = in[1];
    require_index("scatter_add", index);
    require_number("scatter_add", updates);
    bool prefix =
        updates.rank() >= index.rank() && std::equal(index.shape.begin(), index.shape.end(), updates.shape.begin());
    require(ErrorKind::shape, prefix, "scatter_add: updates ", updates, " do not begin with the shape of the index ",
            index);
    std::int64_t rows = attrs.integer("rows");
    require(ErrorKind::type, rows >= 0, "scatter_add: the number of rows is negative: ", rows);
    TensorType out{updates.dtype, {rows}};
    out.shape.insert(out.shape.end(), updates.shape.begin() + index.rank(), updates.shape.end());
    return std::vector{out};
  };
  op.index = [](const NodeView& node) {
    int indices = node.in_type(0).rank();
    std::string i = numbered("i", indices), d = numbered("d", node.in_type(1).rank() - indices);
    // A device without an index of a row adds nothing to it: its partial sum is 0 there.
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
