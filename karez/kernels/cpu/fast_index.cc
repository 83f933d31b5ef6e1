// Kernels that read or write rows by index, if every row is contiguous: gather, scatter_add, one_hot.
#include <cstring>

#include "karez/kernels/cpu/fast_row.h"
#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/team.h"

namespace karez::kernels {
namespace {

bool is_nonempty_contiguous(const View& view) { return view.count() > 0 && view.contiguous(); }
bool is_index(const View& view) { return view.dtype == DType::i32 || view.dtype == DType::i64; }

// The part of a table that is stored locally: rows offset to offset + count - 1 of `limit` rows.
struct LocalTable {
  std::int64_t offset = 0, count = 0, limit = 0, width = 0;
  bool wide = false;  // i64 indices

  std::int64_t index(const std::byte* indices, std::int64_t i) const {
    return wide ? reinterpret_cast<const std::int64_t*>(indices)[i] : reinterpret_cast<const std::int32_t*>(indices)[i];
  }
  // Returns whether all indices are rows of the complete table. If not, the plain kernel runs and reports the invalid
  // index.
  bool all_in_range(const std::byte* indices, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; ++i)
      if (index(indices, i) < 0 || index(indices, i) >= limit) return false;
    return true;
  }
};

LocalTable local_table_of(const CallSpec& call, const View& index, std::int64_t count, std::int64_t width) {
  LocalTable out;
  out.offset = call.attrs.integer("offset", 0);
  out.count = count;
  out.limit = call.attrs.integer("limit", out.offset + count);
  out.width = width;
  out.wide = index.dtype == DType::i64;
  return out;
}

// Prepares the plain row of the same op, for indices outside the table.
PreparedKernel prepare_plain(const CallSpec& call) {
  for (const KernelRow& row : plain_gather_rows())
    if (row.op == call.op) return row.prepare(call);
  fail(ErrorKind::device, "no plain row implements '", call.op, "'");
}

// Returns whether the fast kernels support table [v, d...], index [i...] and rows [i..., d...]: all must be contiguous
// and not empty, and table and rows must have the same dtype.
bool supports_rows(const View& table, const View& index, const View& rows) {
  return table.dtype == rows.dtype && is_index(index) && table.rank() >= 1 &&
         rows.rank() == index.rank() + table.rank() - 1 && is_nonempty_contiguous(table) &&
         is_nonempty_contiguous(index) && is_nonempty_contiguous(rows);
}

PreparedKernel gather(const CallSpec& call) {
  const View &table = call.in[0], &index = call.in[1];
  const LocalTable t = local_table_of(call, index, table.shape[0], table.count() / table.shape[0]);
  const std::int64_t grain = std::max<std::int64_t>(32768 / t.width, 1), row_bytes = t.width * size_of(table.dtype);
  return
      [t, grain, row_bytes, n = index.count(), team = call.team, plain = prepare_plain(call)](const KernelArgs& args) {
        if (!t.all_in_range(args.in[1], n)) return plain(args);
        const std::byte* source = args.in[0];
        std::byte* out = args.out[0];
        parallel_for(team, n, grain, [&](std::int64_t from, std::int64_t to, int) {
          for (std::int64_t i = from; i < to; ++i) {
            const std::int64_t row = t.index(args.in[1], i) - t.offset;
            if (row >= 0 && row < t.count)
              std::memcpy(out + i * row_bytes, source + row * row_bytes, static_cast<std::size_t>(row_bytes));
            else std::memset(out + i * row_bytes, 0, static_cast<std::size_t>(row_bytes));
          }
        });
      };
}

// As in the plain row, sums are accumulated as Wide<T> in the workspace, in the order of the updates. The threads of a
// team share the columns, so that no sum depends on the size of the team.
PreparedKernel scatter_add(const CallSpec& call) {
  const View &index = call.in[0], &y = call.out[0];
  const LocalTable t = local_table_of(call, index, y.shape[0], y.count() / y.shape[0]);
  return with_number(y.dtype, [&]<class T>() -> PreparedKernel {
    return [t, n = index.count(), team = call.team, plain = prepare_plain(call)](const KernelArgs& args) {
      if (!t.all_in_range(args.in[0], n)) return plain(args);
      auto* sums = reinterpret_cast<Wide<T>*>(args.workspace);
      const T* updates = elements<T>(args.in[1]);
      T* out = elements<T>(args.out[0]);
      parallel_for(team, t.width, std::max<std::int64_t>(65536 / std::max<std::int64_t>(n, 1), 16),
                   [&](std::int64_t from, std::int64_t to, int) {
                     for (std::int64_t row = 0; row < t.count; ++row)
                       std::fill(sums + row * t.width + from, sums + row * t.width + to, Wide<T>{});
                     for (std::int64_t i = 0; i < n; ++i) {
                       const std::int64_t row = t.index(args.in[0], i) - t.offset;
                       if (row < 0 || row >= t.count) continue;
                       Wide<T>* sum = sums + row * t.width;
                       const T* update = updates + i * t.width;
                       for (std::int64_t c = from; c < to; ++c) sum[c] += static_cast<Wide<T>>(update[c]);
                     }
                     for (std::int64_t row = 0; row < t.count; ++row)
                       for (std::int64_t c = row * t.width + from; c < row * t.width + to; ++c)
                         out[c] = static_cast<T>(sums[c]);
                   });
    };
  });
}

PreparedKernel one_hot(const CallSpec& call) {
  const View &index = call.in[0], &y = call.out[0];
  const LocalTable t = local_table_of(call, index, y.shape.back(), y.shape.back());
  return with_type(y.dtype, [&]<class T>() -> PreparedKernel {
    return [t, n = index.count(), plain = prepare_plain(call)](const KernelArgs& args) {
      if (!t.all_in_range(args.in[0], n)) return plain(args);
      T* out = elements<T>(args.out[0]);
      std::fill_n(out, n * t.width, T{0});
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = t.index(args.in[0], i) - t.offset;
        if (at >= 0 && at < t.count) out[i * t.width + at] = T{1};
      }
    };
  });
}

}  // namespace

std::vector<KernelRow> fast_index_rows() {
  KernelRow scatter = fast_row(
      "scatter_add",
      [](const CallSpec& call) {
        return has_operands(call, 2, 1) && call.out[0].dtype != DType::b8 &&
               supports_rows(call.out[0], call.in[0], call.in[1]);
      },
      scatter_add);
  scatter.workspace = [](const CallSpec& call) { return checked_mul(call.out[0].count(), 8); };
  return {fast_row(
              "gather",
              [](const CallSpec& call) {
                return has_operands(call, 2, 1) && supports_rows(call.in[0], call.in[1], call.out[0]);
              },
              gather),
          scatter,
          fast_row(
              "one_hot",
              [](const CallSpec& call) {
                return has_operands(call, 1, 1) && is_index(call.in[0]) && is_nonempty_contiguous(call.in[0]) &&
                       is_nonempty_contiguous(call.out[0]) && call.out[0].rank() == call.in[0].rank() + 1;
              },
              one_hot)};
}

}  // namespace karez::kernels
