// Minimises a sum of cost tables over discrete variables (a factor graph). The result is exact if tables stay small;
// otherwise it comes with a proven lower bound.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "karez/solve/min_sum_problem.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// Limits are counts, never seconds, so that every rank makes the same decisions.
struct MinSumLimits {
  std::size_t table_cells =
      std::size_t{1}
      << 22;        // per table; all distinct tables of one elimination together have at most four times as many cells
  int passes = 40;  // of the dual bound
};

// Minimises the sum. Forbidden choices should cost +inf, because large finite costs weaken the bound. Throws if a cost
// is NaN or -inf.
MinSumResult min_sum(const MinSumProblem&, const MinSumLimits& = {});

}  // namespace karez::solve
