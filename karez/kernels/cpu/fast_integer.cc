// Pointwise kernels for integers, such as step counters and labels: sums, differences and products, which wrap around
// on overflow, comparisons, and selections by a bool.
#include <algorithm>
#include <functional>
#include <type_traits>

#include "karez/kernels/cpu/fast_row.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {
namespace {

constexpr std::string_view arithmetic[] = {"+", "-", "*"}, comparisons[] = {"==", "!=", "<", "<=", ">", ">="};
constexpr std::string_view selection = "select(x0, x1, x2)";

// Returns the operation of the call. Returns nullopt if it is another operation, or if an operand is neither dense nor
// a single repeated number.
std::optional<std::string_view> integer_operation(const CallSpec& call) {
  if (!call.attrs.has("expr")) return std::nullopt;
  const std::string& expr = call.attrs.text("expr");
  const bool selects = expr == selection;
  if (!has_operands(call, selects ? 3 : 2, 1)) return std::nullopt;
  const View& out = call.out[0];
  const DType dtype = call.in[1].dtype;
  if ((dtype != DType::i32 && dtype != DType::i64) || out.count() == 0 || !out.contiguous()) return std::nullopt;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    const View& x = call.in[i];
    const bool repeated = std::all_of(x.strides.begin(), x.strides.end(), [](std::int64_t step) { return step == 0; });
    if (x.dtype != (selects && i == 0 ? DType::b8 : dtype) || x.shape != out.shape || !(repeated || x.contiguous()))
      return std::nullopt;
  }
  if (selects) return out.dtype == dtype ? std::optional(selection) : std::nullopt;
  const auto find = [&](const auto& operations) -> std::optional<std::string_view> {
    for (const std::string_view op : operations)
      if (expr == cat("x0 ", op, " x1")) return op;
    return std::nullopt;
  };
  if (out.dtype == DType::b8) return find(comparisons);
  return out.dtype == dtype ? find(arithmetic) : std::nullopt;
}

// The distance between elements of an operand.
std::int64_t step_of(const View& x) { return x.contiguous() && x.count() > 1 ? 1 : 0; }

// The kernel of one operation on numbers of type T, whose results have type R.
template <class T, class R, class F> PreparedKernel kernel_of(const CallSpec& call, F f) {
  return [f, n = call.out[0].count(), a = step_of(call.in[0]), b = step_of(call.in[1])](const KernelArgs& args) {
    const T *x = elements<T>(args.in[0]), *y = elements<T>(args.in[1]);
    R* to = elements<R>(args.out[0]);
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<R>(f(x[i * a], y[i * b]));
  };
}

template <class T> PreparedKernel selection_of(const CallSpec& call) {
  return [n = call.out[0].count(), a = step_of(call.in[0]), b = step_of(call.in[1]),
          c = step_of(call.in[2])](const KernelArgs& args) {
    const auto* condition = elements<std::uint8_t>(args.in[0]);
    const T *x = elements<T>(args.in[1]), *y = elements<T>(args.in[2]);
    T* to = elements<T>(args.out[0]);
    for (std::int64_t i = 0; i < n; ++i) to[i] = condition[i * a] != 0 ? x[i * b] : y[i * c];
  };
}

// Unsigned arithmetic, which wraps around, and signed comparisons.
template <class T> PreparedKernel kernel_of(const CallSpec& call, std::string_view op) {
  using U = std::make_unsigned_t<T>;
  if (op == selection) return selection_of<T>(call);
  if (op == "+") return kernel_of<U, U>(call, std::plus<U>());
  if (op == "-") return kernel_of<U, U>(call, std::minus<U>());
  if (op == "*") return kernel_of<U, U>(call, std::multiplies<U>());
  if (op == "==") return kernel_of<T, std::uint8_t>(call, std::equal_to<T>());
  if (op == "!=") return kernel_of<T, std::uint8_t>(call, std::not_equal_to<T>());
  if (op == "<") return kernel_of<T, std::uint8_t>(call, std::less<T>());
  if (op == "<=") return kernel_of<T, std::uint8_t>(call, std::less_equal<T>());
  if (op == ">") return kernel_of<T, std::uint8_t>(call, std::greater<T>());
  return kernel_of<T, std::uint8_t>(call, std::greater_equal<T>());
}

PreparedKernel prepare_integer(const CallSpec& call) {
  const auto op = integer_operation(call);
  require_fit(op.has_value(), call, "expected a sum, difference, product, comparison or selection of integers");
  return call.in[1].dtype == DType::i64 ? kernel_of<std::int64_t>(call, *op) : kernel_of<std::int32_t>(call, *op);
}

}  // namespace

std::vector<KernelRow> fast_integer_rows() {
  KernelRow row = fast_row(
      "pointwise", [](const CallSpec& call) { return integer_operation(call).has_value(); }, prepare_integer);
  row.name = "fast.pointwise_integer";
  return {row};
}

}  // namespace karez::kernels
