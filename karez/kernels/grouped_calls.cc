// Divides the calls of a group among the threads of a team.
#include "karez/kernels/grouped_calls.h"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <utility>

#include "karez/kernels/cpu/team.h"
#include "karez/plan/call_group.h"

namespace karez::kernels {
namespace {

// A call of the group, or some of the rows of a product.
struct Piece {
  PreparedKernel run;
  std::size_t call = 0;
  std::int64_t in_offset = 0, out_offset = 0;  // bytes to the first row, in the first operand and in the result
};

struct Group {
  std::vector<std::vector<Piece>> parts;  // of each thread
  std::size_t operands = 0, results = 0;  // of each call
  std::int64_t workspace = 0;             // of each thread, in bytes

  void run(const KernelArgs& args, std::size_t part) const {
    for (const Piece& piece : parts[part]) {
      const auto in = args.in.subspan(piece.call * operands, operands);
      const auto out = args.out.subspan(piece.call * results, results);
      std::byte* const scratch = args.workspace + static_cast<std::int64_t>(part) * workspace;
      if (piece.in_offset == 0 && piece.out_offset == 0) {
        piece.run({in, out, scratch});
        continue;
      }
      std::array<std::byte*, 3> addresses{};  // of a product: two operands and a bias
      std::copy(in.begin(), in.end(), addresses.begin());
      addresses[0] += piece.in_offset;
      std::byte* result = out[0] + piece.out_offset;
      piece.run({std::span(addresses).first(operands), std::span(&result, 1), scratch});
    }
  }
};

// The rows from `begin` on of a product.
CallSpec rows_of(CallSpec product, std::int64_t begin, std::int64_t count, Piece& piece) {
  View &a = product.in[0], &y = product.out[0];
  const std::size_t rows = product.attrs.flag("transpose_a", false) ? 1 : 0;
  a.shape[rows] = y.shape[0] = count;
  piece.in_offset = begin * a.strides[rows] * size_of(a.dtype);
  piece.out_offset = begin * y.strides[0] * size_of(y.dtype);
  return product;
}

// Processors prefetch memory beyond that which a thread writes. If another thread writes it, both take twice as long.
constexpr std::int64_t workspace_gap = 8192;  // bytes

std::int64_t thread_workspace(const KernelRow& row, const CallSpec& group) {
  const std::int64_t bytes = row.workspace(first_call(group));
  return bytes == 0 ? 0 : round_up(bytes, 64) + (group.team > 1 ? workspace_gap : 0);
}

bool has_rows(const CallSpec& call) {
  return call.op == "matmul" && call.out[0].rank() == 2 && call.out[0].shape[0] > 0 && call.in[0].rank() == 2 &&
         call.in.size() <= 3;
}

// The parts of the threads. Empty if the row does not support a piece of a product.
std::vector<std::vector<Piece>> divide(const KernelRow& row, const CallSpec& group, bool by_rows) {
  const CallSpec first = first_call(group);
  const std::int64_t rows = by_rows ? first.out[0].shape[0] : 1, total = calls_of(group.attrs) * rows,
                     count = std::min<std::int64_t>(group.team, total);
  std::vector<std::vector<Piece>> parts(static_cast<std::size_t>(count));
  for (std::int64_t part = 0; part < count; ++part) {
    const std::int64_t begin = total * part / count, end = total * (part + 1) / count;
    for (std::int64_t call = begin / rows; call * rows < end; ++call) {
      const std::int64_t from = std::max(begin - call * rows, std::int64_t{0}), to = std::min(end - call * rows, rows);
      Piece piece;
      piece.call = static_cast<std::size_t>(call);
      const CallSpec spec = to - from < rows ? rows_of(first, from, to - from, piece) : first;
      if (by_rows && (!row.supports(spec) || (row.workspace && row.workspace(spec) > row.workspace(first)))) return {};
      piece.run = row.prepare(spec);
      parts[static_cast<std::size_t>(part)].push_back(std::move(piece));
    }
  }
  return parts;
}

}  // namespace

bool is_supported(const KernelRow& row, const CallSpec& call) {
  const int calls = calls_of(call.attrs);
  if (calls == 1) return row.supports(call);
  const CallSpec first = first_call(call);
  const auto repeats = [](const std::vector<View>& all, const std::vector<View>& part) {
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i] != part[i % part.size()]) return false;
    return true;
  };
  return repeats(call.in, first.in) && repeats(call.out, first.out) && row.supports(first);
}

std::int64_t workspace_of(const KernelRow& row, const CallSpec& call) {
  if (!row.workspace) return 0;
  if (calls_of(call.attrs) == 1 || row.supports(call)) return row.workspace(call);
  return thread_workspace(row, call) * call.team;
}

PreparedKernel prepare_group(const KernelRow& row, const CallSpec& group) {
  if (row.supports(group)) return row.prepare(group);
  const CallSpec first = first_call(group);
  const auto prepared = std::make_shared<Group>();
  prepared->operands = first.in.size(), prepared->results = first.out.size();
  prepared->workspace = row.workspace ? thread_workspace(row, group) : 0;
  if (group.team > 1 && has_rows(first)) prepared->parts = divide(row, group, true);
  if (prepared->parts.empty()) prepared->parts = divide(row, group, false);
  if (prepared->parts.size() == 1) return [prepared](const KernelArgs& args) { prepared->run(args, 0); };
  return [prepared](const KernelArgs& args) {
    const auto parts = static_cast<std::int64_t>(prepared->parts.size());
    std::exception_ptr error;
    parallel_for(static_cast<int>(parts), parts, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t part = begin; part < end; ++part) {
        try {
          prepared->run(args, static_cast<std::size_t>(part));
        } catch (...) {  // an exception must not leave the parallel region
#pragma omp critical(karez_grouped_calls)
          error = std::current_exception();
        }
      }
    });
    if (error) std::rethrow_exception(error);
  };
}

}  // namespace karez::kernels
