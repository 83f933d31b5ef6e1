// Optimiser steps on any number of f32 tensors in one call, as in PyTorch: SGD with momentum, Adam, and conditional
// forms of both. They may run in place, and memory bandwidth limits their speed.
#include "karez/device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_update.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <vector>

#include "karez/kernels/cpu/conditional_update.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/team.h"

#ifndef KAREZ_HWY_UPDATE
#define KAREZ_HWY_UPDATE
namespace karez::kernels {

struct SgdCoefficients {
  float lr, momentum, decay;
  bool nesterov;
};
struct AdamCoefficients {
  float rate, decay_factor, beta1, beta2, one_minus_beta1, one_minus_beta2, inv_sqrt_correction2, eps,
      decay;  // one_minus_beta = 1 - beta; inv_sqrt_correction2 = 1 / sqrt(1 - beta2^step)
};

}  // namespace karez::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace karez::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls body(i, load, store) over [0, count), for full vectors and then a masked tail. Both use the same arithmetic, so
// the result of an element does not depend on how a team divides the elements.
template <class Body> HWY_INLINE void for_vectors(std::int64_t count, Body body) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  const auto load = [d](const float* p) HWY_ATTR { return hn::LoadU(d, p); };
  const auto store = [d](hn::Vec<decltype(d)> v, float* p) HWY_ATTR { hn::StoreU(v, d, p); };
  for (; i + lanes <= count; i += lanes) body(i, load, store);
  if (i == count) return;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(count - i));
  body(
      i, [d, mask](const float* p) HWY_ATTR { return hn::MaskedLoad(mask, d, p); },
      [d, mask](hn::Vec<decltype(d)> v, float* p) HWY_ATTR { hn::BlendedStore(v, mask, d, p); });
}

void sgd_range(const SgdCoefficients& n, const float* w, const float* m, const float* g, float* w_out, float* m_out,
               std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lr = hn::Set(d, n.lr), momentum = hn::Set(d, n.momentum), decay = hn::Set(d, n.decay);
  for_vectors(count, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
    const auto old = load(w + i);
    const auto grad = hn::MulAdd(decay, old, load(g + i));
    const auto next = hn::MulAdd(momentum, load(m + i), grad);
    const auto step = n.nesterov ? hn::MulAdd(momentum, next, grad) : next;
    store(hn::NegMulAdd(lr, step, old), w_out + i);
    store(next, m_out + i);
  });
}

void adam_range(const AdamCoefficients& n, const float* const* in, float* const* out, std::int64_t first,
                std::int64_t count) {
  const hn::ScalableTag<float> d;
  const float *w = in[0] + first, *m = in[1] + first, *v = in[2] + first, *g = in[3] + first;
  float *w_out = out[0] + first, *m_out = out[1] + first, *v_out = out[2] + first;
  const auto rate = hn::Set(d, n.rate), decay_factor = hn::Set(d, n.decay_factor), beta1 = hn::Set(d, n.beta1),
             beta2 = hn::Set(d, n.beta2);
  const auto one_minus_beta1 = hn::Set(d, n.one_minus_beta1), one_minus_beta2 = hn::Set(d, n.one_minus_beta2),
             inv_sqrt_correction2 = hn::Set(d, n.inv_sqrt_correction2), eps = hn::Set(d, n.eps);
  const auto decay = hn::Set(d, n.decay);
  const bool decays = n.decay != 0;  // zero times a NaN weight must not reach the moments
  for_vectors(count, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
    const auto old = load(w + i);
    const auto raw_gradient = load(g + i);
    const auto grad = decays ? hn::MulAdd(decay, old, raw_gradient) : raw_gradient;
    const auto mean = hn::MulAdd(beta1, load(m + i), hn::Mul(one_minus_beta1, grad));
    const auto square = hn::MulAdd(beta2, load(v + i), hn::Mul(hn::Mul(one_minus_beta2, grad), grad));
    const auto denominator = hn::MulAdd(hn::Sqrt(square), inv_sqrt_correction2, eps);
    store(hn::NegMulAdd(rate, hn::Div(mean, denominator), hn::Mul(old, decay_factor)), w_out + i);
    store(mean, m_out + i);
    store(square, v_out + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace karez::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
namespace {
HWY_EXPORT(sgd_range);
HWY_EXPORT(adam_range);

constexpr std::int64_t grain = 16384;  // fewer elements are not worth a second thread

// The tensors of a call, concatenated; a thread's part may begin and end inside a tensor.
struct PackedTensors {
  std::vector<std::int64_t> begin{0};

  template <class Body> void run(int team, Body body) const {
    parallel_for(team, begin.back(), grain, [&](std::int64_t from, std::int64_t to, int) {
      for (std::size_t t = 0; t + 1 < begin.size(); ++t) {
        const std::int64_t a = std::max(from, begin[t]), b = std::min(to, begin[t + 1]);
        if (a < b) body(t, a - begin[t], b - a);
      }
    });
  }
};

// Returns whether all tensors are f32 and the operands of each tensor are dense in the same order.
bool supports(const CallSpec& call, std::size_t per_in, std::size_t scalars) {
  if (!has_operands(call, -1, -1) || call.in.size() < per_in + scalars || (call.in.size() - scalars) % per_in != 0)
    return false;
  const std::size_t count = (call.in.size() - scalars) / per_in, lr = count * per_in;
  if (call.out.size() != count * (per_in - 1)) return false;
  for (std::size_t t = 0; t < count; ++t) {
    const View& first = call.in[t * per_in];
    if (!is_dense(first.shape, first.strides)) return false;
    const auto fits = [&](const View& v) {
      return v.dtype == DType::f32 && v.shape == first.shape && same_order(v.shape, v.strides, first.strides);
    };
    for (std::size_t i = 0; i < per_in; ++i)
      if (!fits(call.in[t * per_in + i]) || (i + 1 < per_in && !fits(call.out[t * (per_in - 1) + i]))) return false;
  }
  return call.in[lr].dtype == DType::f32 && call.in[lr].count() == 1 &&
         (scalars == 1 || (call.in[lr + 1].dtype == DType::i64 && call.in[lr + 1].count() == 1));
}

PackedTensors pack(const CallSpec& call, std::size_t per_in, std::size_t scalars) {
  PackedTensors out;
  for (std::size_t t = 0; t < (call.in.size() - scalars) / per_in; ++t)
    out.begin.push_back(out.begin.back() + call.in[t * per_in].count());
  return out;
}

PreparedKernel sgd(const CallSpec& call) {
  SgdCoefficients coefficients{0, static_cast<float>(call.attrs.real("momentum")),
                               static_cast<float>(call.attrs.real("weight_decay", 0)),
                               call.attrs.flag("nesterov", false)};
  return [packed = pack(call, 3, 1), coefficients, team = call.team](const KernelArgs& args) {
    SgdCoefficients current = coefficients;
    current.lr = *elements<float>(args.in[args.in.size() - 1]);
    packed.run(team, [&](std::size_t t, std::int64_t first, std::int64_t count) {
      const auto in = [&](std::size_t i) { return elements<float>(args.in[3 * t + i]) + first; };
      HWY_DYNAMIC_DISPATCH(sgd_range)
      (current, in(0), in(1), in(2), elements<float>(args.out[2 * t]) + first,
       elements<float>(args.out[2 * t + 1]) + first, count);
    });
  };
}

PreparedKernel adam(const CallSpec& call) {
  const double beta1 = call.attrs.real("beta1"), beta2 = call.attrs.real("beta2"),
               decay = call.attrs.real("weight_decay", 0);
  const bool decoupled = call.attrs.flag("decoupled", false);
  AdamCoefficients coefficients{};
  coefficients.beta1 = static_cast<float>(beta1), coefficients.beta2 = static_cast<float>(beta2);
  coefficients.one_minus_beta1 = static_cast<float>(1 - beta1),
  coefficients.one_minus_beta2 = static_cast<float>(1 - beta2);
  coefficients.eps = static_cast<float>(call.attrs.real("eps"));
  coefficients.decay = static_cast<float>(decoupled ? 0 : decay);
  return [packed = pack(call, 4, 2), coefficients, beta1, beta2, decay_factor = decoupled ? decay : 0,
          team = call.team](const KernelArgs& args) {
    const double lr = *elements<float>(args.in[args.in.size() - 2]);
    const auto step = static_cast<double>(*elements<std::int64_t>(args.in[args.in.size() - 1]));
    AdamCoefficients current = coefficients;  // with the bias corrections of this step
    current.rate = static_cast<float>(lr / (1 - std::pow(beta1, step)));
    current.inv_sqrt_correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, step)));
    current.decay_factor = static_cast<float>(1 - lr * decay_factor);
    packed.run(team, [&](std::size_t t, std::int64_t first, std::int64_t count) {
      const float* in[4];
      float* out[3];
      for (std::size_t i = 0; i < 4; ++i) in[i] = elements<float>(args.in[4 * t + i]);
      for (std::size_t i = 0; i < 3; ++i) out[i] = elements<float>(args.out[3 * t + i]);
      HWY_DYNAMIC_DISPATCH(adam_range)(current, in, out, first, count);
    });
  };
}

KernelRow row_of(const char* op, std::size_t per_in, std::size_t scalars, PreparedKernel (*prepare)(const CallSpec&)) {
  KernelRow row;
  row.name = cat("hwy.", op);
  row.op = op;
  row.rank = 10;
  row.supports = [=](const CallSpec& call) { return supports(call, per_in, scalars); };
  row.prepare = prepare;
  return row;
}

KernelRow conditional_row(const char* op, std::size_t per_in, std::size_t scalars,
                          PreparedKernel (*prepare)(const CallSpec&)) {
  KernelRow row = row_of(op, per_in, scalars, prepare);
  row.supports = [=](const CallSpec& call) {
    return has_apply(call) && supports(without_apply(call), per_in, scalars);
  };
  row.prepare = [=](const CallSpec& call) { return make_conditional(call, per_in, prepare(without_apply(call))); };
  return row;
}

}  // namespace

std::vector<KernelRow> hwy_update_rows() {
  return {row_of("sgd", 3, 1, sgd), row_of("adam", 4, 2, adam), conditional_row("sgd_if", 3, 1, sgd),
          conditional_row("adam_if", 4, 2, adam)};
}

}  // namespace karez::kernels
#endif
