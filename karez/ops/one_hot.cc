// one_hot and arg_max: conversions between indices and vectors.
#include "karez/ops/build.h"
#include "karez/ops/index_bounds.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

OpDef one_hot() {
  OpDef op{
      .name = "one_hot",
      .doc =
          "Returns, for each index of [i...] (i32 or i64), a row of {depth} elements of {dtype}: 1 at the index and 0 "
          "elsewhere. An index out of range makes the launch fail, with an error that calls the index {of} "
          "('the index' by default). Local attributes: {offset} is the logical position of the first local "
          "element of a row, {limit} the logical depth, {begin} the logical position of the first local index.",
      .inputs = 1};
  op.work = WorkClass::move;
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    require_index("one_hot", in[0]);
    std::int64_t depth = attrs.integer("depth");
    require(ErrorKind::type, depth >= 0, "one_hot: depth must be at least 0, got ", depth);
    TensorType out{dtype_from(attrs.text("dtype")), in[0].shape};
    out.shape.push_back(depth);
    return one_type(std::move(out));
  };
  op.index = [](const NodeView& node) {
    Signature s;
    s.out = {letters(node.out_type(0).shape)};
    s.in = {{s.out[0].begin(), s.out[0].end() - 1}};
    return s;
  };
  op.localise = [](const LocalView& view) {
    Attrs attrs = view.node.attrs();
    const Range& range = view.out[0].back();
    const std::int64_t depth = attrs.integer("depth");
    attrs.set("depth", range.size());
    return with_index_bounds(std::move(attrs), view.in[0], range, depth);
  };
  op.no_grad = "its operand is an index";
  op.indices = [](const NodeView& node) { return graph::IndexOperand{0, node.attrs().integer("depth")}; };
  return op;
}

OpDef arg_max() {
  OpDef op{.name = "arg_max",
           .doc = "Returns the index (i64) of the first maximum along {axis}, which is removed.",
           .inputs = 1};
  op.work = WorkClass::index;
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    require_number("arg_max", in[0]);
    auto axis = axis_of("arg_max", attrs, in[0]);
    require(ErrorKind::shape, in[0].shape[static_cast<std::size_t>(axis)] > 0, "arg_max: axis ", axis, " of ", in[0],
            " is empty");
    TensorType out{DType::i64, in[0].shape};
    out.shape.erase(out.shape.begin() + axis);
    return one_type(std::move(out));
  };
  op.index = [](const NodeView& node) {
    auto axis = node.attrs().integer("axis");
    Signature s;
    s.in = {letters(node.in_type(0).shape)};
    s.in[0][static_cast<std::size_t>(axis)] = never_split;
    s.out = s.in;
    s.out[0].erase(s.out[0].begin() + axis);
    return s;
  };
  op.no_grad = "its result is an index";
  return op;
}

}  // namespace

std::vector<OpDef> index_ops() { return {one_hot(), arg_max()}; }

}  // namespace karez::ops
