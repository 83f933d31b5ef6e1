// Matrix products on oneDNN: transposes become strides, the bias is an operand, and ReLU is a separate pass.
#include <algorithm>

#include "karez/kernels/cpu/onednn_call.h"

namespace karez::kernels {

// For the small products of an MLP (batch 64), oneDNN's `matmul` on strided weights is faster than its inner product,
// and faster than blocked weights with their reorders; see bench/kernel_rates.
bool onednn_matmul(OneDnnCall& plan, const CallSpec& call, std::string& implementation) {
  const bool bias = call.attrs.flag("bias", false);
  if (call.in.size() != (bias ? 3u : 2u) || call.out.size() != 1) return false;
  if (!onednn_supports_product(call.in[0], call.in[1], call.out[0])) return false;
  View y = call.out[0];
  bool exchanged = false;
  const int rank = y.rank();
  if (rank < 2 || call.in[0].rank() != rank || call.in[1].rank() != rank) return false;

  View a = call.in[0], b = call.in[1];
  for (auto [view, name] : {std::pair{&a, "transpose_a"}, std::pair{&b, "transpose_b"}}) {
    if (!call.attrs.flag(name, false)) continue;
    std::swap(view->shape[view->shape.size() - 1], view->shape[view->shape.size() - 2]);
    std::swap(view->strides[view->strides.size() - 1], view->strides[view->strides.size() - 2]);
  }
  // If the columns of the result are contiguous, computes its transpose instead: the product of the transposed operands
  // in exchanged order.
  const auto column_dim = static_cast<std::size_t>(rank - 1), row_dim = column_dim - 1;
  if (!bias && y.shape[row_dim] > 1 && y.strides[row_dim] == 1 && y.strides[column_dim] != 1) {
    for (View* view : {&a, &b, &y}) {
      std::swap(view->shape[column_dim], view->shape[row_dim]);
      std::swap(view->strides[column_dim], view->strides[row_dim]);
    }
    std::swap(a, b);
    exchanged = true;
  }
  for (const View* view : {&std::as_const(a), &std::as_const(b), &std::as_const(y)})
    for (int d = 0; d < rank; ++d)
      if (view->strides[static_cast<std::size_t>(d)] == 0 && view->shape[static_cast<std::size_t>(d)] > 1) return false;

  const bool relu = call.attrs.flag("relu", false);
  if (relu && !is_dense(y.shape, y.strides)) return false;
  const auto a_desc = onednn_desc(a), b_desc = onednn_desc(b), y_desc = onednn_desc(y);
  dnnl::memory::desc bias_desc;
  if (bias) {
    const View& v = call.in[2];
    if (v.dtype != DType::f32 || v.rank() != 1 || v.shape[0] != y.shape.back() || (v.shape[0] > 1 && v.strides[0] != 1))
      return false;
    Shape shape(static_cast<std::size_t>(rank), 1);
    shape.back() = v.shape[0];
    bias_desc = onednn_desc(View(DType::f32, shape));
  }
  const dnnl::matmul::desc desc =
      bias ? dnnl::matmul::desc(a_desc, b_desc, bias_desc, y_desc) : dnnl::matmul::desc(a_desc, b_desc, y_desc);
  const dnnl::matmul::primitive_desc pd(desc, OneDnnCall::attributes(), plan.engine());
  implementation = pd.impl_info_str();
  if (is_reference(implementation.c_str())) return false;
  const int ma = plan.input(exchanged ? 1 : 0, a_desc), mb = plan.input(exchanged ? 0 : 1, b_desc),
            my = plan.output(0, y_desc);
  if (bias)
    plan.add<dnnl::matmul>(
        pd,
        {{DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, mb}, {DNNL_ARG_BIAS, plan.input(2, bias_desc)}, {DNNL_ARG_DST, my}});
  else plan.add<dnnl::matmul>(pd, {{DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, mb}, {DNNL_ARG_DST, my}});
  if (relu) plan.add_relu(y);
  return true;
}

}  // namespace karez::kernels
