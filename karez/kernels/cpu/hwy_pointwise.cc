// Pointwise kernels that compute in f32. Expressions of the op table run generated code. Other expressions, and calls
// with bf16, f16 or a repeated row or column, run in the interpreter.
#include "karez/device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_pointwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "karez/kernels/cpu/bf16_widening.h"
#include "karez/kernels/cpu/broadcast_pattern.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/generated_call.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/pointwise_block.h"
#include "karez/kernels/cpu/pointwise_interpreter.h"
#include "karez/kernels/cpu/pointwise_lanes.h"
#include "karez/plan/call_group.h"

HWY_BEFORE_NAMESPACE();
namespace karez::kernels::HWY_NAMESPACE {
namespace {

void run_block(const BlockOp& op, std::int64_t count) { run_block_of<float>(op, count); }
void fill_rows(const float* values, std::int64_t rows, std::int64_t columns, float* out) {
  fill_rows_of(values, rows, columns, out);
}
void bytes_to_floats(const std::uint8_t* from, float* to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::IfThenElseZero(load_lanes<M>(from, i), lanes_of(1)), D(), to + i);
  for (; i < count; ++i) to[i] = from[i] != 0;
}
void floats_to_truth(const float* from, std::uint8_t* to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store_lanes(ne_of(hn::LoadU(D(), from + i), hn::Zero(D())), to, i);
  for (; i < count; ++i) to[i] = from[i] != 0;
}

}  // namespace
}  // namespace karez::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
namespace {
HWY_EXPORT(run_block);
HWY_EXPORT(fill_rows);
HWY_EXPORT(bytes_to_floats);
HWY_EXPORT(floats_to_truth);

using Interpreter = PointwiseInterpreter<float>;

// The call may be a group.
bool supports(const CallSpec& group) {
  const CallSpec call = first_call(group);
  const auto pattern = find_broadcast_pattern(call);
  if (!pattern || !call.attrs.has("expr")) return false;
  return find_generated(call, *pattern) != nullptr || Interpreter::supports(call);
}

std::int64_t workspace(const CallSpec& group) {
  const CallSpec call = first_call(group);
  const auto pattern = find_broadcast_pattern(call);
  if (!pattern || find_generated(call, *pattern) != nullptr) return 0;
  return Interpreter(group, *pattern).workspace();
}

PreparedKernel prepare(const CallSpec& group) {
  const CallSpec call = first_call(group);
  const auto pattern = find_broadcast_pattern(call);
  require_fit(pattern.has_value(), call, "the fast kernel does not support these strides");
  const int calls = calls_of(group.attrs);
  if (const GeneratedPointwise* row = find_generated(call, *pattern))
    return calls == 1 ? prepare_generated(*row, *pattern, call.team)
                      : prepare_generated_group(*row, *pattern, group.team, calls);
  const Interpreter interpreter(group, *pattern);
  if (calls > 1)
    return [interpreter, calls](const KernelArgs& args) { interpreter.run_group(block_functions_f32(), args, calls); };
  return [interpreter](const KernelArgs& args) { interpreter.run(block_functions_f32(), args); };
}

// A cast between f32 and half types is the expression x0.
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

BlockFunctions<float> block_functions_f32() {
  return {HWY_DYNAMIC_DISPATCH(run_block), HWY_DYNAMIC_DISPATCH(fill_rows), HWY_DYNAMIC_DISPATCH(bytes_to_floats),
          HWY_DYNAMIC_DISPATCH(floats_to_truth)};
}

void widen_bf16(const std::uint16_t* from, float* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(run_block)
  ({ExprKind::variable, {from, Storage::bf16}, {}, {}, to, Storage::computed}, count);
}
void round_to_bf16(const float* from, std::uint16_t* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(run_block)
  ({ExprKind::variable, {from, Storage::computed}, {}, {}, to, Storage::bf16}, count);
}

std::vector<KernelRow> hwy_pointwise_rows() {
  KernelRow cast;
  cast.name = "hwy.cast";
  cast.op = "cast";
  cast.rank = 10;
  cast.supports = supports_cast;
  cast.workspace = [](const CallSpec& call) { return workspace(as_expression(call)); };
  cast.prepare = [](const CallSpec& call) { return prepare(as_expression(call)); };
  KernelRow row;
  row.name = "hwy.pointwise";
  row.op = "pointwise";
  row.rank = 10;
  row.supports = supports;
  row.workspace = workspace;
  row.prepare = prepare;
  return {row, cast};
}

}  // namespace karez::kernels
#endif
