// broadcast: repeats a tensor along new dimensions.
#include <algorithm>

#include "karez/ops/build.h"
#include "karez/ops/local_views.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

std::vector<TensorType> infer(std::span<const TensorType> in, const Attrs& attrs) {
  const TensorType& x = in[0];
  const Shape& shape = shape_attr("broadcast", attrs);
  const Ints& dims = attrs.ints("dims");
  require(ErrorKind::shape, static_cast<int>(dims.size()) == x.rank(), "broadcast: dims ", dims, " names ", dims.size(),
          " dimensions, but x is ", x);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    require(ErrorKind::shape, dims[i] >= 0 && dims[i] < static_cast<std::int64_t>(shape.size()),
            "broadcast: dims contain ", dims[i], ", which is not a dimension of ", shape);
    require(ErrorKind::shape, i == 0 || dims[i] > dims[i - 1], "broadcast: dims must increase, got ", dims);
    auto size = shape[static_cast<std::size_t>(dims[i])];
    require(ErrorKind::shape, size == x.shape[i], "broadcast: sizes differ: dimension ", i, " of ", x,
            " and dimension ", dims[i], " of ", shape);
  }
  return one_type({x.dtype, shape});
}

// New dimensions have letters that no operand has, because each device makes its own copies.
Signature index(const NodeView& node) {
  Signature s;
  s.moves = true;
  s.out = {letters(node.out_type(0).shape)};
  s.in.emplace_back();
  for (auto d : node.attrs().ints("dims")) s.in[0].push_back(s.out[0][static_cast<std::size_t>(d)]);
  return s;
}

std::vector<ValueId> grad(Builder& b, const NodeView& n, std::span<const ValueId> dy) {
  const Ints& dims = n.attrs().ints("dims");
  Ints axes;
  for (int d = 0; d < n.out_type(0).rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) axes.push_back(d);
  return {axes.empty() ? dy[0] : build::reduce_sum(b, dy[0], axes)};
}

std::optional<OffsetView> window(const View& x, const Shape& shape, const Attrs& attrs) {
  return OffsetView{broadcast_view(x, shape, attrs.ints("dims")), 0};
}

}  // namespace

std::vector<OpDef> broadcast_ops() {
  return {{.name = "broadcast",
           .doc = "Repeats x to {shape}. Dimension i of x is dimension {dims}[i] of the result, with the same size; "
                  "x is repeated along all other dimensions.",
           .inputs = 1,
           .infer = infer,
           .index = index,
           .grad = grad,
           .cost = no_cost,  // an alias with stride 0 if the consumer accepts one
           .role = Role::window,
           .window = window}};
}

}  // namespace karez::ops
