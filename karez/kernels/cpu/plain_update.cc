// Optimiser steps on any number of tensors in one call, as in PyTorch: SGD with momentum, Adam, and conditional forms
// of both. Each result is computed in double and rounded once.
#include <cmath>

#include "karez/kernels/cpu/conditional_update.h"
#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {
namespace {

// The loops of a call whose inputs are (w, m, [v,] g) for each tensor, followed by `scalars` scalars, and whose outputs
// are (w', m', [v']) for each tensor. Outputs may alias their inputs.
struct UpdateLoops {
  std::size_t per_in, per_out, count;
  std::vector<Loops> loops;  // for each tensor; the operands are its outputs, then its inputs
};
UpdateLoops update_loops_of(const CallSpec& call, std::size_t per_in, std::size_t scalars) {
  UpdateLoops out{per_in, per_in - 1, (call.in.size() - scalars) / per_in, {}};
  for (std::size_t t = 0; t < out.count; ++t) {
    std::vector<Strides> strides;
    const Shape& shape = call.out[t * out.per_out].shape;
    for (const auto& [views, per] : {std::pair{&call.out, out.per_out}, std::pair{&call.in, per_in}})
      for (std::size_t i = t * per; i < (t + 1) * per; ++i) {
        require_fit((*views)[i].shape == shape, call, cat("tensor ", t, " has operands of different shapes"));
        strides.push_back((*views)[i].strides);
      }
    out.loops.push_back(loops_over(shape, strides, Order::by_memory));
  }
  return out;
}

bool supports(const CallSpec& call, std::size_t per_in, std::size_t scalars) {
  if (!has_operands(call, -1, -1) || call.in.size() < per_in + scalars || (call.in.size() - scalars) % per_in != 0)
    return false;
  if (call.out.size() != (call.in.size() - scalars) / per_in * (per_in - 1) || !is_float(call.out[0].dtype))
    return false;
  const DType dtype = call.out[0].dtype;
  const std::size_t lr = call.in.size() - scalars;
  for (std::size_t i = 0; i <= lr; ++i)
    if (call.in[i].dtype != dtype) return false;
  return all_dtype(call.out, dtype) && call.in[lr].count() == 1 &&
         (scalars == 1 || (call.in[lr + 1].dtype == DType::i64 && call.in[lr + 1].count() == 1));
}

PreparedKernel sgd(const CallSpec& call) {
  const double momentum = call.attrs.real("momentum"), decay = call.attrs.real("weight_decay", 0);
  const bool nesterov = call.attrs.flag("nesterov", false);
  return with_float(call.out[0].dtype, [&]<class T>() -> PreparedKernel {
    return [tensors = update_loops_of(call, 3, 1), momentum, decay, nesterov](const KernelArgs& args) {
      const double lr = *elements<T>(args.in[args.in.size() - 1]);
      for (std::size_t t = 0; t < tensors.count; ++t) {
        T *w_out = elements<T>(args.out[2 * t]), *m_out = elements<T>(args.out[2 * t + 1]);
        const T *w_in = elements<T>(args.in[3 * t]), *m_in = elements<T>(args.in[3 * t + 1]),
                *g_in = elements<T>(args.in[3 * t + 2]);
        for_each_element(tensors.loops[t], [&](const auto& offsets) {
          const double w = w_in[offsets[2]];
          const double g = g_in[offsets[4]] + decay * w;
          const double m = momentum * m_in[offsets[3]] + g;
          w_out[offsets[0]] = static_cast<T>(w - lr * (nesterov ? g + momentum * m : m));
          m_out[offsets[1]] = static_cast<T>(m);
        });
      }
    };
  });
}

PreparedKernel adam(const CallSpec& call) {
  const double beta1 = call.attrs.real("beta1"), beta2 = call.attrs.real("beta2"), eps = call.attrs.real("eps");
  const double decay = call.attrs.real("weight_decay", 0);
  const bool decoupled = call.attrs.flag("decoupled", false);
  return with_float(call.out[0].dtype, [&]<class T>() -> PreparedKernel {
    return [tensors = update_loops_of(call, 4, 2), beta1, beta2, eps, decay, decoupled](const KernelArgs& args) {
      const double lr = *elements<T>(args.in[args.in.size() - 2]);
      const auto step = static_cast<double>(*elements<std::int64_t>(args.in[args.in.size() - 1]));
      const double rate = lr / (1 - std::pow(beta1, step)),
                   root = std::sqrt(1 - std::pow(beta2, step));  // with bias corrections
      for (std::size_t t = 0; t < tensors.count; ++t) {
        T *w_out = elements<T>(args.out[3 * t]), *m_out = elements<T>(args.out[3 * t + 1]),
          *v_out = elements<T>(args.out[3 * t + 2]);
        const T *w_in = elements<T>(args.in[4 * t]), *m_in = elements<T>(args.in[4 * t + 1]);
        const T *v_in = elements<T>(args.in[4 * t + 2]), *g_in = elements<T>(args.in[4 * t + 3]);
        for_each_element(tensors.loops[t], [&](const auto& offsets) {
          const double old = w_in[offsets[3]];
          const double w = decoupled ? old * (1 - lr * decay) : old;
          const double g =
              g_in[offsets[6]] +
              (decoupled || decay == 0 ? 0 : decay * old);  // zero times a NaN weight must not reach the moments
          const double m = beta1 * m_in[offsets[4]] + (1 - beta1) * g;
          const double v = beta2 * v_in[offsets[5]] + (1 - beta2) * g * g;
          w_out[offsets[0]] = static_cast<T>(w - rate * m / (std::sqrt(v) / root + eps));
          m_out[offsets[1]] = static_cast<T>(m);
          v_out[offsets[2]] = static_cast<T>(v);
        });
      }
    };
  });
}

KernelRow row_of(const char* op, std::size_t per_in, std::size_t scalars, PreparedKernel (*prepare)(const CallSpec&)) {
  return plain_row(
      op, [=](const CallSpec& call) { return supports(call, per_in, scalars); }, prepare);
}

KernelRow conditional_row(const char* op, std::size_t per_in, std::size_t scalars,
                          PreparedKernel (*prepare)(const CallSpec&)) {
  return plain_row(
      op, [=](const CallSpec& call) { return has_apply(call) && supports(without_apply(call), per_in, scalars); },
      [=](const CallSpec& call) { return make_conditional(call, per_in, prepare(without_apply(call))); });
}

}  // namespace

std::vector<KernelRow> plain_update_rows() {
  return {row_of("sgd", 3, 1, sgd), row_of("adam", 4, 2, adam), conditional_row("sgd_if", 3, 1, sgd),
          conditional_row("adam_if", 4, 2, adam)};
}

}  // namespace karez::kernels
