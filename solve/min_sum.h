// Exact minimisation of a sum of cost tables over discrete variables (a factor graph), with a proven bound when exactness is too dear.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace karez::solve {

// A cost for every joint state of its variables: row-major over the scope's domains, the last variable varies fastest; +inf forbids.
// Variables of domains 2 and 3 and cost {a, b, c, d, e, f}: state (1, 0) costs d. A variable named twice reads the diagonal.
struct Factor {
  std::vector<int> scope;
  std::vector<double> cost;
};

struct MinSumProblem {
  std::vector<int> domain;  // number of states of each variable, at least 1
  std::vector<Factor> factors;
};

// Counted, never seconds: every rank decides alike.
struct MinSumLimits {
  std::size_t table_cells = std::size_t{1} << 24;  // of one elimination table; all of one solve together take at most four times that
  long search_steps = 2'000'000;                   // variables opened by the search that takes over when tables would be larger
};

struct MinSumResult {
  bool feasible = false;    // false with optimal: proven that every choice is forbidden; false without: none was found
  std::vector<int> choice;  // one state per variable; empty when not feasible
  double cost = 0;          // of the choice, summed in the order of the factors; +inf when not feasible
  double lower_bound = 0;   // no choice costs less
  bool optimal = false;     // to rounding: 1e-12 of the sum of the factors' largest finite costs
  std::string method;       // for people
};

// Large finite costs as stand-ins for "forbidden" only blunt the pruning: write +inf. NaN and -inf are errors.
MinSumResult min_sum(const MinSumProblem&, const MinSumLimits& = {});

}  // namespace karez::solve
