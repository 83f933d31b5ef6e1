// Convolutions on oneDNN with channels-last data. oneDNN chooses a blocked format for the weights, and a reorder
// converts to or from this format.
#include "karez/kernels/cpu/onednn_call.h"

namespace karez::kernels {
namespace {

using dnnl::memory;

// The descriptions that the forward pass and both gradients share. Data must be channels-last, because oneDNN 2.6 uses
// its slow GEMM path for row-major data. oneDNN chooses the format of the weights, because it uses a reference
// implementation for plain weights. Weights are small, so their reorder takes only a few per cent of the time.
struct Convolution {
  memory::desc x, w, w_any, y;
  memory::dims stride, dilation, padding;
};

memory::dims pair_of(const Attrs& attrs, const char* name, std::int64_t default_value) {
  return attrs.has(name) ? attrs.ints(name) : memory::dims{default_value, default_value};
}

// Describes weights [o, c / groups, r, s] in oneDNN's form, in which groups are a separate dimension.
memory::desc weights_of(const View& w, std::int64_t groups) {
  const memory::desc plain = onednn_desc(w);
  return groups == 1 ? plain : plain.reshape({groups, w.shape[0] / groups, w.shape[1], w.shape[2], w.shape[3]});
}
memory::desc any_weights(const View& w, DType dtype, std::int64_t groups) {
  return {weights_of(w, groups).dims(), onednn_type(dtype), memory::format_tag::any};
}

std::optional<Convolution> convolution_of(const Attrs& attrs, const View& x, const View& w, const View& y) {
  for (const View* view : {&x, &w, &y})
    if (view->rank() != 4 || (view->dtype != DType::f32 && view->dtype != DType::bf16)) return std::nullopt;
  for (const View* view : {&x, &y})
    if (!same_order(view->shape, view->strides, channels_last(view->shape))) return std::nullopt;
  const std::int64_t groups = attrs.integer("groups", 1);
  if (!is_dense(w.shape, w.strides) || groups < 1 || w.shape[0] % groups != 0) return std::nullopt;
  Convolution out;
  out.x = memory::desc(x.shape, onednn_type(x.dtype), memory::format_tag::nhwc);
  out.y = memory::desc(y.shape, onednn_type(y.dtype), memory::format_tag::nhwc);
  out.w = weights_of(w, groups);
  out.w_any = any_weights(w, w.dtype, groups);
  out.stride = pair_of(attrs, "stride", 1);
  out.padding = pair_of(attrs, "padding", 0);
  out.dilation = pair_of(attrs, "dilation", 1);
  for (auto& step : out.dilation) --step;  // oneDNN counts the skipped elements
  return out;
}

constexpr auto direct = dnnl::algorithm::convolution_direct;

dnnl::convolution_forward::primitive_desc forward_of(const OneDnnCall& plan, const Convolution& c,
                                                     const memory::desc* bias) {
  constexpr auto kind = dnnl::prop_kind::forward_training;
  if (bias != nullptr)
    return {{kind, direct, c.x, c.w_any, *bias, c.y, c.stride, c.dilation, c.padding, c.padding},
            OneDnnCall::attributes(),
            plan.engine()};
  return {{kind, direct, c.x, c.w_any, c.y, c.stride, c.dilation, c.padding, c.padding},
          OneDnnCall::attributes(),
          plan.engine()};
}

}  // namespace

bool onednn_conv2d(OneDnnCall& plan, const CallSpec& call, std::string& implementation) {
  const bool bias = call.attrs.flag("bias", false);
  if (call.in.size() != (bias ? 3u : 2u) || call.out.size() != 1) return false;
  if (!onednn_supports_product(call.in[0], call.in[1], call.out[0])) return false;
  const auto c = convolution_of(call.attrs, call.in[0], call.in[1], call.out[0]);
  if (!c) return false;
  const bool relu = call.attrs.flag("relu", false);
  memory::desc bias_desc;
  if (bias) {
    const View& b = call.in[2];
    if (b.rank() != 1 || b.dtype != DType::f32 || b.shape[0] != call.out[0].shape[1] || !b.contiguous()) return false;
    bias_desc = memory::desc(b.shape, memory::data_type::f32, memory::format_tag::x);
  }
  const auto pd = forward_of(plan, *c, bias ? &bias_desc : nullptr);
  implementation = pd.impl_info_str();
  if (is_reference(implementation.c_str())) return false;
  const int x = plan.input(0, c->x), w = plan.reorder_to(plan.input(1, c->w), pd.weights_desc()),
            y = plan.output(0, c->y);
  if (bias)
    plan.add<dnnl::convolution_forward>(
        pd, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_BIAS, plan.input(2, bias_desc)}, {DNNL_ARG_DST, y}});
  else plan.add<dnnl::convolution_forward>(pd, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
  if (relu) plan.add_relu(call.out[0]);
  return true;
}

bool onednn_conv2d_grad_input(OneDnnCall& plan, const CallSpec& call, std::string& implementation) {
  if (call.in.size() != 2 || call.out.size() != 1) return false;
  if (!onednn_supports_product(call.in[0], call.in[1], call.out[0])) return false;
  const auto c = convolution_of(call.attrs, call.out[0], call.in[1], call.in[0]);
  if (!c) return false;
  Convolution forward = *c;
  forward.x = memory::desc(call.out[0].shape, onednn_type(call.in[1].dtype),
                           memory::format_tag::nhwc);  // the type of the operands, not of a wide result
  const auto hint = forward_of(plan, forward, nullptr);
  const dnnl::convolution_backward_data::primitive_desc pd(
      {direct, c->x, c->w_any, c->y, c->stride, c->dilation, c->padding, c->padding}, OneDnnCall::attributes(),
      plan.engine(), hint);
  implementation = pd.impl_info_str();
  if (is_reference(implementation.c_str())) return false;
  const int dy = plan.input(0, c->y), w = plan.reorder_to(plan.input(1, c->w), pd.weights_desc()),
            dx = plan.output(0, c->x);
  plan.add<dnnl::convolution_backward_data>(pd,
                                            {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, dx}});
  return true;
}

bool onednn_conv2d_grad_weight(OneDnnCall& plan, const CallSpec& call, std::string& implementation) {
  if (call.in.size() != 2 || call.out.size() != 1) return false;
  if (!onednn_supports_product(call.in[0], call.in[1], call.out[0])) return false;
  const auto c = convolution_of(call.attrs, call.in[0], call.out[0], call.in[1]);
  if (!c) return false;
  Convolution forward = *c;
  forward.w_any = any_weights(call.out[0], call.in[0].dtype, call.attrs.integer("groups", 1));
  const auto hint = forward_of(plan, forward, nullptr);
  const dnnl::convolution_backward_weights::primitive_desc pd(
      {direct, c->x, c->w_any, c->y, c->stride, c->dilation, c->padding, c->padding}, OneDnnCall::attributes(),
      plan.engine(), hint);
  implementation = pd.impl_info_str();
  if (is_reference(implementation.c_str())) return false;
  const int x = plan.input(0, c->x), dy = plan.input(1, c->y), out = plan.output(0, c->w);
  const bool same_format = pd.diff_weights_desc() == c->w;
  const int dw = same_format ? out : plan.temporary(pd.diff_weights_desc());
  plan.add<dnnl::convolution_backward_weights>(
      pd, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, dw}});
  if (!same_format) plan.reorder(dw, out);
  return true;
}

}  // namespace karez::kernels
