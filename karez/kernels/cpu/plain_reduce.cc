// Sums, maxima and minima over axes, and arg_max along one axis.
#include <limits>

#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {
namespace {

// The kept dimensions of x (with the output's strides) and the reduced ones.
struct Reduction {
  Loops kept;  // operand 0 is y, operand 1 is x
  Loops gone;  // operand 0 is x
};
Reduction reduction_of(const CallSpec& call, const Ints& axes) {
  const View &x = call.in[0], &y = call.out[0];
  std::vector<bool> goes(x.shape.size(), false);
  for (std::int64_t axis : axes) {
    require_fit(axis >= 0 && axis < x.rank() && !goes[static_cast<std::size_t>(axis)], call,
                "an axis is out of range for the input, or given twice");
    goes[static_cast<std::size_t>(axis)] = true;
  }
  Shape kept, gone;
  Strides kept_x, gone_x;
  for (std::size_t d = 0; d < goes.size(); ++d) {
    (goes[d] ? gone : kept).push_back(x.shape[d]);
    (goes[d] ? gone_x : kept_x).push_back(x.strides[d]);
  }
  require_fit(kept == y.shape, call, "the output's shape differs from the expected one");
  return {loops_over(kept, {y.strides, kept_x}, Order::by_memory), loops_over(gone, {gone_x}, Order::logical)};
}

// The `step` of each kind, starting at its identity; sums of f32 are accumulated in double.
template <class T> struct Sum {
  using Kept = Wide<T>;
  static constexpr Kept identity = 0;
  static Kept step(Kept sum, T x) { return sum + static_cast<Kept>(x); }
};
template <class T> struct Max {
  using Kept = T;
  static constexpr T identity = std::numeric_limits<T>::has_infinity
                                    ? static_cast<T>(-std::numeric_limits<T>::infinity())
                                    : std::numeric_limits<T>::lowest();
  static T step(T best, T x) { return ieee_maximum(best, x); }
};
template <class T> struct Min {
  using Kept = T;
  static constexpr T identity =
      std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  static T step(T best, T x) { return ieee_minimum(best, x); }
};

template <template <class> class Kind, class T> PreparedKernel reduce_typed(const Reduction& reduction) {
  return [reduction](const KernelArgs& args) {
    const T* x = elements<T>(args.in[0]);
    T* y = elements<T>(args.out[0]);
    const std::int64_t count = reduction.gone.inner(), step = reduction.gone.step(0);
    for_each_element(reduction.kept, [&](const auto& at) {
      auto kept = Kind<T>::identity;
      for_each_run(reduction.gone, [&](const auto& run) {
        const T* from = x + at[1] + run[0];
        for (std::int64_t i = 0; i < count; ++i) kept = Kind<T>::step(kept, from[i * step]);
      });
      y[at[0]] = static_cast<T>(kept);
    });
  };
}

PreparedKernel sum(const CallSpec& call) {
  const Reduction reduction = reduction_of(call, call.attrs.ints("axes"));
  return with_number(call.in[0].dtype, [&]<class T>() { return reduce_typed<Sum, T>(reduction); });
}
template <template <class> class Kind> PreparedKernel extreme(const CallSpec& call) {
  const Reduction reduction = reduction_of(call, call.attrs.ints("axes"));
  return with_type(call.in[0].dtype, [&]<class T>() { return reduce_typed<Kind, T>(reduction); });
}

// The index of the first maximum; NaN counts as the maximum. Along an empty axis: 0.
PreparedKernel arg_max(const CallSpec& call) {
  const Reduction reduction = reduction_of(call, {call.attrs.integer("axis")});
  return with_type(call.in[0].dtype, [&]<class T>() -> PreparedKernel {
    return [reduction](const KernelArgs& args) {
      const std::int64_t count = reduction.gone.inner(), step = reduction.gone.step(0);
      for_each_element(reduction.kept, [&](const auto& at) {
        const T* x = elements<T>(args.in[0]) + at[1];
        std::int64_t best = 0;
        for (std::int64_t i = 1; i < count; ++i) {
          const T value = x[i * step], old = x[best * step];
          if (value > old || (value != value && old == old)) best = i;
        }
        elements<std::int64_t>(args.out[0])[at[0]] = best;
      });
    };
  });
}

bool same_type(const CallSpec& call) { return takes(call, 1, 1) && call.in[0].dtype == call.out[0].dtype; }

}  // namespace

std::vector<KernelRow> plain_reduce_rows() {
  return {plain_row(
              "reduce_sum", [](const CallSpec& call) { return same_type(call) && call.in[0].dtype != DType::b8; }, sum),
          plain_row("reduce_max", same_type, extreme<Max>), plain_row("reduce_min", same_type, extreme<Min>),
          plain_row(
              "arg_max", [](const CallSpec& call) { return takes(call, 1, 1) && call.out[0].dtype == DType::i64; },
              arg_max)};
}

}  // namespace karez::kernels
