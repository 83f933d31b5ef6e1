// Plain kernels that select rows by index: gather, scatter_add, one_hot. For a row on another device, gather gives
// zeros and scatter_add adds nothing. An index outside the logical table is an error.
#include <cstring>

#include "karez/kernels/cpu/copy_plan.h"
#include "karez/kernels/cpu/index_bounds.h"
#include "karez/kernels/cpu/plain_kernels.h"

namespace karez::kernels {
namespace {

// Split the shape or strides of [i..., d...] into the first `split` dimensions and the rest.
std::vector<std::int64_t> head(const std::vector<std::int64_t>& list, std::size_t split) {
  return {list.begin(), list.begin() + static_cast<std::ptrdiff_t>(split)};
}
std::vector<std::int64_t> tail(const std::vector<std::int64_t>& list, std::size_t split) {
  return {list.begin() + static_cast<std::ptrdiff_t>(split), list.end()};
}

// Loops over an index [i...], a table [v, d...] and rows [i..., d...].
struct RowIndexing {
  Loops index;  // operand 0 is the first element of each row, operand 1 is the index
  Loops row;    // operand 0 is the row, operand 1 is the row of the table
  std::int64_t table_step = 0;
  IndexBounds bounds;
};
RowIndexing row_indexing_of(const CallSpec& call, const View& index, const View& table, const View& rows) {
  const std::size_t split = index.shape.size();
  require_fit(table.rank() >= 1 && rows.rank() == index.rank() + table.rank() - 1, call, "ranks do not match");
  require_fit(head(rows.shape, split) == index.shape && tail(rows.shape, split) == tail(table.shape, 1), call,
              "sizes do not match");
  return {loops_over(index.shape, {head(rows.strides, split), index.strides}, Order::logical),
          loops_over(tail(table.shape, 1), {tail(rows.strides, split), tail(table.strides, 1)}, Order::by_memory),
          table.strides[0], IndexBounds(call, index, table.shape[0])};
}

PreparedKernel gather(const CallSpec& call) {
  const RowIndexing rows = row_indexing_of(call, call.in[1], call.in[0], call.out[0]);
  return with_index(call.in[1].dtype, [&]<class I>() {
    return with_type(call.out[0].dtype, [&]<class T>() -> PreparedKernel {
      return [rows](const KernelArgs& args) {
        const T* table = elements<T>(args.in[0]);
        const I* index = elements<I>(args.in[1]);
        const std::int64_t count = rows.row.inner(), step = rows.row.step(0), table_step = rows.row.step(1);
        std::int64_t n = 0;
        for_each_element(rows.index, [&](const auto& offsets) {
          T* y = elements<T>(args.out[0]) + offsets[0];
          const std::int64_t v = rows.bounds.row(index[offsets[1]], n++);
          const bool inside = v >= 0;
          for_each_run(rows.row, [&](const auto& run) {
            T* to = y + run[0];
            const T* from = inside ? table + v * rows.table_step + run[1] : nullptr;
            if (inside && step == 1 && table_step == 1)
              std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
            else
              for (std::int64_t i = 0; i < count; ++i) to[i * step] = inside ? from[i * table_step] : T{};
          });
        });
      };
    });
  });
}

// Sums are accumulated in the workspace as Wide<T> (double for f32) in the shape of the table, then converted into the
// table. Updates with equal indices are added in their logical order, although any order would be valid.
PreparedKernel scatter_add(const CallSpec& call) {
  const View& y = call.out[0];
  const View sums(y.dtype, y.shape);  // row-major
  const RowIndexing rows = row_indexing_of(call, call.in[0], sums, call.in[1]);
  const Loops out = loops_over(y.shape, {y.strides, sums.strides}, Order::by_memory);
  return with_index(call.in[0].dtype, [&]<class I>() {
    return with_number(y.dtype, [&]<class T>() -> PreparedKernel {
      return [rows, out, total = y.count()](const KernelArgs& args) {
        auto* sums = reinterpret_cast<Wide<T>*>(args.workspace);
        std::fill_n(sums, total, Wide<T>{});
        const I* index = elements<I>(args.in[0]);
        const std::int64_t count = rows.row.inner(), step = rows.row.step(0), sum_step = rows.row.step(1);
        std::int64_t n = 0;
        for_each_element(rows.index, [&](const auto& offsets) {
          const T* updates = elements<T>(args.in[1]) + offsets[0];
          const std::int64_t v = rows.bounds.row(index[offsets[1]], n++);
          if (v < 0) return;
          for_each_run(rows.row, [&](const auto& run) {
            Wide<T>* to = sums + v * rows.table_step + run[1];
            for (std::int64_t i = 0; i < count; ++i)
              to[i * sum_step] += static_cast<Wide<T>>(updates[run[0] + i * step]);
          });
        });
        T* y = elements<T>(args.out[0]);
        for_each_element(out, [&](const auto& offsets) { y[offsets[0]] = static_cast<T>(sums[offsets[1]]); });
      };
    });
  });
}

PreparedKernel one_hot(const CallSpec& call) {
  const View &index = call.in[0], &y = call.out[0];
  const std::size_t split = index.shape.size();
  require_fit(y.rank() == index.rank() + 1 && head(y.shape, split) == index.shape, call, "sizes do not match");
  const Loops rows = loops_over(index.shape, {head(y.strides, split), index.strides}, Order::logical);
  const std::int64_t depth = y.shape[split], step = y.strides[split];
  return with_index(index.dtype, [&]<class I>() {
    return with_type(y.dtype, [&]<class T>() -> PreparedKernel {
      return [rows, depth, step, bounds = IndexBounds(call, index, depth)](const KernelArgs& args) {
        const I* index = elements<I>(args.in[0]);
        std::int64_t n = 0;
        for_each_element(rows, [&](const auto& offsets) {
          T* to = elements<T>(args.out[0]) + offsets[0];
          for (std::int64_t k = 0; k < depth; ++k) to[k * step] = T{};
          const std::int64_t v = bounds.row(index[offsets[1]], n++);
          if (v >= 0) to[v * step] = T{1};
        });
      };
    });
  });
}

}  // namespace

std::vector<KernelRow> plain_gather_rows() {
  KernelRow scatter = plain_row(
      "scatter_add",
      [](const CallSpec& call) {
        return has_operands(call, 2, 1) && is_index(call.in[0]) && call.in[1].dtype == call.out[0].dtype &&
               call.out[0].dtype != DType::b8;
      },
      scatter_add);
  scatter.workspace = [](const CallSpec& call) { return checked_mul(call.out[0].count(), 8); };
  return {
      plain_row(
          "gather",
          [](const CallSpec& call) {
            return has_operands(call, 2, 1) && is_index(call.in[1]) && call.in[0].dtype == call.out[0].dtype;
          },
          gather),
      scatter,
      plain_row(
          "one_hot", [](const CallSpec& call) { return has_operands(call, 1, 1) && is_index(call.in[0]); }, one_hot)};
}

}  // namespace karez::kernels
