// Pointwise kernels that compute in f32. Expressions of the op table run generated code. Other expressions, and calls
// with bf16, f16 or a repeated row or column, run in an interpreter on blocks that fit in the L1 cache.
#include "karez/kernels/cpu/hwy_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "karez/kernels/cpu/hwy_pointwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "karez/base/expr.h"
#include "karez/kernels/cpu/bf16_widening.h"
#include "karez/kernels/cpu/broadcast_pattern.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/generated_call.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/pointwise_lanes.h"
#include "karez/kernels/cpu/team.h"

#ifndef KAREZ_HWY_POINTWISE
#define KAREZ_HWY_POINTWISE
namespace karez::kernels {

constexpr std::int64_t block = 512;  // floats in a register: 2 KiB, so that a dozen registers fit in L1
constexpr int max_registers = 64;

// An operation on blocks: dst[i] = op(a[i], b[i], c[i]) for i < count.
struct BlockOp {
  ExprKind op;
  const float *a, *b, *c;
  float* dst;
};

}  // namespace karez::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace karez::kernels::HWY_NAMESPACE {
namespace {

// Truth values are 0 and 1 in f32; NaN is true, because NaN != 0 is true.
HWY_INLINE V truth(M mask) { return hn::IfThenElseZero(mask, lanes_of(1)); }
HWY_INLINE M is_true(V a) { return ne_of(a, hn::Zero(D())); }

// Inputs may be in the caller's memory and end at `count`, so the last vector is loaded and stored with a mask.
template <int operands, class F> HWY_INLINE void for_each_vector(const BlockOp& o, std::int64_t count, F f) {
  const D d;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V a = hn::LoadU(d, o.a + i);
    const V b = operands > 1 ? hn::LoadU(d, o.b + i) : a;
    const V c = operands > 2 ? hn::LoadU(d, o.c + i) : a;
    hn::StoreU(f(a, b, c), d, o.dst + i);
  }
  if (i == count) return;
  const M mask = hn::FirstN(d, static_cast<std::size_t>(count - i));
  const V a = hn::MaskedLoad(mask, d, o.a + i);
  const V b = operands > 1 ? hn::MaskedLoad(mask, d, o.b + i) : a;
  const V c = operands > 2 ? hn::MaskedLoad(mask, d, o.c + i) : a;
  hn::BlendedStore(f(a, b, c), mask, d, o.dst + i);
}

void run_block(const BlockOp& o, std::int64_t count) {
  switch (o.op) {
    case ExprKind::constant:
    case ExprKind::variable: return for_each_vector<1>(o, count, [](V a, V, V) HWY_ATTR { return a; });
    case ExprKind::neg: return for_each_vector<1>(o, count, [](V a, V, V) HWY_ATTR { return hn::Neg(a); });
    case ExprKind::not_:
      return for_each_vector<1>(o, count, [](V a, V, V) HWY_ATTR { return truth(hn::Eq(a, hn::Zero(D()))); });
    case ExprKind::exp: return for_each_vector<1>(o, count, [](V a, V, V) HWY_ATTR { return exp_of(a); });
    case ExprKind::log: return for_each_vector<1>(o, count, [](V a, V, V) HWY_ATTR { return log_of(a); });
    case ExprKind::sqrt: return for_each_vector<1>(o, count, [](V a, V, V) HWY_ATTR { return sqrt_of(a); });
    case ExprKind::rsqrt: return for_each_vector<1>(o, count, [](V a, V, V) HWY_ATTR { return rsqrt_of(a); });
    case ExprKind::tanh: return for_each_vector<1>(o, count, [](V a, V, V) HWY_ATTR { return tanh_of(a); });
    case ExprKind::sigmoid: return for_each_vector<1>(o, count, [](V a, V, V) HWY_ATTR { return sigmoid_of(a); });
    case ExprKind::erf: return for_each_vector<1>(o, count, [](V a, V, V) HWY_ATTR { return erf_of(a); });
    case ExprKind::phi: return for_each_vector<1>(o, count, [](V a, V, V) HWY_ATTR { return phi_of(a); });
    case ExprKind::abs: return for_each_vector<1>(o, count, [](V a, V, V) HWY_ATTR { return hn::Abs(a); });
    case ExprKind::sin: return for_each_vector<1>(o, count, [](V a, V, V) HWY_ATTR { return sin_of(a); });
    case ExprKind::cos: return for_each_vector<1>(o, count, [](V a, V, V) HWY_ATTR { return cos_of(a); });
    case ExprKind::add: return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return hn::Add(a, b); });
    case ExprKind::sub: return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return hn::Sub(a, b); });
    case ExprKind::mul: return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return hn::Mul(a, b); });
    case ExprKind::div: return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return hn::Div(a, b); });
    case ExprKind::lt: return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return truth(hn::Lt(a, b)); });
    case ExprKind::le: return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return truth(hn::Le(a, b)); });
    case ExprKind::gt: return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return truth(hn::Gt(a, b)); });
    case ExprKind::ge: return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return truth(hn::Ge(a, b)); });
    case ExprKind::eq: return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return truth(hn::Eq(a, b)); });
    case ExprKind::ne: return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return truth(ne_of(a, b)); });
    case ExprKind::and_:
      return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return truth(hn::And(is_true(a), is_true(b))); });
    case ExprKind::or_:
      return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return truth(hn::Or(is_true(a), is_true(b))); });
    case ExprKind::pow: return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return pow_of(a, b); });
    case ExprKind::max: return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return max_of(a, b); });
    case ExprKind::min: return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return min_of(a, b); });
    case ExprKind::fmod: return for_each_vector<2>(o, count, [](V a, V b, V) HWY_ATTR { return fmod_of(a, b); });
    case ExprKind::bit_and:
    case ExprKind::bit_or:
    case ExprKind::bit_xor: break;  // integer operations, which run on the plain kernel
    case ExprKind::select:
      return for_each_vector<3>(o, count, [](V a, V b, V c) HWY_ATTR { return hn::IfThenElse(is_true(a), b, c); });
  }
}

void fill_block(float value, float* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = value;
}
void bytes_to_floats(const std::uint8_t* from, float* to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(truth(load_lanes<M>(from, i)), D(), to + i);
  for (; i < count; ++i) to[i] = from[i] != 0;
}
void floats_to_truth(const float* from, std::uint8_t* to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store_lanes(is_true(hn::LoadU(D(), from + i)), to, i);
  for (; i < count; ++i) to[i] = from[i] != 0;
}

using W = hn::Rebind<std::uint16_t, D>;  // a 16-bit value for each float of D
void bf16_to_floats(const std::uint16_t* from, float* to, std::int64_t count) {
  const D d;
  const hn::RebindToUnsigned<D> bits;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::LoadU(W(), from + i)))), d, to + i);
  for (; i < count; ++i) to[i] = static_cast<float>(tensor::Bf16::from_bits(from[i]));
}
// Rounds to nearest, with ties to even, as tensor::Bf16 does.
void floats_to_bf16(const float* from, std::uint16_t* to, std::int64_t count) {
  const D d;
  const hn::RebindToUnsigned<D> bits;
  const hn::RebindToSigned<D> words;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V x = hn::LoadU(d, from + i);
    const auto all = hn::BitCast(bits, x);
    const auto even = hn::And(hn::ShiftRight<16>(all), hn::Set(bits, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(all, hn::Add(even, hn::Set(bits, 0x7FFF))));
    const auto quiet_nan = hn::Or(hn::ShiftRight<16>(all), hn::Set(bits, 0x40));
    const auto nan = hn::RebindMask(bits, ne_of(x, x));
    hn::StoreU(hn::DemoteTo(W(), hn::BitCast(words, hn::IfThenElse(nan, quiet_nan, rounded))), W(), to + i);
  }
  for (; i < count; ++i) to[i] = tensor::Bf16(from[i]).bits;
}

}  // namespace
}  // namespace karez::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace karez::kernels {
namespace {
HWY_EXPORT(run_block);
HWY_EXPORT(fill_block);
HWY_EXPORT(bytes_to_floats);
HWY_EXPORT(floats_to_truth);
HWY_EXPORT(bf16_to_floats);
HWY_EXPORT(floats_to_bf16);

void f16_to_floats(const tensor::F16* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}
void floats_to_f16(const float* from, tensor::F16* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = tensor::F16(from[i]);
}

constexpr std::int64_t grain = 32768;  // fewer elements are not worth a second thread

// The interpreter. Every thread has separate blocks in the workspace: one for each constant and temporary, one for each
// input that is not dense f32, and one for a bool result. If rows are short, a block holds several complete rows.
struct Interpreter {
  ExprProgram program;
  BroadcastPattern pattern;
  int team = 1;
  std::int64_t rows_per_block = 1;

  std::int64_t blocks() const { return static_cast<std::int64_t>(program.registers) + 1; }
  // A register takes 16 floats more than a block, so that registers start in different cache sets.
  std::int64_t floats() const { return blocks() * (block + 16); }
};

Interpreter make_interpreter(const CallSpec& call, const BroadcastPattern& pattern) {
  Interpreter out;
  out.program = flatten(parse_expr(call.attrs.text("expr")));
  out.pattern = pattern;
  out.team = call.team;
  out.rows_per_block = std::max<std::int64_t>(block / pattern.columns, 1);
  return out;
}

void load(const Operand2d& operand, const std::byte* data, std::int64_t at, float* to, std::int64_t count) {
  const std::byte* from = data + at * size_of(operand.dtype);
  switch (operand.dtype) {
    case DType::b8:
      return HWY_DYNAMIC_DISPATCH(bytes_to_floats)(reinterpret_cast<const std::uint8_t*>(from), to, count);
    case DType::bf16:
      return HWY_DYNAMIC_DISPATCH(bf16_to_floats)(reinterpret_cast<const std::uint16_t*>(from), to, count);
    case DType::f16: return f16_to_floats(reinterpret_cast<const tensor::F16*>(from), to, count);
    default: std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
  }
}
void store(DType dtype, const float* from, std::byte* data, std::int64_t at, std::int64_t count) {
  std::byte* to = data + at * size_of(dtype);
  switch (dtype) {
    case DType::b8: return HWY_DYNAMIC_DISPATCH(floats_to_truth)(from, reinterpret_cast<std::uint8_t*>(to), count);
    case DType::bf16: return HWY_DYNAMIC_DISPATCH(floats_to_bf16)(from, reinterpret_cast<std::uint16_t*>(to), count);
    case DType::f16: return floats_to_f16(from, reinterpret_cast<tensor::F16*>(to), count);
    default: std::memmove(to, from, static_cast<std::size_t>(count) * sizeof(float));
  }
}
float element_at(const Operand2d& operand, const std::byte* data, std::int64_t at) {
  float out = 0;
  load(operand, data, at, &out, 1);
  return out;
}

// Runs the blocks of one thread.
struct BlockRunner {
  const Interpreter& plan;
  const KernelArgs& args;
  std::array<const float*, max_registers> registers{};
  float* scratch;

  float* block_of(int r) const { return scratch + r * (block + 16); }

  // Fills the blocks that do not change: constants, scalars, and short rows, which are repeated to fill a block.
  void begin() {
    const auto& [rows, columns, inputs, out] = plan.pattern;
    const std::int64_t fill_count = std::min(block, rows * columns);
    for (int r = 0; r < plan.program.registers; ++r) registers[static_cast<std::size_t>(r)] = block_of(r);
    for (std::size_t c = 0; c < plan.program.constants.size(); ++c) HWY_DYNAMIC_DISPATCH(fill_block)
    (static_cast<float>(plan.program.constants[c]), block_of(plan.program.variables + static_cast<int>(c)), fill_count);
    for (int i = 0; i < plan.program.variables; ++i) {
      const Operand2d& operand = inputs[static_cast<std::size_t>(i)];
      const std::byte* data = args.in[static_cast<std::size_t>(i)];
      if (operand.broadcast == Broadcast::scalar)
        HWY_DYNAMIC_DISPATCH(fill_block)(element_at(operand, data, 0), block_of(i), fill_count);
      if (operand.broadcast == Broadcast::row && columns <= block)
        for (std::int64_t row = 0; row < std::min(plan.rows_per_block, rows); ++row)
          load(operand, data, 0, block_of(i) + row * columns, columns);
    }
  }

  // Computes rows `row` to row + row_count - 1, from `column` on: `count` elements that are contiguous in the output.
  void block_at(std::int64_t row, std::int64_t row_count, std::int64_t column, std::int64_t count) {
    const std::int64_t columns = plan.pattern.columns, at = row * columns + column;
    for (int i = 0; i < plan.program.variables; ++i) {
      const Operand2d& operand = plan.pattern.inputs[static_cast<std::size_t>(i)];
      const std::byte* data = args.in[static_cast<std::size_t>(i)];
      const bool whole_rows = columns <= block;
      if (operand.broadcast == Broadcast::dense && operand.dtype == DType::f32) {
        registers[static_cast<std::size_t>(i)] = reinterpret_cast<const float*>(data) + at;
      } else if (operand.broadcast == Broadcast::dense) {
        load(operand, data, at, block_of(i), count);
      } else if (operand.broadcast == Broadcast::row && !whole_rows) {
        load(operand, data, column, block_of(i), count);
      } else if (operand.broadcast == Broadcast::column) {
        const std::int64_t repeats = whole_rows ? columns : count;
        for (std::int64_t r = 0; r < row_count; ++r) HWY_DYNAMIC_DISPATCH(fill_block)
        (element_at(operand, data, (row + r) * operand.row_step), block_of(i) + r * repeats, repeats);
      }
    }
    float* out_floats = plan.pattern.out == DType::f32 ? elements<float>(args.out[0]) + at : nullptr;
    const int result = plan.program.result;
    for (std::size_t n = 0; n < plan.program.ops.size(); ++n) {
      const ExprOp& op = plan.program.ops[n];
      const auto read = [&](int r) { return r < 0 ? nullptr : registers[static_cast<std::size_t>(r)]; };
      // The last operation computes the result and may write directly to the output.
      float* dst =
          n + 1 == plan.program.ops.size() && op.dst == result && out_floats != nullptr ? out_floats : block_of(op.dst);
      HWY_DYNAMIC_DISPATCH(run_block)({op.op, read(op.a), read(op.b), read(op.c), dst}, count);
    }
    const float* from = registers[static_cast<std::size_t>(result)];
    if (out_floats == nullptr || plan.program.ops.empty()) store(plan.pattern.out, from, args.out[0], at, count);
  }

  void rows(std::int64_t from, std::int64_t to) {
    const std::int64_t columns = plan.pattern.columns;
    if (columns <= block) {
      for (std::int64_t row = from; row < to; row += plan.rows_per_block) {
        const std::int64_t row_count = std::min(plan.rows_per_block, to - row);
        block_at(row, row_count, 0, row_count * columns);
      }
      return;
    }
    for (std::int64_t row = from; row < to; ++row)
      for (std::int64_t column = 0; column < columns; column += block)
        block_at(row, 1, column, std::min(block, columns - column));
  }
};

bool supports(const CallSpec& call) {
  const auto pattern = find_broadcast_pattern(call);
  if (!pattern || !call.attrs.has("expr")) return false;
  if (find_generated(call, *pattern) != nullptr) return true;
  const ExprProgram program = flatten(parse_expr(call.attrs.text("expr")));
  return program.variables <= static_cast<int>(call.in.size()) && program.registers <= max_registers;
}

std::int64_t workspace(const CallSpec& call) {
  const auto pattern = find_broadcast_pattern(call);
  if (!pattern || find_generated(call, *pattern) != nullptr) return 0;
  return make_interpreter(call, *pattern).floats() * 4 * call.team;
}

PreparedKernel prepare(const CallSpec& call) {
  const auto pattern = find_broadcast_pattern(call);
  require_fit(pattern.has_value(), call, "the fast kernel does not support these strides");
  if (const GeneratedPointwise* row = find_generated(call, *pattern))
    return prepare_generated(*row, *pattern, call.team);
  return [plan = make_interpreter(call, *pattern)](const KernelArgs& args) {
    float* scratch = elements<float>(args.workspace);
    if (plan.pattern.rows == 1) {  // operands are dense or scalar, so any range of elements is a row
      parallel_for(plan.team, plan.pattern.columns, grain, [&](std::int64_t from, std::int64_t to, int part) {
        BlockRunner runner{plan, args, {}, scratch + part * plan.floats()};
        runner.begin();
        for (std::int64_t at = from; at < to; at += block) runner.block_at(0, 1, at, std::min(block, to - at));
      });
      return;
    }
    parallel_for(plan.team, plan.pattern.rows, std::max<std::int64_t>(grain / plan.pattern.columns, 1),
                 [&](std::int64_t from, std::int64_t to, int part) {
                   BlockRunner runner{plan, args, {}, scratch + part * plan.floats()};
                   runner.begin();
                   runner.rows(from, to);
                 });
  };
}

// A cast between f32 and half types is the expression x0.
CallSpec as_expression(CallSpec call) {
  call.attrs = Attrs{{"expr", "x0"}};
  return call;
}
bool supports_cast(const CallSpec& call) {
  if (!has_operands(call, 1, 1) || call.in[0].dtype == DType::b8 || call.out[0].dtype == DType::b8) return false;
  return supports(as_expression(call));
}

}  // namespace

void widen_bf16(const std::uint16_t* from, float* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(bf16_to_floats)(from, to, count);
}
void round_to_bf16(const float* from, std::uint16_t* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(floats_to_bf16)(from, to, count);
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
