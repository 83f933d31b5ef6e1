// The table of kernels: the best row for a call, the strides it would rather have, and what there is.
#include "kernels/kernel.h"

#include <algorithm>

#include "base/text.h"

namespace karez::kernels {
namespace {

const KernelRow* best_row(const std::vector<KernelRow>& rows, const CallSpec& call) {
  const KernelRow* best = nullptr;
  for (const KernelRow& row : rows)
    if (row.op == call.op && (best == nullptr || row.rank > best->rank) && row.supports(call)) best = &row;
  return best;
}

// All operands row-major, or those of four dimensions channels-last. A stride of zero stays: the operand repeats, and no layout changes that.
CallSpec with_order(CallSpec call, Strides (*order)(const Shape&)) {
  for (auto* views : {&call.in, &call.out})
    for (View& view : *views)
      if (std::find(view.strides.begin(), view.strides.end(), 0) == view.strides.end()) view.strides = order(view.shape);
  return call;
}

// Letters to change, drop or insert to get from one name to the other (Levenshtein's distance).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j)
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)}));
  }
  return row[b.size()];
}

// Names within a third of the length, or that share what follows the point ("plain.matmul" for "onednn.matmul"), nearest first.
std::vector<std::string> near(std::string_view name, const std::vector<KernelRow>& rows) {
  const auto behind_point = [](std::string_view text) { return text.substr(text.find('.') + 1); };
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const KernelRow& row : rows) {
    const std::size_t d = distance(name, row.name);
    if (d <= std::max<std::size_t>(name.size() / 3, 1) || behind_point(name) == behind_point(row.name)) found.emplace_back(d, row.name);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (auto& [d, text] : found)
    if (names.size() < 5) names.push_back(std::move(text));
  return names;
}

}  // namespace

KernelTable::KernelTable(std::vector<KernelRow> rows) : rows_(std::move(rows)) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    require(rows_[i].supports && rows_[i].prepare, "kernel '", rows_[i].name, "' lacks `supports` or `prepare`");
    for (std::size_t j = 0; j < i; ++j) require(rows_[i].name != rows_[j].name, "two kernels are called '", rows_[i].name, "'");
  }
}

std::optional<KernelChoice> KernelTable::find(const CallSpec& call) const {
  const KernelRow* best = best_row(rows_, call);
  if (best == nullptr) return std::nullopt;
  return KernelChoice{best->name, best->workspace ? best->workspace(call) : 0};
}

std::optional<CallSpec> KernelTable::suggest(const CallSpec& call) const {
  std::optional<CallSpec> out;
  int rank = 0;
  for (const CallSpec& candidate : {call, with_order(call, channels_last), with_order(call, row_major)}) {  // as it stands wins ties
    const KernelRow* best = best_row(rows_, candidate);
    if (best == nullptr || (out && best->rank <= rank)) continue;
    out = candidate;
    rank = best->rank;
  }
  return out;
}

std::string KernelTable::list(std::string_view op) const {
  std::vector<const KernelRow*> of_op;
  for (const KernelRow& row : rows_)
    if (row.op == op) of_op.push_back(&row);
  if (of_op.empty()) return cat("no kernel implements '", op, "'");
  std::stable_sort(of_op.begin(), of_op.end(), [](const KernelRow* a, const KernelRow* b) { return a->rank > b->rank; });
  return cat("kernels of '", op, "', best first: ", join(of_op, ", ", [](const KernelRow* row) { return row->name; }));
}

const KernelRow& KernelTable::row(std::string_view name) const {
  for (const KernelRow& row : rows_)
    if (row.name == name) return row;
  const std::vector<std::string> names = near(name, rows_);
  if (names.empty()) fail("no kernel is called '", name, "'");
  fail("no kernel is called '", name, "'; near it are ", join(names, ", "));
}

}  // namespace karez::kernels
