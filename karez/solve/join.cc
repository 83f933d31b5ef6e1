// Minimises by nested loops over the axes of the scope. Tables that do not depend on the inner axes are summed in outer
// loops.
#include "karez/solve/join.h"

#include <algorithm>

#include "karez/solve/min_marginal.h"

namespace karez::solve {

Join::Join(std::vector<int> sizes, int states)
    : sizes_(std::move(sizes)),
      states_(states),
      base_(static_cast<std::size_t>(states), 0.0) {}

void Join::add(std::span<const double> cells, AxisOffsets step, const std::vector<std::size_t>& of_x) {
  Part part{.owned_cells = {}, .step = std::move(step), .end_axis = 0, .cell = {}, .cells = cells};
  bool is_contiguous = true;
  for (std::size_t x = 0; x < of_x.size(); ++x) is_contiguous &= of_x[x] == x;
  if (!is_contiguous) {
    // Copy the cells with x as the last axis; offsets of the other axes become offsets of rows in the copy.
    std::vector<std::size_t> starts = {0};
    for (auto& axis : part.step) {
      if (axis.empty()) continue;
      std::vector<std::size_t> distinct = axis;
      std::sort(distinct.begin(), distinct.end());
      distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
      std::vector<std::size_t> next;
      for (std::size_t start : starts)
        for (std::size_t offset : distinct) next.push_back(start + offset);
      starts = std::move(next);
    }
    std::size_t inner_rows = starts.size();
    for (auto& axis : part.step) {
      if (axis.empty()) continue;
      std::vector<std::size_t> distinct = axis;
      std::sort(distinct.begin(), distinct.end());
      distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
      inner_rows /= distinct.size();
      for (std::size_t& offset : axis)
        offset =
            static_cast<std::size_t>(std::lower_bound(distinct.begin(), distinct.end(), offset) - distinct.begin()) *
            inner_rows * of_x.size();
    }
    part.owned_cells.reserve(starts.size() * of_x.size());
    for (std::size_t start : starts)
      for (std::size_t offset : of_x) part.owned_cells.push_back(cells[start + offset]);
    part.cells = part.owned_cells;
  }
  for (std::size_t a = 0; a < part.step.size(); ++a)
    if (!part.step[a].empty()) part.end_axis = a + 1;
  parts_.push_back(std::move(part));
}

void Join::add_row(const double* cells, const double* sum, double* out) const {
  for (int x = 0; x < states_; ++x) out[x] = sum[x] + cells[x];
}

void Join::begin() {
  ends_.assign(sizes_.size(), {});
  partial_.assign(sizes_.size(), std::vector<double>(static_cast<std::size_t>(states_)));
  for (Part& part : parts_) {
    part.cell.assign(sizes_.size() + 1, part.cells.data());
    if (part.end_axis == 0) add_row(part.cell[0], base_.data(), base_.data());
    else ends_[part.end_axis - 1].push_back(&part);
  }
}

std::vector<double> Join::minimise() {
  begin();
  out_.clear();
  out_.reserve(cell_count(sizes_));
  descend(0, base_.data());
  return std::move(out_);
}

void Join::for_each(const std::function<bool(std::span<const double>)>& visit) {
  begin();
  walk(0, base_.data(), visit);
}

bool Join::walk(std::size_t axis, const double* sum, const std::function<bool(std::span<const double>)>& visit) {
  if (axis == sizes_.size()) return visit({sum, static_cast<std::size_t>(states_)});
  for (int i = 0; i < sizes_[axis]; ++i) {
    for (Part& part : parts_)
      if (part.end_axis > axis)
        part.cell[axis + 1] =
            part.cell[axis] + (part.step[axis].empty() ? 0 : part.step[axis][static_cast<std::size_t>(i)]);
    const double* total = sum;
    for (Part* part : ends_[axis]) {
      add_row(part->cell[axis + 1], total, partial_[axis].data());
      total = partial_[axis].data();
    }
    if (!walk(axis + 1, total, visit)) return false;
  }
  return true;
}

void Join::descend(std::size_t axis, const double* sum) {
  if (axis == sizes_.size()) {
    out_.push_back(*std::min_element(sum, sum + states_));
    return;
  }
  const bool last = axis + 1 == sizes_.size();
  const auto& ends = ends_[axis];
  double* partial = partial_[axis].data();
  for (int i = 0; i < sizes_[axis]; ++i) {
    for (Part& part : parts_)
      if (part.end_axis > axis)
        part.cell[axis + 1] =
            part.cell[axis] + (part.step[axis].empty() ? 0 : part.step[axis][static_cast<std::size_t>(i)]);
    const double* total = sum;
    const std::size_t deferred = last && !ends.empty() ? 1 : 0;  // the last table is added while its row is minimised
    for (std::size_t e = 0; e + deferred < ends.size(); ++e, total = partial)
      add_row(ends[e]->cell[axis + 1], total, partial);
    if (deferred) out_.push_back(min_plus(ends.back()->cell[axis + 1], total, states_));
    else descend(axis + 1, total);
  }
}

}  // namespace karez::solve
