// Pointwise kernels for integers, such as step counters: sums, differences and products, which wrap around on overflow.
#include <algorithm>

#include "karez/kernels/cpu/fast_row.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {
namespace {

// Returns the operation of the call ('+', '-' or '*'). Returns nullopt if it is another operation, or if an operand is
// neither dense nor a single repeated number.
std::optional<char> integer_operation(const CallSpec& call) {
  if (!has_operands(call, 2, 1) || !call.attrs.has("expr") ||
      (call.out[0].dtype != DType::i32 && call.out[0].dtype != DType::i64) || call.out[0].count() == 0 ||
      !call.out[0].contiguous())
    return std::nullopt;
  for (const View& x : call.in) {
    const bool repeated = std::all_of(x.strides.begin(), x.strides.end(), [](std::int64_t step) { return step == 0; });
    if (x.dtype != call.out[0].dtype || x.shape != call.out[0].shape || !(repeated || x.contiguous()))
      return std::nullopt;
  }
  const std::string& expr = call.attrs.text("expr");
  for (const char op : {'+', '-', '*'})
    if (expr == cat("x0 ", op, " x1")) return op;
  return std::nullopt;
}

PreparedKernel prepare_integer(const CallSpec& call) {
  const auto op = integer_operation(call);
  require_fit(op.has_value(), call, "expected a sum, difference or product of integers");
  const auto step = [&](const View& x) { return x.contiguous() && x.count() > 1 ? std::int64_t{1} : std::int64_t{0}; };
  const auto kernel = [&]<class U>() -> PreparedKernel {
    return [op = *op, n = call.out[0].count(), a = step(call.in[0]), b = step(call.in[1])](const KernelArgs& args) {
      const U *x = elements<U>(args.in[0]), *y = elements<U>(args.in[1]);
      U* to = elements<U>(args.out[0]);
      for (std::int64_t i = 0; i < n; ++i) {
        const U left = x[i * a], right = y[i * b];
        to[i] = op == '+' ? left + right : op == '-' ? left - right : left * right;
      }
    };
  };
  return call.out[0].dtype == DType::i64 ? kernel.template operator()<std::uint64_t>()
                                         : kernel.template operator()<std::uint32_t>();
}

}  // namespace

std::vector<KernelRow> fast_integer_rows() {
  KernelRow row = fast_row(
      "pointwise", [](const CallSpec& call) { return integer_operation(call).has_value(); }, prepare_integer);
  row.name = "fast.pointwise_integer";
  return {row};
}

}  // namespace karez::kernels
