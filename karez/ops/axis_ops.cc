// Ops along one axis: cumsum, sort, take_along and resize, and add_along and resize_grad, which are gradients.
#include "karez/ops/build.h"
#include "karez/ops/index_bounds.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

// Returns the letters of a shape, with `label` for the axis.
std::vector<std::string> letters_with_axis(const Shape& shape, int axis, const std::string& label) {
  std::vector<std::string> out = letters(shape);
  out[static_cast<std::size_t>(axis)] = label;
  return out;
}

int axis_attr(const NodeView& node) { return static_cast<int>(node.attrs().integer("axis")); }

OpDef cumsum() {
  OpDef op{
      .name = "cumsum",
      .doc =
          "Returns the inclusive cumulative sum along {axis}, or from the last element to the first with {reverse}. "
          "Integers wrap around on overflow.",
      .inputs = 1};
  op.work = WorkClass::index;
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    require_number("cumsum", in[0]);
    axis_of("cumsum", attrs, in[0]);
    return one_type(in[0]);
  };
  op.index = [](const NodeView& node) {
    Signature s;
    s.in = {letters_with_axis(node.in_type(0).shape, axis_attr(node), never_split)};
    s.out = s.in;
    s.linear = {{0}};
    return s;
  };
  op.grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    return {build::cumsum(b, dy[0], axis_attr(n), !n.attrs().flag("reverse", false))};
  };
  return op;
}

OpDef sort() {
  OpDef op{
      .name = "sort",
      .doc =
          "Sorts the elements along {axis} in ascending order, or in descending order with {descending}, and returns "
          "them with their original indices (i64). With {first}, returns only the first {first} elements. Equal "
          "elements keep their order; NaN is larger than every number.",
      .inputs = 1};
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    require_number("sort", in[0]);
    const auto axis = static_cast<std::size_t>(axis_of("sort", attrs, in[0]));
    const std::int64_t size = in[0].shape[axis], first = attrs.integer("first", size);
    require(ErrorKind::shape, first >= 0 && first <= size, "sort: first is ", first, ", but axis ", axis, " of ", in[0],
            " has size ", size);
    Shape shape = in[0].shape;
    shape[axis] = first;
    return std::vector<TensorType>{{in[0].dtype, shape}, {DType::i64, shape}};
  };
  op.index = [](const NodeView& node) {
    Signature s;
    s.in = {letters_with_axis(node.in_type(0).shape, axis_attr(node), never_split)};
    s.out = {s.in[0], s.in[0]};
    return s;
  };
  op.grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    if (!dy[0].valid()) return {ValueId()};
    const int axis = axis_attr(n);
    return {build::add_along(b, n.out(1), dy[0], n.in_type(0).shape[static_cast<std::size_t>(axis)], axis)};
  };
  // Sorting compares each element with about log2(size) others.
  op.cost = [](std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
    const std::int64_t size = in[0].shape[static_cast<std::size_t>(attrs.integer("axis"))];
    double rounds = 1;
    for (std::int64_t n = size; n > 1; n /= 2) ++rounds;
    return Cost{WorkClass::index, 0, bytes_of(in, out) * rounds};
  };
  return op;
}

// Requires that the shapes are equal except along the axis.
void require_equal_shapes_except(std::string_view op, const TensorType& a, const TensorType& b, std::size_t axis) {
  Shape left = a.shape, right = b.shape;
  const bool same_rank = left.size() == right.size();
  if (same_rank) left[axis] = right[axis] = 0;
  require(ErrorKind::shape, same_rank && left == right, op, ": ", a, " and ", b,
          " differ in dimensions other than axis ", axis);
}

OpDef take_along() {
  OpDef op{
      .name = "take_along",
      .doc =
          "Returns, for each element of the index tensor (i32 or i64), the element of x at this index along {axis} and "
          "at the same position in the other dimensions, whose sizes must be equal in both tensors. An index out of "
          "range makes the launch fail. Local attributes: {offset}, {limit} and {begin}, as in gather.",
      .inputs = 2};
  op.work = WorkClass::index;
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    require_number("take_along", in[0]);
    require_index("take_along", in[1]);
    require_equal_shapes_except("take_along", in[0], in[1],
                                static_cast<std::size_t>(axis_of("take_along", attrs, in[0])));
    return std::vector<TensorType>{{in[0].dtype, in[1].shape}};
  };
  op.index = [](const NodeView& node) {
    Signature s;
    s.in = {letters_with_axis(node.in_type(0).shape, axis_attr(node), "from"),
            letters_with_axis(node.in_type(1).shape, axis_attr(node), "to")};
    s.out = {s.in[1]};
    s.reduced["from"] = Reduce::sum;
    s.masked = {"from"};
    s.linear = {{0}};
    return s;
  };
  op.localise = [](const LocalView& view) {
    const auto axis = static_cast<std::size_t>(axis_attr(view.node));
    return with_index_bounds(view.node.attrs(), view.in[1], view.in[0][axis], view.node.in_type(0).shape[axis]);
  };
  op.grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    const int axis = axis_attr(n);
    return {build::add_along(b, n.in(1), dy[0], n.in_type(0).shape[static_cast<std::size_t>(axis)], axis), ValueId()};
  };
  op.indices = [](const NodeView& node) {
    return graph::IndexOperand{1, node.in_type(0).shape[static_cast<std::size_t>(axis_attr(node))]};
  };
  return op;
}

OpDef add_along() {
  OpDef op{
      .name = "add_along",
      .doc =
          "Returns a tensor with {size} elements along {axis}: zeros to which each update is added at its index (i32 "
          "or i64). Index and updates have the same shape. An index out of range makes the launch fail. Local "
          "attributes: {offset}, {limit} and {begin}, as in gather.",
      .inputs = 2};
  op.work = WorkClass::index;
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    const auto &index = in[0], &updates = in[1];
    require_index("add_along", index);
    require_number("add_along", updates);
    require(ErrorKind::shape, index.shape == updates.shape, "add_along: the index ", index, " and updates ", updates,
            " have different shapes");
    const auto axis = static_cast<std::size_t>(axis_of("add_along", attrs, updates));
    const std::int64_t size = attrs.integer("size");
    require(ErrorKind::type, size >= 0, "add_along: size must be at least 0, got ", size);
    TensorType out = updates;
    out.shape[axis] = size;
    return one_type(std::move(out));
  };
  op.index = [](const NodeView& node) {
    Signature s;
    s.in = {letters_with_axis(node.in_type(0).shape, axis_attr(node), "from")};
    s.in.push_back(s.in[0]);
    s.out = {letters_with_axis(node.out_type(0).shape, axis_attr(node), "to")};
    s.reduced["from"] = Reduce::sum;
    s.masked = {"from"};
    s.linear = {{1}};
    return s;
  };
  op.localise = [](const LocalView& view) {
    const auto axis = static_cast<std::size_t>(axis_attr(view.node));
    Attrs attrs = view.node.attrs();
    attrs.set("size", view.out[0][axis].size());
    return with_index_bounds(std::move(attrs), view.in[0], view.out[0][axis], view.node.out_type(0).shape[axis]);
  };
  op.grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    return {ValueId(), build::take_along(b, dy[0], n.in(0), axis_attr(n))};
  };
  op.indices = [](const NodeView& node) {
    return graph::IndexOperand{0, node.out_type(0).shape[static_cast<std::size_t>(axis_attr(node))]};
  };
  return op;
}

// `resize` and its gradient, which is linear too, so each is the gradient of the other.
OpDef resize_op(std::string name, std::string gradient, std::string doc, bool of_bytes) {
  OpDef op{.name = name, .doc = std::move(doc), .inputs = 1, .example = cat(name, "(f32[6, 4]) {axis=1, size=3}")};
  op.work = WorkClass::pool, op.half_policy = HalfPolicy::widen_and_round;
  op.infer = [name, of_bytes](std::span<const TensorType> in, const Attrs& attrs) {
    TensorType out = in[0];
    require(ErrorKind::type, is_float(out.dtype) || (of_bytes && out.dtype == DType::u8), name, ": expected ",
            of_bytes ? "u8 or floats" : "floats", ", got ", out, "; cast it first");
    const auto axis = static_cast<std::size_t>(axis_of(name, attrs, out));
    const std::int64_t size = attrs.integer("size");
    require(ErrorKind::shape, size >= 1 && out.shape[axis] >= 1, name, ": sizes must be at least 1, got ",
            out.shape[axis], " to ", size);
    out.shape[axis] = size;
    return one_type(std::move(out));
  };
  op.index = [](const NodeView& node) {
    Signature s;
    s.in = {letters_with_axis(node.in_type(0).shape, axis_attr(node), never_split)};
    s.out = s.in;
    if (is_float(node.in_type(0).dtype)) s.linear = {{0}};
    return s;
  };
  op.grad = [gradient](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    Attrs attrs = n.attrs();
    attrs.set("size", n.in_type(0).shape[static_cast<std::size_t>(axis_attr(n))]);
    return {b.one(gradient, {dy[0]}, attrs)};
  };
  return op;
}

}  // namespace

std::vector<OpDef> axis_ops() {
  return {cumsum(),
          sort(),
          take_along(),
          add_along(),
          resize_op("resize", "resize_grad",
                    "Resizes the dimension {axis} to {size} elements with antialiasing, as PIL's Image.resize: with a "
                    "triangle filter or, with {bicubic}, a cubic one. Results of u8 are rounded.",
                    true),
          resize_op("resize_grad", "resize",
                    "Computes the gradient of resize with respect to its operand, which has {size} elements along "
                    "{axis}.",
                    false)};
}

}  // namespace karez::ops
