// matmul: c[..., m, n] = sum over k of a[..., m, k] b[..., k, n].
#include <algorithm>

#include "karez/ops/build.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

struct Sizes {
  std::int64_t m, k_of_a, k_of_b, n;
};
Sizes sizes_of(const TensorType& a, const TensorType& b, const Attrs& attrs) {
  auto last = [](const TensorType& t, int from_end) {
    return t.shape[t.shape.size() - static_cast<std::size_t>(from_end)];
  };
  int ta = attrs.flag("transpose_a", false) ? 1 : 0, tb = attrs.flag("transpose_b", false) ? 1 : 0;
  return {last(a, 2 - ta), last(a, 1 + ta), last(b, 2 - tb), last(b, 1 + tb)};
}

std::vector<TensorType> infer(std::span<const TensorType> in, const Attrs& attrs) {
  const auto &a = in[0], &b = in[1];
  require_same_dtype("matmul", a, b);
  require_number("matmul", a);
  require(ErrorKind::shape, a.rank() >= 2 && a.rank() == b.rank(), "matmul: ranks must be equal and at least 2, got ",
          a, " x ", b);
  Sizes s = sizes_of(a, b, attrs);
  if (s.k_of_a != s.k_of_b)
    fail(ErrorKind::shape, "matmul: inner sizes differ: ", s.k_of_a, " and ", s.k_of_b, " (", a, " x ", b, ")",
         attrs.empty() ? "" : " with ", attrs.empty() ? "" : attrs.print());
  Shape out;
  out.reserve(a.shape.size());
  out.assign(a.shape.begin(), a.shape.end() - 2);
  if (!std::equal(out.begin(), out.end(), b.shape.begin()))
    fail(ErrorKind::shape, "matmul: batch sizes differ: ", out, " and ", Shape(b.shape.begin(), b.shape.end() - 2),
         " (", a, " x ", b, ")");
  out.push_back(s.m);
  out.push_back(s.n);
  return one_type({product_dtype("matmul", a.dtype, attrs), std::move(out)});
}

// Letters are b0, b1, ... for the batch, and m, k, n.
Signature index(const NodeView& node) {
  std::string batch;
  for (int d = 0; d < node.in_type(0).rank() - 2; ++d) batch += cat("b", d, " ");
  bool ta = node.attrs().flag("transpose_a", false), tb = node.attrs().flag("transpose_b", false);
  return parse_signature(
      cat(batch, ta ? "k m" : "m k", ", ", batch, tb ? "n k" : "k n", " -> ", batch, "m n | linear {0} {1}"));
}

// Let a' and b' be the operands after transposition. Then da' = dy b'^T and db' = a'^T dy. If an operand is transposed,
// its gradient is the transpose of this product: (x y)^T = y^T x^T.
std::vector<ValueId> grad(Builder& b, const NodeView& n, std::span<const ValueId> dy) {
  bool ta = n.attrs().flag("transpose_a", false), tb = n.attrs().flag("transpose_b", false);
  ValueId x = n.in(0), w = n.in(1);
  using build::matmul;
  ValueId dx =
      ta ? matmul(b, w, dy[0], {.transpose_a = tb, .transpose_b = true}) : matmul(b, dy[0], w, {.transpose_b = !tb});
  ValueId dw =
      tb ? matmul(b, dy[0], x, {.transpose_a = true, .transpose_b = ta}) : matmul(b, x, dy[0], {.transpose_a = !ta});
  return {dx, dw};
}

Cost cost(std::span<const TensorType> in, std::span<const TensorType> out, const Attrs& attrs) {
  double k = static_cast<double>(sizes_of(in[0], in[1], attrs).k_of_a);
  const Shape& c = out[0].shape;
  const double min_extent = std::min({k, static_cast<double>(c[c.size() - 2]), static_cast<double>(c.back())});
  return {WorkClass::matmul, 2 * k * static_cast<double>(out[0].count()), bytes_of(in, out), min_extent};
}

}  // namespace

std::vector<OpDef> matmul_ops() {
  return {
      {.name = "matmul",
       .doc = "Computes the matrix product of a [..., m, k] and b [..., k, n], whose leading dimensions must be equal. "
              "With {transpose_a} or {transpose_b}, the last two dimensions of a or b are exchanged. With {wide}, "
              "the product of bf16 or f16 operands is f32.",
       .inputs = 2,
       .infer = infer,
       .index = index,
       .grad = grad,
       .cost = cost,
       .half_policy = HalfPolicy::multiply}};
}

}  // namespace karez::ops
