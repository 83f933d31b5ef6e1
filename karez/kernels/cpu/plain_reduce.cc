// Plain kernels of sums, maxima and minima over axes, and of arg_max along one axis.
#include <limits>

#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {
namespace {

// Loops over the kept dimensions of x (with the strides of the output) and over the reduced dimensions.
struct Reduction {
  Loops kept_dims;  // operand 0 is y, operand 1 is x
  Loops reduced;    // operand 0 is x
};
Reduction reduction_of(const CallSpec& call, const Ints& axes) {
  const View &x = call.in[0], &y = call.out[0];
  std::vector<bool> is_reduced(x.shape.size(), false);
  for (std::int64_t axis : axes) {
    require_fit(axis >= 0 && axis < x.rank() && !is_reduced[static_cast<std::size_t>(axis)], call,
                "an axis is out of range for the input or occurs twice");
    is_reduced[static_cast<std::size_t>(axis)] = true;
  }
  Shape kept_dims, reduced;
  Strides kept_x, reduced_x;
  for (std::size_t d = 0; d < is_reduced.size(); ++d) {
    (is_reduced[d] ? reduced : kept_dims).push_back(x.shape[d]);
    (is_reduced[d] ? reduced_x : kept_x).push_back(x.strides[d]);
  }
  require_fit(kept_dims == y.shape, call, "the output has the wrong shape");
  return {loops_over(kept_dims, {y.strides, kept_x}, Order::by_memory),
          loops_over(reduced, {reduced_x}, Order::logical)};
}

// Each kind of reduction starts at `identity` and applies `step`; sums of f32 are accumulated in double.
template <class T> struct Sum {
  using Accumulator = Wide<T>;
  static constexpr Accumulator identity = 0;
  static Accumulator step(Accumulator sum, T x) { return sum + static_cast<Accumulator>(x); }
};
template <class T> struct Max {
  using Accumulator = T;
  static constexpr T identity = std::numeric_limits<T>::has_infinity
                                    ? static_cast<T>(-std::numeric_limits<T>::infinity())
                                    : std::numeric_limits<T>::lowest();
  static T step(T best, T x) { return ieee_maximum(best, x); }
};
template <class T> struct Min {
  using Accumulator = T;
  static constexpr T identity =
      std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  static T step(T best, T x) { return ieee_minimum(best, x); }
};

template <template <class> class Kind, class T> PreparedKernel reduce_typed(const Reduction& reduction) {
  return [reduction](const KernelArgs& args) {
    const T* x = elements<T>(args.in[0]);
    T* y = elements<T>(args.out[0]);
    const std::int64_t count = reduction.reduced.inner(), step = reduction.reduced.step(0);
    for_each_element(reduction.kept_dims, [&](const auto& offsets) {
      auto total = Kind<T>::identity;
      for_each_run(reduction.reduced, [&](const auto& run) {
        const T* from = x + offsets[1] + run[0];
        for (std::int64_t i = 0; i < count; ++i) total = Kind<T>::step(total, from[i * step]);
      });
      y[offsets[0]] = static_cast<T>(total);
    });
  };
}

PreparedKernel sum(const CallSpec& call) {
  const Reduction reduction = reduction_of(call, call.attrs.ints("axes"));
  return with_number(call.in[0].dtype, [&]<class T>() { return reduce_typed<Sum, T>(reduction); });
}
template <template <class> class Kind> PreparedKernel extremum(const CallSpec& call) {
  const Reduction reduction = reduction_of(call, call.attrs.ints("axes"));
  return with_type(call.in[0].dtype, [&]<class T>() { return reduce_typed<Kind, T>(reduction); });
}

// Returns the index of the first maximum; NaN counts as the maximum. Along an empty axis, the index is 0.
PreparedKernel arg_max(const CallSpec& call) {
  const Reduction reduction = reduction_of(call, {call.attrs.integer("axis")});
  return with_type(call.in[0].dtype, [&]<class T>() -> PreparedKernel {
    return [reduction](const KernelArgs& args) {
      const std::int64_t count = reduction.reduced.inner(), step = reduction.reduced.step(0);
      for_each_element(reduction.kept_dims, [&](const auto& offsets) {
        const T* x = elements<T>(args.in[0]) + offsets[1];
        std::int64_t best = 0;
        for (std::int64_t i = 1; i < count; ++i) {
          const T value = x[i * step], old = x[best * step];
          if (value > old || (value != value && old == old)) best = i;
        }
        elements<std::int64_t>(args.out[0])[offsets[0]] = best;
      });
    };
  });
}

bool same_type(const CallSpec& call) { return has_operands(call, 1, 1) && call.in[0].dtype == call.out[0].dtype; }

}  // namespace

std::vector<KernelRow> plain_reduce_rows() {
  return {
      plain_row(
          "reduce_sum", [](const CallSpec& call) { return same_type(call) && call.in[0].dtype != DType::b8; }, sum),
      plain_row("reduce_max", same_type, extremum<Max>), plain_row("reduce_min", same_type, extremum<Min>),
      plain_row(
          "arg_max", [](const CallSpec& call) { return has_operands(call, 1, 1) && call.out[0].dtype == DType::i64; },
          arg_max)};
}

}  // namespace karez::kernels
