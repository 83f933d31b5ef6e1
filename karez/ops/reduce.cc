// reduce_sum, reduce_max and reduce_min, which remove the axes that they reduce.
#include <algorithm>

#include "karez/ops/compose.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

std::vector<bool> reduced_axes(std::string_view op, const TensorType& x, const Attrs& attrs) {
  std::vector<bool> is_reduced(x.shape.size());
  for (auto axis : attrs.ints("axes")) {
    require(ErrorKind::type, axis >= 0 && axis < x.rank(), op, ": axis ", axis, " is not a dimension of ", x);
    require(ErrorKind::shape, !is_reduced[static_cast<std::size_t>(axis)], op, ": axis ", axis, " occurs twice in ",
            attrs.ints("axes"));
    is_reduced[static_cast<std::size_t>(axis)] = true;
  }
  return is_reduced;
}

Ints kept_axes(const std::vector<bool>& is_reduced) {
  Ints remaining_axes;
  for (std::size_t d = 0; d < is_reduced.size(); ++d)
    if (!is_reduced[d]) remaining_axes.push_back(static_cast<std::int64_t>(d));
  return remaining_axes;
}

OpDef reduction(const char* name, const char* doc, Reduce kind) {
  OpDef op{.name = name, .doc = doc, .inputs = 1};
  op.work = WorkClass::reduce;
  op.infer = [name](std::span<const TensorType> in, const Attrs& attrs) {
    require_number(name, in[0]);
    TensorType out{in[0].dtype, {}};
    for (auto d : kept_axes(reduced_axes(name, in[0], attrs)))
      out.shape.push_back(in[0].shape[static_cast<std::size_t>(d)]);
    return one_type(std::move(out));
  };
  op.index = [name, kind](const NodeView& node) {
    const TensorType& x = node.in_type(0);
    Signature s;
    s.in = {letters(x.shape)};
    s.out.emplace_back();
    auto is_reduced = reduced_axes(name, x, node.attrs());
    for (std::size_t d = 0; d < is_reduced.size(); ++d) {
      if (is_reduced[d]) s.reduced[s.in[0][d]] = kind;
      else s.out[0].push_back(s.in[0][d]);
    }
    if (kind == Reduce::sum) s.linear = {{0}};
    return s;
  };
  op.grad = [name, kind](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
    ValueId x = n.in(0), y = n.out(0);
    TensorType type = n.in_type(0);
    Ints remaining_axes = kept_axes(reduced_axes(name, type, n.attrs()));
    if (kind == Reduce::sum) return {build::broadcast(b, dy[0], type.shape, remaining_axes)};
    // Every maximum (or minimum) gets an equal part of the gradient; if the result is NaN, every NaN gets an equal
    // part.
    Ints axes = n.attrs().ints("axes");
    ValueId operands[] = {x, build::broadcast(b, y, type.shape, remaining_axes)};
    ValueId is_extremum = build::pointwise(b, "x0 == x1 || x0 != x0", operands);
    ValueId count = build::reduce_sum(b, build::cast(b, is_extremum, type.dtype), axes);
    ValueId share = build::broadcast(b, build::div(b, dy[0], count), type.shape, remaining_axes);
    return {build::select(b, is_extremum, share, build::full(b, type.dtype, type.shape, 0))};
  };
  return op;
}

}  // namespace

std::vector<OpDef> reduce_ops() {
  return {reduction("reduce_sum",
                    "Returns the sum over {axes}, which are removed; 0 if there are no elements. Integers wrap around "
                    "on overflow.",
                    Reduce::sum),
          reduction("reduce_max",
                    "Returns the maximum over {axes}, which are removed; NaN if any element is NaN, and the lowest "
                    "number if there are no elements. All maxima get equal parts of the gradient.",
                    Reduce::max),
          reduction("reduce_min",
                    "Returns the minimum over {axes}, which are removed; NaN if any element is NaN, and the highest "
                    "number if there are no elements. All minima get equal parts of the gradient.",
                    Reduce::min)};
}

}  // namespace karez::ops
