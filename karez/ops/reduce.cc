// reduce_sum, reduce_max and reduce_min over axes, which they remove.
#include <algorithm>

#include "karez/ops/compose.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

std::vector<bool> reduced_axes(std::string_view op, const TensorType& x, const Attrs& attrs) {
  std::vector<bool> gone(x.shape.size());
  for (auto axis : attrs.ints("axes")) {
    require(ErrorKind::type, axis >= 0 && axis < x.rank(), op, ": axis ", axis, " is not a dimension of ", x);
    require(ErrorKind::shape, !gone[static_cast<std::size_t>(axis)], op, ": axis ", axis, " occurs twice in ",
            attrs.ints("axes"));
    gone[static_cast<std::size_t>(axis)] = true;
  }
  return gone;
}

Ints kept_axes(const std::vector<bool>& gone) {
  Ints kept;
  for (std::size_t d = 0; d < gone.size(); ++d)
    if (!gone[d]) kept.push_back(static_cast<std::int64_t>(d));
  return kept;
}

OpDef reduction(const char* name, const char* doc, Reduce kind) {
  OpDef op{.name = name, .doc = doc, .inputs = 1};
  op.work = WorkClass::reduce;
  op.infer = [name](std::span<const TensorType> in, const Attrs& attrs) {
    require_number(name, in[0]);
    TensorType out{in[0].dtype, {}};
    for (auto d : kept_axes(reduced_axes(name, in[0], attrs)))
      out.shape.push_back(in[0].shape[static_cast<std::size_t>(d)]);
    return std::vector{out};
  };
  op.index = [name, kind](const NodeView& node) {
    const TensorType& x = node.in_type(0);
    Signature s;
    s.in = {letters(x.shape)};
    s.out.emplace_back();
    auto gone = reduced_axes(name, x, node.attrs());
    for (std::size_t d = 0; d < gone.size(); ++d) {
      if (gone[d]) s.reduced[s.in[0][d]] = kind;
      else s.out[0].push_back(s.in[0][d]);
    }
    if (kind == Reduce::sum) s.linear = {{0}};
    return s;
  };
  op.grad = [name, kind](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    ValueId x = n.in(0), y = n.out(0);
    TensorType type = n.in_type(0);
    Ints kept = kept_axes(reduced_axes(name, type, n.attrs()));
    if (kind == Reduce::sum) return {build::broadcast(b, dy[0], type.shape, kept)};
    // Every extreme element gets an equal part of the gradient; if the result is NaN, every NaN does.
    Ints axes = n.attrs().ints("axes");
    ValueId operands[] = {x, build::broadcast(b, y, type.shape, kept)};
    ValueId extreme = build::pointwise(b, "x0 == x1 || x0 != x0", operands);
    ValueId count = build::reduce_sum(b, build::cast(b, extreme, type.dtype), axes);
    ValueId part = build::broadcast(b, build::div(b, dy[0], count), type.shape, kept);
    return {build::select(b, extreme, part, build::full(b, type.dtype, type.shape, 0))};
  };
  return op;
}

}  // namespace

std::vector<OpDef> reduce_ops() {
  return {reduction("reduce_sum", "Sum over {axes}, which are removed; 0 of no elements. Integers wrap.", Reduce::sum),
          reduction("reduce_max",
                    "Largest element over {axes}, which are removed; NaN if there is one, the lowest number of no "
                    "elements. All maxima get equal parts of the gradient.",
                    Reduce::max),
          reduction("reduce_min",
                    "Smallest element over {axes}, which are removed; NaN if there is one, the highest number of no "
                    "elements. All minima get equal parts of the gradient.",
                    Reduce::min)};
}

}  // namespace karez::ops
