// Walks over the cells of a row-major table with a vector added along each axis: the inner loop of everything in min_sum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace karez::solve {

struct Axis {
  int size;
  const double* add;  // one summand per state
  int fixed = -1;     // >= 0: only this state is visited
};
using Axes = std::vector<Axis>;

// Least of row[i] + add[i]. Four chains: a minimum depends on its predecessor, and -O2 does not split it; the result is the same.
inline double min_plus(const double* row, const double* add, int count) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  double a = inf, b = inf, c = inf, d = inf;
  int i = 0;
  for (; i + 4 <= count; i += 4) {
    a = std::min(a, row[i] + add[i]);
    b = std::min(b, row[i + 1] + add[i + 1]);
    c = std::min(c, row[i + 2] + add[i + 2]);
    d = std::min(d, row[i + 3] + add[i + 3]);
  }
  for (; i < count; ++i) a = std::min(a, row[i] + add[i]);
  return std::min(std::min(a, b), std::min(c, d));
}

// Calls visit(index, row, base) for each visited row, a run along the last axis; base is the sum of the other axes' summands there.
template <class Visit> void for_each_row(std::span<const double> cells, const Axes& axes, Visit visit) {
  std::size_t count = axes.size() - 1;  // axes that are walked, the last is the row
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

// least[s] = least of cell plus summands among the visited cells whose state on `axis` is s; +inf where none is visited.
inline void min_marginal(std::span<const double> cells, const Axes& axes, std::size_t axis, std::span<double> least) {
  const Axis& last = axes.back();
  std::fill(least.begin(), least.end(), std::numeric_limits<double>::infinity());
  if (axis + 1 == axes.size()) {
    for_each_row(cells, axes, [&](const int*, const double* row, double base) {
      for (int i = 0; i < last.size; ++i) least[i] = std::min(least[i], row[i] + base);
    });
    for (int i = 0; i < last.size; ++i) least[i] += last.add[i];
  } else if (last.fixed >= 0) {
    for_each_row(cells, axes, [&](const int* index, const double* row, double base) {
      double& out = least[index[axis]];
      out = std::min(out, row[last.fixed] + last.add[last.fixed] + base);
    });
  } else {
    for_each_row(cells, axes, [&](const int* index, const double* row, double base) {
      double& out = least[index[axis]];
      out = std::min(out, min_plus(row, last.add, last.size) + base);
    });
  }
}

}  // namespace karez::solve
