// Nested loops over the scope's axes; what does not depend on the inner axes is summed further out.
#include "solve/join.h"

#include <algorithm>
#include <numeric>

#include "solve/sweep.h"

namespace karez::solve {

Join::Join(const CostGraph& graph, int variable, std::span<const int> scope)
    : graph_(graph),
      variable_(variable),
      size_(graph.size(variable)),
      scope_(scope.begin(), scope.end()),
      base_(size_, 0.0) {}

void Join::add_unary(std::span<const double> cost) {
  for (int x = 0; x < size_; ++x) base_[x] += cost[x];
}

void Join::add(std::span<const double> cells, std::span<const int> scope) {
  std::vector<int> wanted;  // the part's variables in the join's order, x last
  for (int v : scope_)
    if (std::find(scope.begin(), scope.end(), v) != scope.end()) wanted.push_back(v);
  wanted.push_back(variable_);
  Part part{.own = {}, .at = cells.data(), .step = {}};
  if (!std::equal(wanted.begin(), wanted.end(), scope.begin(), scope.end())) {
    std::vector<std::size_t> stride = strides_of(graph_, scope);
    std::vector<std::vector<std::size_t>> step;
    for (int v : wanted) {
      std::size_t jump = stride[std::find(scope.begin(), scope.end(), v) - scope.begin()];
      step.emplace_back(graph_.size(v));
      for (std::size_t s = 0; s < step.back().size(); ++s) step.back()[s] = s * jump;
    }
    part.own.assign(cells.size(), 0.0);
    add_gathered(part.own, cells, step);
  }
  std::vector<std::size_t> stride = strides_of(graph_, wanted);
  for (std::size_t a = 0; a < scope_.size(); ++a) {
    auto at = std::find(wanted.begin(), wanted.end(), scope_[a]);
    part.step.push_back(at == wanted.end() ? 0 : stride[at - wanted.begin()]);
    if (at != wanted.end()) part.deepest = a + 1;
  }
  parts_.push_back(std::move(part));
}

void Join::add_row(const Part& part, const double* sum, double* out) const {
  for (int x = 0; x < size_; ++x) out[x] = sum[x] + part.at[x];
}

std::vector<double> Join::minimise() {
  ends_.assign(scope_.size(), {});
  partial_.assign(scope_.size(), std::vector<double>(size_));
  for (Part& part : parts_) {
    if (!part.own.empty()) part.at = part.own.data();
    if (part.deepest == 0) add_row(part, base_.data(), base_.data());
    else ends_[part.deepest - 1].push_back(&part);
  }
  out_.clear();
  out_.reserve(cell_count(graph_, scope_));
  descend(0, base_.data());
  return std::move(out_);
}

void Join::descend(std::size_t axis, const double* sum) {
  if (axis == scope_.size()) {
    out_.push_back(*std::min_element(sum, sum + size_));
    return;
  }
  int count = graph_.size(scope_[axis]);
  bool last = axis + 1 == scope_.size();
  const auto& ends = ends_[axis];
  double* partial = partial_[axis].data();
  for (int i = 0; i < count; ++i) {
    const double* total = sum;
    std::size_t kept = last && !ends.empty() ? 1 : 0;  // the last one is added while minimising
    for (std::size_t e = 0; e + kept < ends.size(); ++e, total = partial) add_row(*ends[e], total, partial);
    if (kept) out_.push_back(min_plus(ends.back()->at, total, size_));
    else descend(axis + 1, total);
    for (Part& part : parts_) part.at += part.step[axis];
  }
  for (Part& part : parts_) part.at -= part.step[axis] * count;
}

}  // namespace karez::solve
