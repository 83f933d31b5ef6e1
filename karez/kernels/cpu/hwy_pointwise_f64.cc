// Pointwise kernels that compute in f64, and casts between f32 and f64. All expressions run in the interpreter.
#include "karez/device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_pointwise_f64.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "karez/kernels/cpu/broadcast_pattern.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/pointwise_block.h"
#include "karez/kernels/cpu/pointwise_interpreter.h"
#include "karez/plan/call_group.h"

HWY_BEFORE_NAMESPACE();
namespace karez::kernels::HWY_NAMESPACE {
namespace {

void run_block(const BlockOp& op, std::int64_t count) { run_block_of<double>(op, count); }
void fill_rows(const double* values, std::int64_t rows, std::int64_t columns, double* out) {
  fill_rows_of(values, rows, columns, out);
}

}  // namespace
}  // namespace karez::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
namespace {
HWY_EXPORT(run_block);
HWY_EXPORT(fill_rows);

using Interpreter = PointwiseInterpreter<double>;

void from_bools(const std::uint8_t* from, double* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] != 0;
}
void to_bools(const double* from, std::uint8_t* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] != 0;
}

bool has_f64(const CallSpec& call) {
  const auto is_f64 = [](const View& view) { return view.dtype == DType::f64; };
  return std::any_of(call.in.begin(), call.in.end(), is_f64) || std::any_of(call.out.begin(), call.out.end(), is_f64);
}

// The call may be a group.
bool supports(const CallSpec& group) {
  const CallSpec call = first_call(group);
  return has_f64(call) && call.attrs.has("expr") && find_broadcast_pattern(call, DType::f64).has_value() &&
         Interpreter::supports(call);
}

std::int64_t workspace(const CallSpec& group) {
  const auto pattern = find_broadcast_pattern(first_call(group), DType::f64);
  return pattern ? Interpreter(group, *pattern).workspace() : 0;
}

PreparedKernel prepare(const CallSpec& group) {
  const auto pattern = find_broadcast_pattern(first_call(group), DType::f64);
  require_fit(pattern.has_value(), group, "the fast kernel does not support these strides");
  const Interpreter interpreter(group, *pattern);
  if (const int calls = calls_of(group.attrs); calls > 1)
    return [interpreter, calls](const KernelArgs& args) { interpreter.run_group(block_functions_f64(), args, calls); };
  return [interpreter](const KernelArgs& args) { interpreter.run(block_functions_f64(), args); };
}

// A cast between f32 and f64 is the expression x0.
CallSpec as_expression(CallSpec call) {
  Attrs attrs{{"expr", "x0"}};
  if (const int calls = calls_of(call.attrs); calls > 1) attrs.set("calls", std::int64_t{calls});
  call.attrs = std::move(attrs);
  return call;
}
bool supports_cast(const CallSpec& group) {
  const CallSpec call = first_call(group);
  if (!has_operands(call, 1, 1) || call.in[0].dtype == DType::b8 || call.out[0].dtype == DType::b8) return false;
  return supports(as_expression(group));
}

}  // namespace

BlockFunctions<double> block_functions_f64() {
  return {HWY_DYNAMIC_DISPATCH(run_block), HWY_DYNAMIC_DISPATCH(fill_rows), from_bools, to_bools};
}

std::vector<KernelRow> hwy_pointwise_f64_rows() {
  KernelRow cast;
  cast.name = "hwy.cast_f64";
  cast.op = "cast";
  cast.rank = 10;
  cast.supports = supports_cast;
  cast.workspace = [](const CallSpec& call) { return workspace(as_expression(call)); };
  cast.prepare = [](const CallSpec& call) { return prepare(as_expression(call)); };
  KernelRow row;
  row.name = "hwy.pointwise_f64";
  row.op = "pointwise";
  row.rank = 10;
  row.supports = supports;
  row.workspace = workspace;
  row.prepare = prepare;
  return {row, cast};
}

}  // namespace karez::kernels
#endif
