// slice, concat and pad; the gradient of each uses the others.
#include "karez/base/attr_cast.h"
#include "karez/ops/build.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

// Returns a letter for every dimension that is neither sliced nor padded; the others must not be split.
Signature unsliced_letters(const NodeView& node, const Ints& begin) {
  const Shape &x = node.in_type(0).shape, &y = node.out_type(0).shape;
  Signature s;
  s.in = {letters(x)};
  for (std::size_t d = 0; d < x.size(); ++d)
    if (x[d] != y[d] || begin[d] != 0) s.in[0][d] = never_split;
  s.out = s.in;
  return s;
}

OpDef slice() {
  OpDef op{.name = "slice", .doc = "Returns the box of x that begins at {begin} and has the size {size}.", .inputs = 1};
  op.work = WorkClass::move;
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    auto rank = in[0].shape.size();
    Ints begin = ints_of("slice", attrs, "begin", rank, 0), size = ints_of("slice", attrs, "size", rank, 0);
    for (std::size_t d = 0; d < rank; ++d)
      require(ErrorKind::shape, checked_add(begin[d], size[d]) <= in[0].shape[d], "slice: ", begin[d], " to ",
              begin[d] + size[d], " is not within dimension ", d, " of ", in[0]);
    return one_type({in[0].dtype, std::move(size)});
  };
  op.index = [](const NodeView& node) {
    Signature s = unsliced_letters(node, node.attrs().ints("begin"));
    s.moves = true;
    return s;
  };
  op.localise = [](const LocalView& view) {
    Attrs attrs = view.node.attrs();
    return attrs.set("size", shape_of(view.out[0]));  // begin is 0 in every dimension that may be split
  };
  op.grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    Ints low = n.attrs().ints("begin"), high = n.in_type(0).shape;
    const Shape& size = n.out_type(0).shape;
    for (std::size_t d = 0; d < low.size(); ++d) high[d] -= low[d] + size[d];
    return {build::pad(b, dy[0], low, high)};
  };
  op.role = Role::window;
  op.window = [](const View& x, const Shape& shape, const Attrs& attrs) -> std::optional<OffsetView> {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) offset += attrs.ints("begin")[d] * x.strides[d];
    return OffsetView{View(x.dtype, shape, x.strides), count_of(shape) == 0 ? 0 : offset * size_of(x.dtype)};
  };
  return op;
}

OpDef concat() {
  OpDef op{.name = "concat",
           .doc = "Concatenates the operands along {axis}; their other dimensions must be equal.",
           .inputs = -1};
  op.work = WorkClass::move;
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    require(ErrorKind::shape, !in.empty(), "concat: expected at least one operand");
    auto axis = static_cast<std::size_t>(axis_of("concat", attrs, in[0]));
    TensorType out = in[0];
    for (const auto& x : in.subspan(1)) {
      require_same_dtype("concat", in[0], x);
      Shape expected = x.shape;
      if (expected.size() == in[0].shape.size()) expected[axis] = in[0].shape[axis];
      require(ErrorKind::shape, expected == in[0].shape, "concat: shapes differ in dimensions other than axis ", axis,
              ": ", in[0], " and ", x);
      out.shape[axis] = checked_add(out.shape[axis], x.shape[axis]);
    }
    return one_type(std::move(out));
  };
  op.index = [](const NodeView& node) {
    auto axis = static_cast<std::size_t>(node.attrs().integer("axis"));
    Signature s;
    auto row = letters(node.out_type(0).shape);
    row[axis] = never_split;
    s.in.assign(node.in_count(), row);
    s.out = {row};
    std::vector<int> operands;
    for (int i = 0; i < static_cast<int>(node.in_count()); ++i) operands.push_back(i);
    s.linear = {operands};
    s.picks = true;
    return s;
  };
  op.grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) {
    auto axis = static_cast<std::size_t>(n.attrs().integer("axis"));
    std::vector<ValueId> out;
    Ints begin(n.out_type(0).shape.size());
    for (const TensorType& type : n.in_types()) {
      out.push_back(build::slice(b, dy[0], begin, type.shape));
      begin[axis] += type.shape[axis];
    }
    return out;
  };
  op.half_policy = HalfPolicy::keep;
  return op;
}

OpDef pad() {
  OpDef op{
      .name = "pad",
      .doc =
          "Pads x in every dimension with {low} elements before it and {high} elements after it, all equal to {value}.",
      .inputs = 1};
  op.work = WorkClass::move;
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    auto rank = in[0].shape.size();
    Ints low = ints_of("pad", attrs, "low", rank, 0), high = ints_of("pad", attrs, "high", rank, 0);
    try {
      if (attrs.has("value")) with_type(in[0].dtype, [&]<class T>() { attr_cast<T>(attr_at(attrs, "value")); });
    } catch (const Error& error) { fail("pad: ", error.what()); }
    TensorType out = in[0];
    for (std::size_t d = 0; d < rank; ++d) out.shape[d] = checked_add(checked_add(low[d], out.shape[d]), high[d]);
    return one_type(std::move(out));
  };
  op.index = [](const NodeView& node) {
    Signature s = unsliced_letters(node, node.attrs().ints("low"));
    // If every summand were padded with v, the sum would be padded with a multiple of v.
    if (node.attrs().real("value", 0) == 0) s.linear = {{0}};
    return s;
  };
  op.grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    Ints low = n.attrs().ints("low");
    Shape size = n.in_type(0).shape;
    return {build::slice(b, dy[0], low, size)};
  };
  op.half_policy = HalfPolicy::keep;
  return op;
}

}  // namespace

std::vector<OpDef> slice_ops() { return {slice(), concat(), pad()}; }

}  // namespace karez::ops
