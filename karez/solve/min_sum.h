// Minimisation of a sum of cost tables over discrete variables (a factor graph). It is exact if tables stay small;
// otherwise the result has a proven bound.
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

// Forbidden choices should cost +inf, since large finite costs weaken the bound. NaN and -inf are errors.
MinSumResult min_sum(const MinSumProblem&, const MinSumLimits& = {});

}  // namespace karez::solve
