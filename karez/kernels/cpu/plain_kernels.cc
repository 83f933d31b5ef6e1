// The list of all plain kernels, and the checks that they share.
#include "karez/kernels/cpu/plain_kernels.h"

#include <algorithm>

#include "karez/kernels/cpu/loops.h"

namespace karez::kernels {

std::vector<KernelRow> plain_kernels() {
  std::vector<KernelRow> rows;
  for (auto* list :
       {plain_source_rows, plain_pointwise_rows, plain_copy_rows, plain_matmul_rows, plain_conv_rows, plain_pool_rows,
        plain_reduce_rows, plain_row_program_rows, plain_gather_rows, plain_axis_rows, plain_update_rows})
    for (KernelRow& row : list()) rows.push_back(std::move(row));
  return rows;
}

KernelRow plain_row(std::string op, std::function<bool(const CallSpec&)> supports,
                    std::function<PreparedKernel(const CallSpec&)> prepare) {
  KernelRow row;
  row.name = "plain." + op;
  row.op = std::move(op);
  row.supports = std::move(supports);
  row.prepare = std::move(prepare);
  row.rate = 0.05;  // measured: 3 to 100 times slower than a fast row, depending on the op
  return row;
}

bool has_operands(const CallSpec& call, int inputs, int outputs) {
  const auto fits = [](const View& view) {
    return view.rank() <= max_rank && view.strides.size() == view.shape.size();
  };
  return (inputs < 0 || static_cast<int>(call.in.size()) == inputs) &&
         (outputs < 0 || static_cast<int>(call.out.size()) == outputs) &&
         std::all_of(call.in.begin(), call.in.end(), fits) && std::all_of(call.out.begin(), call.out.end(), fits);
}

bool all_dtype(const std::vector<View>& views, DType dtype) {
  return std::all_of(views.begin(), views.end(), [&](const View& view) { return view.dtype == dtype; });
}

bool product_types(const View& a, const View& b, const View& y) {
  return a.dtype == b.dtype && a.dtype != DType::b8 &&
         (y.dtype == a.dtype || (is_half(a.dtype) && y.dtype == DType::f32));
}

void require_fit(bool ok, const CallSpec& call, std::string_view what) {
  if (!ok) fail(ErrorKind::shape, call.op, ": ", what, " in ", print(call));
}

}  // namespace karez::kernels
