// The list of all CPU kernels: the plain and the fast rows.
#include "karez/kernels/cpu/fast_kernels.h"

#include "karez/base/copy_bytes.h"
#include "karez/kernels/cpu/bf16_widening.h"
#include "karez/kernels/cpu/fast_row.h"
#include "karez/kernels/cpu/library_versions.h"
#include "karez/kernels/cpu/team.h"

namespace karez::kernels {

std::vector<KernelRow> cpu_kernels() {
  limit_instructions();
  std::vector<KernelRow> rows = plain_kernels();
  for (auto* list :
       {onednn_rows, hwy_axis_rows, hwy_conv_rows, hwy_pointwise_rows, hwy_pointwise_f64_rows, hwy_pool_rows,
        hwy_reduce_rows, hwy_row_program_rows, hwy_update_rows, hwy_random_rows, fast_along_rows, fast_copy_rows,
        fast_index_rows, fast_sort_rows, fast_integer_rows, fast_resize_rows, bf16_widening_rows})
    for (KernelRow& row : list()) rows.push_back(std::move(row));
  return rows;
}

KernelRow fast_row(std::string op, std::function<bool(const CallSpec&)> supports,
                   std::function<PreparedKernel(const CallSpec&)> prepare) {
  KernelRow row;
  row.name = "fast." + op;
  row.op = std::move(op);
  row.rank = 10;
  row.supports = std::move(supports);
  row.prepare = std::move(prepare);
  return row;
}

void copy_bytes(int team, std::byte* to, const std::byte* from, std::int64_t bytes) {
  parallel_for(team, bytes, 1 << 17, [&](std::int64_t begin, std::int64_t end, int) {
    base::copy_bytes(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace karez::kernels
