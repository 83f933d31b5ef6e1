// Plain matrix products: y[i, m, n] = sum over k of a[i, m, k] b[i, k, n], with an optional bias [n] and ReLU. For bf16
// and f16 operands, y may be f32 and the bias is f32.
#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {
namespace {

bool supports(const CallSpec& call) {
  const bool bias = call.attrs.flag("bias", false);
  if (!has_operands(call, bias ? 3 : 2, 1) || !product_types(call.in[0], call.in[1], call.out[0]) ||
      call.in[0].rank() < 2)
    return false;
  return !bias || call.in[2].dtype == (is_half(call.in[0].dtype) ? DType::f32 : call.in[0].dtype);
}

// The matrix in the last two dimensions of an operand; its transpose attribute exchanges rows and columns.
struct Matrix {
  std::int64_t rows, columns, row_step, column_step;
};
Matrix matrix_of(const View& view, bool transposed) {
  const auto r = view.shape.size() - 2, c = r + 1;
  if (transposed) return {view.shape[c], view.shape[r], view.strides[c], view.strides[r]};
  return {view.shape[r], view.shape[c], view.strides[r], view.strides[c]};
}

PreparedKernel prepare(const CallSpec& call) {
  const View &a = call.in[0], &b = call.in[1], &y = call.out[0];
  require_fit(a.rank() == y.rank() && b.rank() == y.rank(), call, "ranks differ");
  const Matrix left = matrix_of(a, call.attrs.flag("transpose_a", false)),
               right = matrix_of(b, call.attrs.flag("transpose_b", false));
  const Matrix out = matrix_of(y, false);
  require_fit(left.rows == out.rows && right.columns == out.columns && left.columns == right.rows, call,
              "sizes do not match");
  const auto batch_dims = [](const auto& list) { return std::vector<std::int64_t>(list.begin(), list.end() - 2); };
  require_fit(batch_dims(a.shape) == batch_dims(y.shape) && batch_dims(b.shape) == batch_dims(y.shape), call,
              "batch dimensions differ");
  const bool bias = call.attrs.flag("bias", false), relu = call.attrs.flag("relu", false);
  if (bias) require_fit(call.in[2].shape == Shape{out.columns}, call, "the bias must have the shape [n]");
  const std::int64_t bias_step = bias ? call.in[2].strides[0] : 0;
  const Loops batch = loops_over(batch_dims(y.shape),
                                 {batch_dims(y.strides), batch_dims(a.strides), batch_dims(b.strides)}, Order::logical);

  return with_product(a.dtype, y.dtype, [&]<class T, class Y>() -> PreparedKernel {
    return [=](const KernelArgs& args) {
      constexpr std::int64_t width =
          64;  // columns that are summed together, so that a row-major right operand is read along its rows
      for_each_element(batch, [&](const auto& offsets) {
        Y* y = elements<Y>(args.out[0]) + offsets[0];
        const T *a = elements<T>(args.in[0]) + offsets[1], *b = elements<T>(args.in[1]) + offsets[2];
        const Bias<T>* bias_values = bias ? elements<Bias<T>>(args.in[2]) : nullptr;
        for (std::int64_t m = 0; m < out.rows; ++m)
          for (std::int64_t n0 = 0; n0 < out.columns; n0 += width) {
            const std::int64_t n1 = std::min(out.columns, n0 + width);
            Wide<T> sum[width] = {};
            for (std::int64_t k = 0; k < left.columns; ++k) {
              const auto x = static_cast<Wide<T>>(a[m * left.row_step + k * left.column_step]);
              const T* w = b + k * right.row_step;
              for (std::int64_t n = n0; n < n1; ++n) sum[n - n0] += x * static_cast<Wide<T>>(w[n * right.column_step]);
            }
            for (std::int64_t n = n0; n < n1; ++n) {
              if (bias_values) sum[n - n0] += static_cast<Wide<T>>(bias_values[n * bias_step]);
              const Y value = static_cast<Y>(sum[n - n0]);
              y[m * out.row_step + n * out.column_step] = relu ? ieee_maximum<Y>(value, static_cast<Y>(0)) : value;
            }
          }
      });
    };
  });
}

}  // namespace

std::vector<KernelRow> plain_matmul_rows() { return {plain_row("matmul", supports, prepare)}; }

}  // namespace karez::kernels
