// Two-dimensional convolution (cross-correlation, as in other frameworks), optionally in groups of channels, and its
// two gradients, which are separate ops.
#include "karez/ops/build.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"
#include "karez/ops/window.h"

namespace karez::ops {
namespace {

constexpr const char* image = "x [n, c, h, w]";
constexpr const char* weight = "w [o, c / groups, r, s]";
constexpr const char* result = "dy [n, o, p, q]";

void check_operands(std::string_view op, const TensorType& a, const TensorType& b) {
  require_same_dtype(op, a, b);
  require_float(op, a);
}

// Returns the number of groups, which must divide the channels of operand and result.
std::int64_t groups_of(std::string_view op, const Attrs& attrs, std::int64_t channels, std::int64_t outputs) {
  const std::int64_t groups = attrs.integer("groups", 1);
  require(ErrorKind::shape, groups >= 1 && channels % groups == 0 && outputs % groups == 0, op, ": ", groups,
          " groups do not divide ", channels, " input channels and ", outputs, " output channels");
  return groups;
}

Ints spatial_size(const TensorType& t) { return {t.shape[2], t.shape[3]}; }

std::vector<TensorType> infer_forward(std::span<const TensorType> in, const Attrs& attrs) {
  const auto &x = in[0], &w = in[1];
  require_rank("conv2d", x, 4, image);
  require_rank("conv2d", w, 4, weight);
  check_operands("conv2d", x, w);
  const std::int64_t groups = groups_of("conv2d", attrs, x.shape[1], w.shape[0]);
  if (x.shape[1] / groups != w.shape[1])
    fail(ErrorKind::shape, "conv2d: channels differ: ", x.shape[1] / groups, " and ", w.shape[1], " (", x, " x ", w,
         ")", groups > 1 ? cat(" in ", groups, " groups") : "");
  Ints kernel = spatial_size(w);
  Ints size = output_size("conv2d", window_of("conv2d", attrs, &kernel), x.shape);
  return one_type({product_dtype("conv2d", x.dtype, attrs), {x.shape[0], w.shape[0], size[0], size[1]}});
}

std::vector<TensorType> infer_grad_input(std::span<const TensorType> in, const Attrs& attrs) {
  const auto &dy = in[0], &w = in[1];
  require_rank("conv2d_grad_input", dy, 4, result);
  require_rank("conv2d_grad_input", w, 4, weight);
  check_operands("conv2d_grad_input", dy, w);
  require(ErrorKind::shape, dy.shape[1] == w.shape[0], "conv2d_grad_input: output channels differ: ", dy.shape[1],
          " and ", w.shape[0], " (", dy, " x ", w, ")");
  const Shape& shape = shape_attr("conv2d_grad_input", attrs);
  const std::int64_t groups = groups_of("conv2d_grad_input", attrs, shape.size() == 4 ? shape[1] : 0, w.shape[0]);
  require(ErrorKind::shape, shape.size() == 4 && shape[0] == dy.shape[0] && shape[1] == w.shape[1] * groups,
          "conv2d_grad_input: shape ", shape, " does not match dy ", dy, " and w ", w);
  Ints kernel = spatial_size(w);
  require_output_size("conv2d_grad_input", window_of("conv2d_grad_input", attrs, &kernel), shape, dy);
  return one_type({product_dtype("conv2d_grad_input", dy.dtype, attrs), shape});
}

std::vector<TensorType> infer_grad_weight(std::span<const TensorType> in, const Attrs& attrs) {
  const auto &x = in[0], &dy = in[1];
  require_rank("conv2d_grad_weight", x, 4, image);
  require_rank("conv2d_grad_weight", dy, 4, result);
  check_operands("conv2d_grad_weight", x, dy);
  require(ErrorKind::shape, x.shape[0] == dy.shape[0], "conv2d_grad_weight: batch sizes differ: ", x.shape[0], " and ",
          dy.shape[0], " (", x, " x ", dy, ")");
  Window window = window_of("conv2d_grad_weight", attrs);
  require_output_size("conv2d_grad_weight", window, x.shape, dy);
  const std::int64_t groups = groups_of("conv2d_grad_weight", attrs, x.shape[1], dy.shape[1]);
  return {{product_dtype("conv2d_grad_weight", x.dtype, attrs),
           {dy.shape[1], x.shape[1] / groups, window.kernel[0], window.kernel[1]}}};
}

// Each of the three ops computes n * o * p * q * c * r * s products, with one multiplication and one addition each.
// SIMD vectors hold channels of the result, or of y for the gradient of the weights.
Cost conv_cost(WorkClass work, std::int64_t channels, const TensorType& y, const Shape& w,
               std::span<const TensorType> in, std::span<const TensorType> out) {
  double products_per_result = static_cast<double>(checked_mul(w[1], checked_mul(w[2], w[3])));
  return {work, 2 * static_cast<double>(y.count()) * products_per_result, bytes_of(in, out),
          static_cast<double>(channels)};
}

// Without groups, channels may be split anywhere; with groups, only between groups.
std::function<Signature(const NodeView&)> index_of(const char* ungrouped, const char* grouped) {
  return [ungrouped, grouped](const NodeView& n) {
    const std::int64_t groups = n.attrs().integer("groups", 1);
    return parse_signature(groups == 1 ? std::string(ungrouped)
                                       : cat(grouped, " | g divides ", groups, " | linear {0} {1}"));
  };
}

// Sets the number of local groups. `outputs` is the index of the output channels in [o, ...] or [n, o, ...].
Attrs localise_groups(const LocalView& view, const Box& local, const Shape& logical, std::size_t outputs) {
  Attrs attrs = view.node.attrs();
  if (attrs.has("shape")) attrs.set("shape", shape_of(view.out[0]));
  if (attrs.has("groups"))
    attrs.set("groups",
              attrs.integer("groups") * shape_of(local)[outputs] / std::max<std::int64_t>(logical[outputs], 1));
  return attrs;
}

OpDef forward() {
  return {
      .name = "conv2d",
      .doc =
          "Applies a 2D convolution: y[n, o, p, q] = sum over c, r, s of x[n, c, p stride + r dilation - padding, "
          "...] w[o, c, r, s], where x is 0 out of bounds. With {groups}, c runs over the channels of the group of o.",
      .inputs = 2,
      .infer = infer_forward,
      .index = index_of("n c _ _, o c _ _ -> n o _ _ | linear {0} {1}", "n g _ _, g _ _ _ -> n g _ _"),
      .localise =
          [](const LocalView& view) { return localise_groups(view, view.in[1], view.node.in_type(1).shape, 0); },
      .grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
        auto options = conv_options(n.attrs());
        ValueId x = n.in(0), w = n.in(1);
        Shape shape = n.in_type(0).shape;
        Ints kernel = spatial_size(n.in_type(1));
        return {build::conv2d_grad_input(b, dy[0], w, options, shape),
                build::conv2d_grad_weight(b, x, dy[0], options, kernel)};
      },
      .cost = [](std::span<const TensorType> in, std::span<const TensorType> out,
                 const Attrs&) { return conv_cost(WorkClass::conv, out[0].shape[1], out[0], in[1].shape, in, out); },
      .half_policy = HalfPolicy::multiply};
}

OpDef grad_input() {
  return {.name = "conv2d_grad_input",
          .doc =
              "Computes the gradient of conv2d with respect to x [n, c, h, w] = {shape}, from dy [n, o, p, q] and "
              "w [o, c, r, s].",
          .inputs = 2,
          .infer = infer_grad_input,
          .index = index_of("n o _ _, o c _ _ -> n c _ _ | linear {0} {1}", "n g _ _, g _ _ _ -> n g _ _"),
          .localise =
              [](const LocalView& view) { return localise_groups(view, view.in[1], view.node.in_type(1).shape, 0); },
          .grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dy) -> std::vector<ValueId> {
            auto options = conv_options(n.attrs());
            ValueId y = n.in(0), w = n.in(1);
            Ints kernel = spatial_size(n.in_type(1));
            return {build::conv2d(b, dy[0], w, options), build::conv2d_grad_weight(b, dy[0], y, options, kernel)};
          },
          .cost =
              [](std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
                return conv_cost(WorkClass::conv_input, out[0].shape[1], in[0], in[1].shape, in, out);
              },
          .half_policy = HalfPolicy::multiply};
}

OpDef grad_weight() {
  return {.name = "conv2d_grad_weight",
          .doc =
              "Computes the gradient of conv2d with respect to w [o, c, r, s], where [r, s] = {kernel}, from "
              "x [n, c, h, w] and dy [n, o, p, q].",
          .inputs = 2,
          .infer = infer_grad_weight,
          .index = index_of("n c _ _, n o _ _ -> o c _ _ | linear {0} {1}", "n g _ _, n g _ _ -> g _ _ _"),
          .localise =
              [](const LocalView& view) { return localise_groups(view, view.in[1], view.node.in_type(1).shape, 1); },
          .grad = [](Builder& b, const NodeView& n, std::span<const ValueId> dw) -> std::vector<ValueId> {
            auto options = conv_options(n.attrs());
            ValueId x = n.in(0), y = n.in(1);
            Shape shape = n.in_type(0).shape;
            return {build::conv2d_grad_input(b, y, dw[0], options, shape), build::conv2d(b, x, dw[0], options)};
          },
          .cost =
              [](std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
                return conv_cost(WorkClass::conv_weight, out[0].shape[0], in[1], out[0].shape, in, out);
              },
          .half_policy = HalfPolicy::multiply};
}

}  // namespace

std::vector<OpDef> conv2d_ops() { return {forward(), grad_input(), grad_weight()}; }

}  // namespace karez::ops
