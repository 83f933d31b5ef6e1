// Pointwise kernels for integers, such as step counters and labels: sums, differences and products, which wrap around
// on overflow, comparisons, and selections by a bool.
#include <functional>
#include <type_traits>

#include "karez/kernels/cpu/fast_row.h"
#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {
namespace {

constexpr std::string_view arithmetic[] = {"+", "-", "*"}, comparisons[] = {"==", "!=", "<", "<=", ">", ">="};
constexpr std::string_view selection = "select(x0, x1, x2)";

// Returns the operation of the call. Returns nullopt if it is another operation.
std::optional<std::string_view> integer_operation(const CallSpec& call) {
  if (!call.attrs.has("expr")) return std::nullopt;
  const std::string& expr = call.attrs.text("expr");
  const bool selects = expr == selection;
  if (!has_operands(call, selects ? 3 : 2, 1)) return std::nullopt;
  const View& out = call.out[0];
  const DType dtype = call.in[1].dtype;
  if ((dtype != DType::i32 && dtype != DType::i64) || out.count() == 0) return std::nullopt;
  for (std::size_t i = 0; i < call.in.size(); ++i)
    if (call.in[i].dtype != (selects && i == 0 ? DType::b8 : dtype) || call.in[i].shape != out.shape)
      return std::nullopt;
  if (selects) return out.dtype == dtype ? std::optional(selection) : std::nullopt;
  const auto find = [&](const auto& operations) -> std::optional<std::string_view> {
    for (const std::string_view op : operations)
      if (expr == cat("x0 ", op, " x1")) return op;
    return std::nullopt;
  };
  if (out.dtype == DType::b8) return find(comparisons);
  return out.dtype == dtype ? find(arithmetic) : std::nullopt;
}

// The loops over the result, operand 0, and the operands of the call.
Loops loops_of(const CallSpec& call) {
  std::vector<Strides> strides{call.out[0].strides};
  for (const View& x : call.in) strides.push_back(x.strides);
  return loops_over(call.out[0].shape, strides, Order::by_memory);
}

// Writes f(i) to element i of each run; `step` is the distance of results. Most runs are contiguous.
template <class R, class F> void fill_run(R* to, std::int64_t step, std::int64_t count, F f) {
  if (step == 1)
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<R>(f(i));
  else
    for (std::int64_t i = 0; i < count; ++i) to[i * step] = static_cast<R>(f(i));
}

// The kernel of one operation on numbers of type T, whose results have type R.
template <class T, class R, class F> PreparedKernel kernel_of(const CallSpec& call, F f) {
  return [f, loops = loops_of(call)](const KernelArgs& args) {
    const std::int64_t a = loops.step(1), b = loops.step(2);
    for_each_run(loops, [&](const auto& at) {
      const T *x = elements<T>(args.in[0]) + at[1], *y = elements<T>(args.in[1]) + at[2];
      fill_run(elements<R>(args.out[0]) + at[0], loops.step(0), loops.inner(),
               [&](std::int64_t i) { return f(x[i * a], y[i * b]); });
    });
  };
}

template <class T> PreparedKernel selection_of(const CallSpec& call) {
  return [loops = loops_of(call)](const KernelArgs& args) {
    const std::int64_t a = loops.step(1), b = loops.step(2), c = loops.step(3);
    for_each_run(loops, [&](const auto& at) {
      const auto* condition = elements<std::uint8_t>(args.in[0]) + at[1];
      const T *x = elements<T>(args.in[1]) + at[2], *y = elements<T>(args.in[2]) + at[3];
      fill_run(elements<T>(args.out[0]) + at[0], loops.step(0), loops.inner(),
               [&](std::int64_t i) { return condition[i * a] != 0 ? x[i * b] : y[i * c]; });
    });
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
