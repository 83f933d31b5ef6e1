// The kernel of row programs, in f32 and f64: softmax, norms and other reductions of rows together with the pointwise
// operations before and after them.
#include "karez/device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_row_program.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "karez/kernels/cpu/call_support.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/index_bounds.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/row_interpreter.h"
#include "karez/kernels/cpu/row_reduction_lanes.h"
#include "karez/kernels/cpu/row_schedule.h"

HWY_BEFORE_NAMESPACE();
namespace karez::kernels::HWY_NAMESPACE {
namespace {

template <class T, class Body> HWY_INLINE void with_reduction(ReduceKind kind, Body body) {
  if (kind == ReduceKind::sum) body.template operator()<Sum<T>>();
  if (kind == ReduceKind::max) body.template operator()<Max<T>>();
  if (kind == ReduceKind::min) body.template operator()<Min<T>>();
}
// Loads products of two runs.
template <class K> struct ProductLoad {
  const Element<K>*x, *y;
  HWY_INLINE VecOf<Element<K>> at(std::int64_t i) const {
    const TagOf<Element<K>> d;
    return hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, y + i));
  }
  HWY_INLINE VecOf<Element<K>> first(std::int64_t i, hn::Mask<TagOf<Element<K>>> mask) const {
    const TagOf<Element<K>> d;
    const auto product = hn::Mul(hn::MaskedLoad(mask, d, x + i), hn::MaskedLoad(mask, d, y + i));
    return hn::IfThenElse(mask, product, hn::Set(d, K::identity));
  }
};
template <class T>
void reduce_rows_of(ReduceKind kind, const T* x, const T* y, std::int64_t rows, std::int64_t columns, T* out) {
  if (y != nullptr) {
    using K = Sum<T>;
    for (std::int64_t r = 0; r < rows; ++r)
      out[r] = K::reduce_lanes(
          join_run_of<K>(hn::Set(TagOf<T>(), K::identity), columns, ProductLoad<K>{x + r * columns, y + r * columns}));
    return;
  }
  with_reduction<T>(kind, [&]<class K>() HWY_ATTR {
    for (std::int64_t r = 0; r < rows; ++r) out[r] = reduce_run<K>(x + r * columns, columns);
  });
}
template <class T>
void join_part_of(ReduceKind kind, const T* x, const T* y, std::int64_t count, bool is_first, T* state) {
  const TagOf<T> d;
  if (y != nullptr) {
    using K = Sum<T>;
    const auto total = is_first ? hn::Set(d, K::identity) : hn::LoadU(d, state);
    return hn::StoreU(join_run_of<K>(total, count, ProductLoad<K>{x, y}), d, state);
  }
  with_reduction<T>(kind, [&]<class K>() HWY_ATTR {
    hn::StoreU(join_run<K>(is_first ? hn::Set(d, K::identity) : hn::LoadU(d, state), x, count), d, state);
  });
}
template <class T> T finish_of(ReduceKind kind, const T* state) {
  T out = 0;
  with_reduction<T>(kind, [&]<class K>() HWY_ATTR { out = K::reduce_lanes(hn::LoadU(TagOf<T>(), state)); });
  return out;
}

// Calls body(f) with the function of a sum, difference or product.
template <class T, class Body> HWY_INLINE void with_arithmetic(ExprKind op, Body body) {
  using X = VecOf<T>;
  if (op == ExprKind::add) body([](X x, X y) HWY_ATTR { return hn::Add(x, y); });
  if (op == ExprKind::sub) body([](X x, X y) HWY_ATTR { return hn::Sub(x, y); });
  if (op == ExprKind::mul) body([](X x, X y) HWY_ATTR { return hn::Mul(x, y); });
}
// Operands in memory may end at `count`.
template <class T, class F>
HWY_INLINE void for_each_triple(const T* a, const T* b, const T* c, T* to, std::int64_t count, F f) {
  const TagOf<T> d;
  constexpr auto width = static_cast<std::int64_t>(hn::MaxLanes(TagOf<T>()));
  std::int64_t i = 0;
  for (; i + width <= count; i += width)
    hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, c + i)), d, to + i);
  if (i == count) return;
  const auto mask = hn::FirstN(d, static_cast<std::size_t>(count - i));
  hn::BlendedStore(f(hn::MaskedLoad(mask, d, a + i), hn::MaskedLoad(mask, d, b + i), hn::MaskedLoad(mask, d, c + i)),
                   mask, d, to + i);
}
template <class T>
void run_pair_of(const RowStep& step, const T* a, const T* b, const T* c, T* to, std::int64_t count) {
  using X = VecOf<T>;
  with_arithmetic<T>(step.op, [&](auto first) HWY_ATTR {
    if (step.second == ExprKind::exp)
      return for_each_triple(a, b, a, to, count, [=](X x, X y, X) HWY_ATTR { return exp_of(first(x, y)); });
    with_arithmetic<T>(step.second, [&](auto second) HWY_ATTR {
      if (step.is_swapped)
        for_each_triple(a, b, c, to, count, [=](X x, X y, X z) HWY_ATTR { return second(z, first(x, y)); });
      else for_each_triple(a, b, c, to, count, [=](X x, X y, X z) HWY_ATTR { return second(first(x, y), z); });
    });
  });
}

void run_pair_f32(const RowStep& step, const float* a, const float* b, const float* c, float* to, std::int64_t count) {
  run_pair_of(step, a, b, c, to, count);
}
void run_pair_f64(const RowStep& step, const double* a, const double* b, const double* c, double* to,
                  std::int64_t count) {
  run_pair_of(step, a, b, c, to, count);
}
void reduce_rows_f32(ReduceKind kind, const float* x, const float* y, std::int64_t rows, std::int64_t columns,
                     float* out) {
  reduce_rows_of(kind, x, y, rows, columns, out);
}
void reduce_rows_f64(ReduceKind kind, const double* x, const double* y, std::int64_t rows, std::int64_t columns,
                     double* out) {
  reduce_rows_of(kind, x, y, rows, columns, out);
}
void join_part_f32(ReduceKind kind, const float* x, const float* y, std::int64_t count, bool is_first, float* state) {
  join_part_of(kind, x, y, count, is_first, state);
}
void join_part_f64(ReduceKind kind, const double* x, const double* y, std::int64_t count, bool is_first,
                   double* state) {
  join_part_of(kind, x, y, count, is_first, state);
}
float finish_f32(ReduceKind kind, const float* state) { return finish_of(kind, state); }
double finish_f64(ReduceKind kind, const double* state) { return finish_of(kind, state); }

}  // namespace
}  // namespace karez::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
namespace {
HWY_EXPORT(reduce_rows_f32);
HWY_EXPORT(reduce_rows_f64);
HWY_EXPORT(join_part_f32);
HWY_EXPORT(join_part_f64);
HWY_EXPORT(finish_f32);
HWY_EXPORT(finish_f64);
HWY_EXPORT(run_pair_f32);
HWY_EXPORT(run_pair_f64);

template <class C> RowFunctions<C> row_functions() {
  if constexpr (std::is_same_v<C, float>)
    return {block_functions_f32(), HWY_DYNAMIC_DISPATCH(reduce_rows_f32), HWY_DYNAMIC_DISPATCH(join_part_f32),
            HWY_DYNAMIC_DISPATCH(finish_f32), HWY_DYNAMIC_DISPATCH(run_pair_f32)};
  else
    return {block_functions_f64(), HWY_DYNAMIC_DISPATCH(reduce_rows_f64), HWY_DYNAMIC_DISPATCH(join_part_f64),
            HWY_DYNAMIC_DISPATCH(finish_f64), HWY_DYNAMIC_DISPATCH(run_pair_f64)};
}

DType computed_type(const CallSpec& call) {
  const auto is_f64 = [](const View& view) { return view.dtype == DType::f64; };
  const bool any =
      std::any_of(call.in.begin(), call.in.end(), is_f64) || std::any_of(call.out.begin(), call.out.end(), is_f64);
  return any ? DType::f64 : DType::f32;
}

// Finds an index that selects no column, and reports it as one_hot does.
class IndexCheck {
 public:
  IndexCheck(const CallSpec& call, int operand, std::int64_t columns) : operand_(operand) {
    const View& index = call.in[static_cast<std::size_t>(operand)];
    CallSpec one_hot = call;
    one_hot.op = "one_hot";
    dtype_ = index.dtype, rows_ = index.shape[0];
    bounds_.emplace(one_hot, View(index.dtype, {rows_}), columns);
  }
  void run(const KernelArgs& args) const {
    const std::byte* from = args.in[static_cast<std::size_t>(operand_)];
    with_index(dtype_, [&]<class I>() {
      for (std::int64_t r = 0; r < rows_; ++r) bounds_->row(reinterpret_cast<const I*>(from)[r], r);
    });
  }

 private:
  int operand_;
  std::int64_t rows_ = 0;
  DType dtype_ = DType::i64;
  std::optional<IndexBounds> bounds_;
};

template <class C> PreparedKernel prepare_as(const CallSpec& call, RowSchedule schedule) {
  std::vector<IndexCheck> checks;
  for (int operand : schedule.indices) checks.emplace_back(call, operand, schedule.columns);
  return [interpreter = RowInterpreter<C>(call, std::move(schedule)), checks](const KernelArgs& args) {
    for (const IndexCheck& check : checks) check.run(args);
    interpreter.run(row_functions<C>(), args);
  };
}

PreparedKernel prepare(const CallSpec& call) {
  auto schedule = row_schedule(call, computed_type(call));
  require_fit(schedule.has_value(), call, "the operands do not fit the row program");
  return computed_type(call) == DType::f64 ? prepare_as<double>(call, std::move(*schedule))
                                           : prepare_as<float>(call, std::move(*schedule));
}

std::optional<std::int64_t> workspace(const CallSpec& call) {
  auto schedule = row_schedule(call, computed_type(call));
  if (!schedule) return std::nullopt;
  return computed_type(call) == DType::f64 ? RowInterpreter<double>(call, std::move(*schedule)).workspace()
                                           : RowInterpreter<float>(call, std::move(*schedule)).workspace();
}

}  // namespace

std::vector<KernelRow> hwy_row_program_rows() {
  KernelRow row;
  row.name = "hwy.row_program";
  row.op = "row_program";
  row.rank = 10;
  set_support(row, workspace);
  row.prepare = prepare;
  return {row};
}

}  // namespace karez::kernels
#endif
