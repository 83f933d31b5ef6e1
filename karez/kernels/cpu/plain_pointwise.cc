// Plain kernels for casts and for pointwise calls. A pointwise kernel interprets its expression as a register program
// over blocks of elements.
#include <cmath>
#include <limits>
#include <utility>

#include "karez/base/expr.h"
#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {
namespace {

constexpr std::int64_t block = 256;  // elements per register; a large block amortises the overhead of the interpreter

// Returns the type in which an expression is computed. Floats are computed in double and rounded once at the end, for
// an accurate reference; integers are computed in their own type and wrap around after each operation; bools become 0
// and 1 in the type of the other operands.
DType computed_type(const CallSpec& call) {
  DType widest = DType::b8;
  for (const auto* views : {&call.in, &call.out})
    for (const View& view : *views) {
      if (is_float(view.dtype)) return DType::f64;
      if (view.dtype != DType::b8 && size_of(view.dtype) >= size_of(widest)) widest = view.dtype;
    }
  return widest == DType::b8 ? DType::i32 : widest;
}

template <class Body> decltype(auto) with_computed_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::i32: return body.template operator()<std::int32_t>();
    case DType::i64: return body.template operator()<std::int64_t>();
    case DType::u8: return body.template operator()<std::uint8_t>();
    default: return body.template operator()<double>();
  }
}

bool supports_integers(ExprKind kind) {
  switch (kind) {
    case ExprKind::exp:
    case ExprKind::log:
    case ExprKind::sqrt:
    case ExprKind::rsqrt:
    case ExprKind::tanh:
    case ExprKind::sigmoid:
    case ExprKind::erf:
    case ExprKind::phi:
    case ExprKind::sin:
    case ExprKind::cos: return false;
    default: return true;
  }
}

bool supports_pointwise(const CallSpec& call) {
  if (!has_operands(call, -1, 1) || call.in.size() + 1 > max_operands || !call.attrs.has("expr")) return false;
  const DType computed = computed_type(call), out = call.out[0].dtype;
  for (const View& view : call.in)
    if (view.shape != call.out[0].shape || (view.dtype != DType::b8 && is_float(view.dtype) != is_float(computed)))
      return false;
  if (out != DType::b8 && is_float(out) != is_float(computed)) return false;
  const ExprProgram program = flatten(parse_expr(call.attrs.text("expr")));
  if (program.variables > static_cast<int>(call.in.size())) return false;
  return std::all_of(program.ops.begin(), program.ops.end(), [&](const ExprOp& op) {
    return is_float(computed) ? !is_bitwise(op.op) : supports_integers(op.op);
  });
}

// One operation of the program on a block; the kind is a template argument so that its loop has no switch.
template <class C> using BlockOp = void (*)(C* out, const C* a, const C* b, const C* c, std::int64_t n);
template <class C, ExprKind kind> void run_op(C* out, const C* a, const C* b, const C* c, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = apply<C>(kind, a[i], b[i], c[i]);
}
template <class C, std::size_t... kind> BlockOp<C> block_op(ExprKind requested, std::index_sequence<kind...>) {
  constexpr BlockOp<C> table[] = {run_op<C, static_cast<ExprKind>(kind)>...};
  return table[static_cast<std::size_t>(requested)];
}
template <class C> BlockOp<C> block_op(ExprKind requested) {
  return block_op<C>(requested, std::make_index_sequence<static_cast<std::size_t>(ExprKind::select) + 1>());
}

template <class C>
using Load = void (*)(C* block, const std::byte* from, std::int64_t first, std::int64_t step, std::int64_t n);
template <class C, class T>
void load(C* block, const std::byte* from, std::int64_t first, std::int64_t step, std::int64_t n) {
  const T* x = reinterpret_cast<const T*>(from) + first;
  for (std::int64_t i = 0; i < n; ++i) block[i] = static_cast<C>(x[i * step]);
}
template <class C>
using Store = void (*)(std::byte* to, std::int64_t first, std::int64_t step, const C* block, std::int64_t n);
template <class C, class T>
void store(std::byte* to, std::int64_t first, std::int64_t step, const C* block, std::int64_t n) {
  T* y = reinterpret_cast<T*>(to) + first;
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, bool>) y[i * step] = block[i] != 0;
    else y[i * step] = static_cast<T>(block[i]);
  }
}

template <class C> struct Interpreter {
  struct Step {
    BlockOp<C> run;
    int a, b, c, dst;
  };
  Loops loops;  // operand 0 is the output, i + 1 is x_i
  std::vector<Load<C>> loads;
  Store<C> store = nullptr;
  std::vector<C> constants;
  std::vector<Step> steps;
  int variables = 0, result = 0;

  void operator()(const KernelArgs& args) const {
    C* registers = reinterpret_cast<C*>(args.workspace);
    const auto register_at = [&](int r) { return registers + r * block; };
    for (std::size_t i = 0; i < constants.size(); ++i)
      std::fill_n(register_at(variables + static_cast<int>(i)), block, constants[i]);
    const std::int64_t count = loops.inner();
    for_each_run(loops, [&](const auto& offset) {
      for (std::int64_t begin = 0; begin < count; begin += block) {
        const std::int64_t n = std::min(block, count - begin);
        for (int i = 0; i < variables; ++i) {
          const auto x = static_cast<std::size_t>(i);
          const std::int64_t step = loops.step(i + 1);
          loads[x](register_at(i), args.in[x], offset[x + 1] + begin * step, step, n);
        }
        for (const Step& step : steps)
          step.run(register_at(step.dst), register_at(step.a), register_at(step.b), register_at(step.c), n);
        store(args.out[0], offset[0] + begin * loops.step(0), loops.step(0), register_at(result), n);
      }
    });
  }
};

std::int64_t workspace(const CallSpec& call) {
  const ExprProgram program = flatten(parse_expr(call.attrs.text("expr")));
  return std::max(program.registers, 1) * block * 8;
}

PreparedKernel pointwise(const CallSpec& call) {
  const ExprProgram program = flatten(parse_expr(call.attrs.text("expr")));
  std::vector<Strides> strides = {call.out[0].strides};
  for (int i = 0; i < program.variables; ++i) strides.push_back(call.in[static_cast<std::size_t>(i)].strides);
  return with_computed_type(computed_type(call), [&]<class C>() -> PreparedKernel {
    Interpreter<C> kernel;
    kernel.loops = loops_over(call.out[0].shape, strides, Order::by_memory);
    for (const View& view : call.in)
      kernel.loads.push_back(with_type(view.dtype, []<class T>() -> Load<C> { return load<C, T>; }));
    kernel.store = with_type(call.out[0].dtype, []<class T>() -> Store<C> { return store<C, T>; });
    for (double value : program.constants) kernel.constants.push_back(constant_as<C>(value));
    for (const ExprOp& op : program.ops)  // an absent operand is register 0, which the operation ignores
      kernel.steps.push_back({block_op<C>(op.op), std::max(op.a, 0), std::max(op.b, 0), std::max(op.c, 0), op.dst});
    kernel.variables = program.variables;
    kernel.result = program.result;
    return kernel;
  });
}

// Bools are true if not zero. Floats are truncated towards zero and saturated to the integer range; NaN becomes 0.
template <class To, class From> To convert(From x) {
  if constexpr (tensor::is_half_type<From>) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (x != x) return 0;
    if (x <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (x >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

PreparedKernel cast(const CallSpec& call) {
  const View &x = call.in[0], &y = call.out[0];
  require_fit(x.shape == y.shape, call, "shapes differ");
  return with_type(x.dtype, [&]<class From>() {
    return with_type(y.dtype, [&]<class To>() -> PreparedKernel {
      return [loops = loops_over(y.shape, {y.strides, x.strides}, Order::by_memory)](const KernelArgs& args) {
        const From* from = elements<From>(args.in[0]);
        To* to = elements<To>(args.out[0]);
        const std::int64_t count = loops.inner(), step = loops.step(0), from_step = loops.step(1);
        for_each_run(loops, [&](const auto& offsets) {
          for (std::int64_t i = 0; i < count; ++i)
            to[offsets[0] + i * step] = convert<To>(from[offsets[1] + i * from_step]);
        });
      };
    });
  });
}

}  // namespace

std::vector<KernelRow> plain_pointwise_rows() {
  KernelRow row = plain_row("pointwise", supports_pointwise, pointwise);
  row.workspace = workspace;
  return {row, plain_row(
                   "cast", [](const CallSpec& call) { return has_operands(call, 1, 1); }, cast)};
}

}  // namespace karez::kernels
