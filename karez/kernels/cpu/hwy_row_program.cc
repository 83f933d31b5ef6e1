// The kernel of row programs, in f32 and f64: softmax, norms and other reductions of rows together with the pointwise
// operations before and after them.
#include "karez/kernels/cpu/hwy_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_row_program.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

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
template <class T> void reduce_rows_of(ReduceKind kind, const T* x, std::int64_t rows, std::int64_t columns, T* out) {
  with_reduction<T>(kind, [&]<class K>() HWY_ATTR {
    for (std::int64_t r = 0; r < rows; ++r) out[r] = reduce_run<K>(x + r * columns, columns);
  });
}
template <class T> void join_part_of(ReduceKind kind, const T* x, std::int64_t count, bool is_first, T* state) {
  const TagOf<T> d;
  with_reduction<T>(kind, [&]<class K>() HWY_ATTR {
    hn::StoreU(join_run<K>(is_first ? hn::Set(d, K::identity) : hn::LoadU(d, state), x, count), d, state);
  });
}
template <class T> T finish_of(ReduceKind kind, const T* state) {
  T out = 0;
  with_reduction<T>(kind, [&]<class K>() HWY_ATTR { out = K::reduce_lanes(hn::LoadU(TagOf<T>(), state)); });
  return out;
}

void reduce_rows_f32(ReduceKind kind, const float* x, std::int64_t rows, std::int64_t columns, float* out) {
  reduce_rows_of(kind, x, rows, columns, out);
}
void reduce_rows_f64(ReduceKind kind, const double* x, std::int64_t rows, std::int64_t columns, double* out) {
  reduce_rows_of(kind, x, rows, columns, out);
}
void join_part_f32(ReduceKind kind, const float* x, std::int64_t count, bool is_first, float* state) {
  join_part_of(kind, x, count, is_first, state);
}
void join_part_f64(ReduceKind kind, const double* x, std::int64_t count, bool is_first, double* state) {
  join_part_of(kind, x, count, is_first, state);
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

template <class C> RowFunctions<C> row_functions() {
  if constexpr (std::is_same_v<C, float>)
    return {block_functions_f32(), HWY_DYNAMIC_DISPATCH(reduce_rows_f32), HWY_DYNAMIC_DISPATCH(join_part_f32),
            HWY_DYNAMIC_DISPATCH(finish_f32)};
  else
    return {block_functions_f64(), HWY_DYNAMIC_DISPATCH(reduce_rows_f64), HWY_DYNAMIC_DISPATCH(join_part_f64),
            HWY_DYNAMIC_DISPATCH(finish_f64)};
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

std::int64_t workspace(const CallSpec& call) {
  auto schedule = row_schedule(call, computed_type(call));
  if (!schedule) return 0;
  return computed_type(call) == DType::f64 ? RowInterpreter<double>(call, std::move(*schedule)).workspace()
                                           : RowInterpreter<float>(call, std::move(*schedule)).workspace();
}

}  // namespace

std::vector<KernelRow> hwy_row_program_rows() {
  KernelRow row;
  row.name = "hwy.row_program";
  row.op = "row_program";
  row.rank = 10;
  row.supports = [](const CallSpec& call) { return row_schedule(call, computed_type(call)).has_value(); };
  row.workspace = workspace;
  row.prepare = prepare;
  return {row};
}

}  // namespace karez::kernels
#endif
