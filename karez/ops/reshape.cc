// reshape: changes the shape, but not the elements in logical row-major order.
#include <numeric>

#include "karez/ops/build.h"
#include "karez/ops/local_views.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

std::vector<TensorType> infer(std::span<const TensorType> in, const Attrs& attrs) {
  const Shape& shape = shape_attr("reshape", attrs);
  require(ErrorKind::type, count_of(shape) == in[0].count(), "reshape: ", in[0], " has ", in[0].count(),
          " elements, but ", shape, " has ", count_of(shape));
  return one_type({in[0].dtype, shape});
}

std::vector<std::size_t> dims_above_one(const Shape& shape) {
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) dims.push_back(d);
  return dims;
}

// Divides both shapes, without sizes of 1, into the smallest groups of equal product: [6, 4, 5] -> [24, 5] has the
// groups (6, 4 | 24) and (5 | 5). If a group has one dimension on each side, both dimensions have the same letter. In
// other groups, the first dimensions of both sides share a letter, and both must be split at the same elements: a part
// of 24 / k elements consists of complete rows of 4 only if k divides 6. In general, the number of parts k must divide
// both first sizes, and so their greatest common divisor.
Signature index(const NodeView& node) {
  const Shape &from = node.in_type(0).shape, &to = node.out_type(0).shape;
  Signature s;
  s.moves = true;
  s.in.emplace_back(from.size(), never_split);
  s.out.emplace_back(to.size(), never_split);
  if (count_of(from) == 0) return s;
  auto a = dims_above_one(from), b = dims_above_one(to);
  std::size_t i = 0, j = 0, groups = 0;
  while (i < a.size() && j < b.size()) {
    std::size_t i0 = i, j0 = j;
    std::int64_t p = from[a[i++]], q = to[b[j++]];
    while (p != q) {
      if (p < q) p *= from[a[i++]];
      else q *= to[b[j++]];
    }
    bool is_single = i == i0 + 1 && j == j0 + 1;
    std::int64_t shared = std::gcd(from[a[i0]], to[b[j0]]);
    if (!is_single && shared == 1) continue;
    std::string name = letter(groups++);
    s.in[0][a[i0]] = s.out[0][b[j0]] = name;
    if (!is_single) s.divides[name] = shared;
  }
  return s;
}

std::vector<ValueId> grad(Builder& b, const NodeView& n, std::span<const ValueId> dy) {
  Shape shape = n.in_type(0).shape;
  return {build::reshape(b, dy[0], shape)};
}

std::optional<OffsetView> window(const View& x, const Shape& shape, const Attrs&) {
  auto strides = reshape_strides(x, shape);
  return strides ? std::optional(OffsetView{View(x.dtype, shape, *strides), 0}) : std::nullopt;
}

}  // namespace

std::vector<OpDef> reshape_ops() {
  return {{.name = "reshape",
           .doc = "Returns x with {shape}, which must have the same number of elements. Elements keep their logical "
                  "row-major order.",
           .inputs = 1,
           .infer = infer,
           .index = index,
           .grad = grad,
           .cost = no_cost,  // an alias, unless the strides of x require a copy
           .role = Role::window,
           .window = window}};
}

}  // namespace karez::ops
