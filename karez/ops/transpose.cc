// transpose: permutes dimensions.
#include "karez/ops/build.h"
#include "karez/ops/local_views.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

std::vector<TensorType> infer(std::span<const TensorType> in, const Attrs& attrs) {
  const TensorType& x = in[0];
  const Ints& perm = attrs.ints("perm");
  std::vector<bool> is_used(x.shape.size());
  TensorType out{x.dtype, {}};
  require(ErrorKind::shape, static_cast<int>(perm.size()) == x.rank(), "transpose: perm ", perm, " has ", perm.size(),
          " entries, but x is ", x);
  for (auto d : perm) {
    require(ErrorKind::type, d >= 0 && d < x.rank() && !is_used[static_cast<std::size_t>(d)], "transpose: perm ", perm,
            " is not a permutation of the dimensions of ", x);
    is_used[static_cast<std::size_t>(d)] = true;
    out.shape.push_back(x.shape[static_cast<std::size_t>(d)]);
  }
  return one_type(std::move(out));
}

Signature index(const NodeView& node) {
  Signature s;
  s.moves = true;
  s.in = {letters(node.in_type(0).shape)};
  s.out.emplace_back();
  for (auto d : node.attrs().ints("perm")) s.out[0].push_back(s.in[0][static_cast<std::size_t>(d)]);
  return s;
}

std::vector<ValueId> grad(Builder& b, const NodeView& n, std::span<const ValueId> dy) {
  const Ints& perm = n.attrs().ints("perm");
  Ints inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return {build::transpose(b, dy[0], inverse)};
}

std::optional<OffsetView> window(const View& x, const Shape&, const Attrs& attrs) {
  return OffsetView{transpose_view(x, attrs.ints("perm")), 0};
}

}  // namespace

std::vector<OpDef> transpose_ops() {
  return {{.name = "transpose",
           .doc = "Permutes the dimensions of x: dimension i of the result is dimension {perm}[i] of x.",
           .inputs = 1,
           .infer = infer,
           .index = index,
           .grad = grad,
           .role = Role::window,
           .window = window}};
}

}  // namespace karez::ops
