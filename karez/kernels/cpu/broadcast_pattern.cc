// Finds the broadcast pattern of a pointwise call from the strides of its operands.
#include "karez/kernels/cpu/broadcast_pattern.h"

#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {
namespace {

bool supports_dtype(DType dtype, DType computed) {
  if (dtype == DType::f32 || dtype == DType::b8) return true;
  return computed == DType::f64 ? dtype == DType::f64 : is_half(dtype);
}

}  // namespace

std::optional<BroadcastPattern> find_broadcast_pattern(const CallSpec& call, DType computed) {
  if (!has_operands(call, -1, 1) || call.in.empty() || call.in.size() > max_pointwise_inputs) return std::nullopt;
  const View& y = call.out[0];
  std::vector<Strides> strides{y.strides};
  for (const View& x : call.in) {
    if (x.shape != y.shape || !supports_dtype(x.dtype, computed)) return std::nullopt;
    strides.push_back(x.strides);
  }
  if (!supports_dtype(y.dtype, computed) || y.count() == 0) return std::nullopt;
  const Loops loops = loops_over(y.shape, strides, Order::by_memory);
  if (loops.rank > 2 || (loops.step(0) != 1 && loops.inner() != 1)) return std::nullopt;
  BroadcastPattern out;
  out.columns = loops.inner();
  if (loops.rank == 2) {
    out.rows = loops.size[0];
    if (loops.stride[0][0] != out.columns) return std::nullopt;
  }
  out.out = y.dtype;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    Operand2d operand;
    operand.dtype = call.in[i].dtype;
    const std::int64_t step = out.columns == 1 ? 1 : loops.step(static_cast<int>(i) + 1);
    operand.row_step = loops.rank == 2 ? loops.stride[i + 1][0] : 0;
    if (loops.rank == 1) {
      if (step != 0 && step != 1) return std::nullopt;
      operand.broadcast = step == 1 ? Broadcast::dense : Broadcast::scalar;
    } else if (step == 1) {
      if (operand.row_step != 0 && operand.row_step != out.columns) return std::nullopt;
      operand.broadcast = operand.row_step == 0 ? Broadcast::row : Broadcast::dense;
    } else if (step == 0) {
      operand.broadcast = operand.row_step == 0 ? Broadcast::scalar : Broadcast::column;
    } else {
      return std::nullopt;
    }
    out.inputs.push_back(operand);
  }
  return out;
}

std::int64_t adjacent_calls(const BroadcastPattern& pattern, const KernelArgs& args, std::int64_t call,
                            std::int64_t end) {
  if (pattern.rows != 1) return 1;
  const std::size_t operands = pattern.inputs.size();
  std::byte* const* in = args.in.data() + static_cast<std::size_t>(call) * operands;
  std::byte* const* out = args.out.data() + call;
  std::int64_t count = 1;
  for (; call + count < end; ++count, in += operands, ++out) {
    if (out[1] != out[0] + pattern.columns * size_of(pattern.out)) return count;
    for (std::size_t i = 0; i < operands; ++i) {
      const Operand2d& operand = pattern.inputs[i];
      const std::int64_t step = operand.broadcast == Broadcast::dense ? pattern.columns * size_of(operand.dtype) : 0;
      if (in[operands + i] != in[i] + step) return count;
    }
  }
  return count;
}

}  // namespace karez::kernels
