// Computes the min-marginals of a row-major table to which a vector is added along each axis. This is the inner loop of
// min_sum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

struct Axis {
  int size;
  const double* add;  // one summand per state
  int fixed = -1;     // if >= 0, only this state is visited
};
using Axes = std::vector<Axis>;

// Returns the minimum of row[i] + add[i]. The four minima in one array let the compiler vectorise the loop at -O2; the
// result does not depend on the order.
inline double min_plus(const double* row, const double* add, int count) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  double minimum[4] = {inf, inf, inf, inf};
  int i = 0;
  for (; i + 4 <= count; i += 4)
    for (int k = 0; k < 4; ++k) {
      const double sum = row[i + k] + add[i + k];
      minimum[k] = sum < minimum[k] ? sum : minimum[k];
    }
  for (; i < count; ++i) minimum[0] = std::min(minimum[0], row[i] + add[i]);
  return std::min(std::min(minimum[0], minimum[1]), std::min(minimum[2], minimum[3]));
}

// Sets minimum[i] = min(minimum[i], row[i] + base), in groups of four as in min_plus().
inline void lower(double* minimum, const double* row, double base, int count) {
  int i = 0;
  for (; i + 4 <= count; i += 4) {
    double sums[4];
    for (int k = 0; k < 4; ++k) sums[k] = row[i + k] + base;
    for (int k = 0; k < 4; ++k) minimum[i + k] = sums[k] < minimum[i + k] ? sums[k] : minimum[i + k];
  }
  for (; i < count; ++i) minimum[i] = std::min(minimum[i], row[i] + base);
}

// Calls visit(index, row, base) for each visited row along the last axis; base is the sum of the other axes' summands.
template <class Visit> void for_each_row(std::span<const double> cells, const Axes& axes, Visit visit) {
  std::size_t count = axes.size() - 1;  // axes that are iterated; the last is the row
  std::vector<int> index(count);
  std::vector<std::size_t> offset(count + 1, 0), stride(count + 1, 1);
  std::vector<double> base(count + 1, 0.0);
  for (std::size_t a = count; a-- > 0;) stride[a] = stride[a + 1] * axes[a + 1].size;
  auto refresh = [&](std::size_t a) {
    for (; a < count; ++a) {
      offset[a + 1] = offset[a] + index[a] * stride[a];
      base[a + 1] = base[a] + axes[a].add[index[a]];
    }
  };
  for (std::size_t a = 0; a < count; ++a) index[a] = std::max(axes[a].fixed, 0);
  refresh(0);
  while (true) {
    visit(index.data(), cells.data() + offset[count], base[count]);
    std::size_t a = count;
    while (a > 0) {
      --a;
      if (axes[a].fixed < 0 && ++index[a] < axes[a].size) break;
      index[a] = std::max(axes[a].fixed, 0);
      if (a == 0) return;
    }
    if (count == 0) return;
    refresh(a);
  }
}

// Sets minimum[s] to the minimum of cell plus summands over the visited cells with state s on `axis`, or to +inf if no
// such cell is visited.
inline void min_marginal(std::span<const double> cells, const Axes& axes, std::size_t axis, std::span<double> minimum) {
  const Axis& last = axes.back();
  std::fill(minimum.begin(), minimum.end(), std::numeric_limits<double>::infinity());
  if (axis + 1 == axes.size()) {
    for_each_row(cells, axes,
                 [&](const int*, const double* row, double base) { lower(minimum.data(), row, base, last.size); });
    for (int i = 0; i < last.size; ++i) minimum[i] += last.add[i];
  } else if (last.fixed >= 0) {
    for_each_row(cells, axes, [&](const int* index, const double* row, double base) {
      double& out = minimum[index[axis]];
      out = std::min(out, row[last.fixed] + last.add[last.fixed] + base);
    });
  } else {
    for_each_row(cells, axes, [&](const int* index, const double* row, double base) {
      double& out = minimum[index[axis]];
      out = std::min(out, min_plus(row, last.add, last.size) + base);
    });
  }
}

// Does the same for a table in which the other axes, with `implied_class.size()` joint classes, imply the class of the
// last axis (see CostCells).
inline void min_marginal(std::span<const int> implied_class, const Axes& axes, std::size_t axis,
                         std::span<double> minimum) {
  const std::size_t last = axes.size() - 1, inner = last - 1;
  std::fill(minimum.begin(), minimum.end(), std::numeric_limits<double>::infinity());
  std::vector<int> index(inner, 0);
  const int count = axes[inner].size, fixed_inner = axes[inner].fixed, fixed_last = axes[last].fixed;
  const double *add = axes[inner].add, *last_add = axes[last].add;
  for (const int* row = implied_class.data(); row != implied_class.data() + implied_class.size(); row += count) {
    double base = 0;
    bool visited = true;
    for (std::size_t a = 0; a < inner; ++a) {
      visited &= axes[a].fixed < 0 || axes[a].fixed == index[a];
      base += axes[a].add[index[a]];
    }
    if (visited) {
      double* state_minimum = axis < inner ? &minimum[index[axis]] : nullptr;
      for (int i = fixed_inner < 0 ? 0 : fixed_inner, end = fixed_inner < 0 ? count : fixed_inner + 1; i < end; ++i) {
        if (row[i] < 0 || (fixed_last >= 0 && fixed_last != row[i])) continue;
        const double sum = base + add[i] + last_add[row[i]];
        double& out = state_minimum ? *state_minimum : minimum[axis == last ? row[i] : i];
        out = std::min(out, sum);
      }
    }
    for (std::size_t a = inner; a-- > 0;) {
      if (++index[a] < axes[a].size) break;
      index[a] = 0;
    }
  }
}

}  // namespace karez::solve
