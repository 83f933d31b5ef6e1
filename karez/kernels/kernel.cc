// The table of kernels: finds the row with the highest rank for a call, suggests strides that a row with a higher rank
// supports, and lists rows.
#include "karez/kernels/kernel.h"

#include <algorithm>

#include "karez/base/suggest_names.h"
#include "karez/base/text.h"
#include "karez/kernels/grouped_calls.h"

namespace karez::kernels {
namespace {

const KernelRow* best_row(const std::vector<KernelRow>& rows, const CallSpec& call) {
  const KernelRow* best = nullptr;
  for (const KernelRow& row : rows)
    if (row.op == call.op && (best == nullptr || row.rank > best->rank) && is_supported(row, call)) best = &row;
  return best;
}

// Returns the call with the strides that `order` (row_major or channels_last) gives to each operand. An operand with a
// stride of zero keeps its strides, because it repeats elements in any order.
CallSpec with_order(CallSpec call, Strides (*order)(const Shape&)) {
  for (auto* views : {&call.in, &call.out})
    for (View& view : *views)
      if (std::find(view.strides.begin(), view.strides.end(), 0) == view.strides.end())
        view.strides = order(view.shape);
  return call;
}

}  // namespace

KernelTable::KernelTable(std::vector<KernelRow> rows) : rows_(std::move(rows)) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    require(ErrorKind::name, rows_[i].supports && rows_[i].prepare, "kernel '", rows_[i].name,
            "' lacks `supports` or `prepare`");
    require(rows_[i].rate > 0 && rows_[i].rate < 1e6, "kernel '", rows_[i].name,
            "' must have a rate above 0 and below 1e6, got ", rows_[i].rate);
    for (std::size_t j = 0; j < i; ++j)
      require(ErrorKind::name, rows_[i].name != rows_[j].name, "two kernels are called '", rows_[i].name, "'");
  }
}

std::optional<KernelChoice> KernelTable::find(const CallSpec& call) const {
  const KernelRow* best = best_row(rows_, call);
  if (best == nullptr) return std::nullopt;
  return KernelChoice{best->name, workspace_of(*best, call), best->rate};
}

std::optional<CallSpec> KernelTable::suggest(const CallSpec& call) const {
  std::optional<CallSpec> out;
  int rank = 0;
  for (const CallSpec& candidate :
       {call, with_order(call, channels_last), with_order(call, row_major)}) {  // on equal ranks, strides are kept
    const KernelRow* best = best_row(rows_, candidate);
    if (best == nullptr || (out && best->rank <= rank)) continue;
    out = candidate;
    rank = best->rank;
  }
  return out;
}

std::string KernelTable::list(std::string_view op) const {
  std::vector<const KernelRow*> candidates;
  for (const KernelRow& row : rows_)
    if (row.op == op) candidates.push_back(&row);
  if (candidates.empty()) return cat("no kernel implements '", op, "'");
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const KernelRow* a, const KernelRow* b) { return a->rank > b->rank; });
  return cat("kernels of '", op,
             "', highest rank first: ", join(candidates, ", ", [](const KernelRow* row) { return row->name; }));
}

const KernelRow& KernelTable::row(std::string_view name) const {
  for (const KernelRow& row : rows_)
    if (row.name == name) return row;
  fail(ErrorKind::device, "unknown kernel '", name, "'; ",
       suggest_names(name, rows_, [](const KernelRow& row) { return row.name; }));
}

}  // namespace karez::kernels
