// Average pooling and its gradient on oneDNN with channels-last data; averages include padding, as by default in
// PyTorch.
#include "karez/kernels/cpu/onednn_call.h"

namespace karez::kernels {
namespace {

using dnnl::memory;

struct Pooling {
  memory::desc x, y;
  memory::dims kernel, stride, padding, right_padding, dilation{0, 0};
};

std::optional<Pooling> pooling_of(const CallSpec& call, const View& x, const View& y) {
  for (const View* view : {&x, &y})
    if (view->rank() != 4 || view->dtype != DType::f32 ||
        !same_order(view->shape, view->strides, channels_last(view->shape)))
      return std::nullopt;
  Pooling out;
  out.x = memory::desc(x.shape, memory::data_type::f32, memory::format_tag::nhwc);
  out.y = memory::desc(y.shape, memory::data_type::f32, memory::format_tag::nhwc);
  out.kernel = call.attrs.ints("kernel");
  out.stride = call.attrs.has("stride") ? call.attrs.ints("stride") : memory::dims{1, 1};
  out.padding = call.attrs.has("padding") ? call.attrs.ints("padding") : memory::dims{0, 0};
  if (call.attrs.has("dilation"))
    for (auto step : call.attrs.ints("dilation"))
      if (step != 1) return std::nullopt;
  // oneDNN derives the windows from the right padding, which is negative if the last windows end before the edge.
  for (std::size_t d = 0; d < 2; ++d)
    out.right_padding.push_back((y.shape[d + 2] - 1) * out.stride[d] + out.kernel[d] - x.shape[d + 2] - out.padding[d]);
  return out;
}

constexpr auto average = dnnl::algorithm::pooling_avg_include_padding;

dnnl::pooling_v2_forward::primitive_desc forward_of(const OneDnnCall& plan, const Pooling& p) {
  return {{dnnl::prop_kind::forward_training, average, p.x, p.y, p.stride, p.kernel, p.dilation, p.padding,
           p.right_padding},
          OneDnnCall::attributes(),
          plan.engine()};
}

}  // namespace

bool onednn_avg_pool(OneDnnCall& plan, const CallSpec& call, std::string& implementation) {
  if (call.in.size() != 1 || call.out.size() != 1) return false;
  const auto p = pooling_of(call, call.in[0], call.out[0]);
  if (!p) return false;
  const auto pd = forward_of(plan, *p);
  implementation = pd.impl_info_str();
  if (is_reference(implementation.c_str())) return false;
  plan.add<dnnl::pooling_v2_forward>(pd, {{DNNL_ARG_SRC, plan.input(0, p->x)}, {DNNL_ARG_DST, plan.output(0, p->y)}});
  return true;
}

bool onednn_avg_pool_grad(OneDnnCall& plan, const CallSpec& call, std::string& implementation) {
  if (call.in.size() != 1 || call.out.size() != 1) return false;
  const auto p = pooling_of(call, call.out[0], call.in[0]);
  if (!p) return false;
  const dnnl::pooling_v2_backward::primitive_desc pd(
      {average, p->x, p->y, p->stride, p->kernel, p->dilation, p->padding, p->right_padding}, OneDnnCall::attributes(),
      plan.engine(), forward_of(plan, *p));
  implementation = pd.impl_info_str();
  if (is_reference(implementation.c_str())) return false;
  plan.add<dnnl::pooling_v2_backward>(
      pd, {{DNNL_ARG_DIFF_DST, plan.input(0, p->y)}, {DNNL_ARG_DIFF_SRC, plan.output(0, p->x)}});
  return true;
}

}  // namespace karez::kernels
