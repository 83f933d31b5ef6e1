// Max and average pooling over windows of [n, c, h, w], and their gradients.
#include "karez/ops/build.h"
#include "karez/ops/compose.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"
#include "karez/ops/window.h"

namespace karez::ops {
namespace {

constexpr const char* image = "x [n, c, h, w]";
constexpr const char* result = "dy [n, c, p, q]";

// As in PyTorch, padding is at most half of the kernel, so that no window contains only padding.
void check_padding(std::string_view op, const Window& window) {
  for (std::size_t i = 0; i < 2; ++i)
    require(ErrorKind::shape, 2 * window.padding[i] <= window.kernel[i], op, ": padding ", window.padding,
            " is more than half of the kernel ", window.kernel);
}

TensorType infer_forward(std::string_view op, const TensorType& x, const Attrs& attrs) {
  require_rank(op, x, 4, image);
  require_float(op, x);
  Window window = window_of(op, attrs);
  check_padding(op, window);
  Ints size = output_size(op, window, x.shape);
  return {x.dtype, {x.shape[0], x.shape[1], size[0], size[1]}};
}

TensorType infer_gradient(std::string_view op, const TensorType& dy, const Attrs& attrs) {
  require_rank(op, dy, 4, result);
  require_float(op, dy);
  Shape shape = shape_attr(op, attrs);
  require(ErrorKind::shape, shape.size() == 4 && shape[0] == dy.shape[0] && shape[1] == dy.shape[1], op, ": shape ",
          shape, " does not match dy ", dy);
  Window window = window_of(op, attrs);
  check_padding(op, window);
  require_output_size(op, window, shape, dy);
  return {dy.dtype, shape};
}

OpDef max_pool() {
  return {
      .name = "max_pool",
      .doc =
          "Applies 2D max pooling: returns the maximum of each {kernel} window of x [n, c, h, w], with {stride} "
          "between windows, and its position r * kernel width + s in the window (i32). Of equal maxima, the position "
          "is that of the first one; {padding} is ignored.",
      .inputs = 1,
      .infer =
          [](std::span<const TensorType> in, const Attrs& attrs) {
            TensorType y = infer_forward("max_pool", in[0], attrs);
            return std::vector{y, TensorType{DType::i32, y.shape}};
          },
      .index = "n c _ _ -> n c _ _, n c _ _",
      .grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
        if (!dy[0].valid()) return {ValueId()};
        Shape shape = n.in_type(0).shape;
        return {build::max_pool_grad(b, dy[0], n.out(1), pool_options(n.attrs()), shape)};
      }};
}

// The elements of x [n, c, h, w] at the positions that max_pool returned; 0 for a position outside of x or the window.
ValueId elements_at(Builder& b, ValueId x, ValueId index, const build::PoolOptions& o) {
  const Shape from = b.type(x).shape, to = b.type(index).shape;
  const std::int64_t height = from[2], width = from[3];
  const auto number = [&](std::int64_t value) { return build::full_like(b, index, static_cast<double>(value)); };
  const auto scaled = [&](ValueId value, std::int64_t factor) { return build::mul(b, value, number(factor)); };
  // The position of an element along one axis, of which the window has `within`.
  const auto position = [&](std::size_t axis, ValueId within) {
    const ValueId window = build::iota(b, {DType::i32, to}, static_cast<int>(axis) + 2);
    const ValueId begin = scaled(window, o.stride[axis]), padding = number(o.padding[axis]);
    return build::sub(b, build::add(b, begin, within), padding);
  };
  const ValueId in_row = build::div(b, index, number(o.kernel[1]));
  const ValueId row = position(0, in_row), column = position(1, build::sub(b, index, scaled(in_row, o.kernel[1])));
  const ValueId operands[] = {row, column, index};
  const ValueId is_inside = build::pointwise(
      b,
      cat("x0 >= 0 && x0 < ", height, " && x1 >= 0 && x1 < ", width, " && x2 >= 0 && x2 < ", o.kernel[0] * o.kernel[1]),
      operands);
  const ValueId first = number(0);
  ValueId element = build::select(b, is_inside, build::add(b, scaled(row, width), column), first);
  element = build::reshape(b, element, {to[0], to[1], to[2] * to[3]});
  const ValueId flat = build::reshape(b, x, {from[0], from[1], height * width});
  const ValueId taken = build::reshape(b, build::take_along(b, flat, element, 2), to);
  return build::select(b, is_inside, taken, build::full_like(b, taken, 0));
}

OpDef max_pool_grad() {
  return {.name = "max_pool_grad",
          .doc =
              "Computes the gradient of max_pool with respect to x of {shape}, from dy [n, c, p, q] and the positions "
              "that max_pool returned.",
          .inputs = 2,
          .infer =
              [](std::span<const TensorType> in, const Attrs& attrs) {
                require(ErrorKind::type, in[1] == TensorType{DType::i32, in[0].shape},
                        "max_pool_grad: the index must be i32 with the shape of dy ", in[0], ", got ", in[1]);
                return std::vector{infer_gradient("max_pool_grad", in[0], attrs)};
              },
          .index = "n c _ _, n c _ _ -> n c _ _ | linear {0}",
          .grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dx) -> std::vector<ValueId> {
            return {elements_at(b, dx[0], n.in(1), pool_options(n.attrs())), ValueId()};
          }};
}

OpDef avg_pool() {
  return {.name = "avg_pool",
          .doc =
              "Applies 2D average pooling: returns the mean of each {kernel} window of x [n, c, h, w], with {stride} "
              "between windows. {padding} counts as zeros.",
          .inputs = 1,
          .infer = [](std::span<const TensorType> in,
                      const Attrs& attrs) { return std::vector{infer_forward("avg_pool", in[0], attrs)}; },
          .index = "n c _ _ -> n c _ _ | linear {0}",
          .grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
            Shape shape = n.in_type(0).shape;
            return {build::avg_pool_grad(b, dy[0], pool_options(n.attrs()), shape)};
          }};
}

OpDef avg_pool_grad() {
  return {.name = "avg_pool_grad",
          .doc = "Computes the gradient of avg_pool with respect to x of {shape}, from dy [n, c, p, q].",
          .inputs = 1,
          .infer = [](std::span<const TensorType> in,
                      const Attrs& attrs) { return std::vector{infer_gradient("avg_pool_grad", in[0], attrs)}; },
          .index = "n c _ _ -> n c _ _ | linear {0}",
          .grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
            return {build::avg_pool(b, dy[0], pool_options(n.attrs()))};
          }};
}

}  // namespace

std::vector<OpDef> pool_ops() {
  std::vector<OpDef> ops = {max_pool(), max_pool_grad(), avg_pool(), avg_pool_grad()};
  for (OpDef& op : ops) op.half_policy = HalfPolicy::widen_and_round, op.work = WorkClass::pool;
  return ops;
}

}  // namespace karez::ops
