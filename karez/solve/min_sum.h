// Minimisation of a sum of cost tables over discrete variables (a factor graph): exact where tables allow, with a
// proven bound where not.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

// Costs by class of state: row-major over the classes of each axis, the last axis varies fastest; +inf forbids. An axis
// whose list is empty has a class for each state. Two axes, classes {0, 1, 1} and {}, cost {a, b, c, d}: state (2, 1)
// costs d.
struct CostCells {
  std::vector<double> cost;
  std::vector<std::vector<int>> classes;  // by axis and state; numbered from 0 without gaps
  // In place of costs, where the last axis follows from the others: by their joint class its class, which is allowed at
  // no cost, others are not; -1: none is. Two axes of 2 classes each, follows {1, 0}: as the costs {+inf, 0, 0, +inf}.
  std::vector<int> implied_class;
};

// Factors that are alike share their cells: what is made of them is made once. A variable named twice reads the
// diagonal.
struct Factor {
  std::vector<int> scope;
  std::shared_ptr<const CostCells> cells;
};
Factor factor(std::vector<int> scope, std::vector<double> cost);  // a class for each state

struct MinSumProblem {
  std::vector<int> domain;  // number of states of each variable, at least 1
  std::vector<Factor> factors;
};

// Counted, never seconds: every rank decides alike.
struct MinSumLimits {
  std::size_t table_cells =
      std::size_t{1} << 22;  // of one table; all distinct ones of one elimination together take at most four times that
  int passes = 40;           // of the dual bound
};

struct MinSumResult {
  bool feasible = false;    // false with optimal: proven that every choice is forbidden; false without: none was found
  std::vector<int> choice;  // one state per variable; empty when not feasible
  double cost = 0;          // of the choice, summed in the order of the factors; +inf when not feasible
  double lower_bound = 0;   // no choice costs less
  bool optimal = false;     // to rounding: 1e-12 of the sum of the factors' largest finite costs
  std::string method;       // for people
};

// Large finite costs as stand-ins for "forbidden" only blunt the bound: write +inf. NaN and -inf are errors.
MinSumResult min_sum(const MinSumProblem&, const MinSumLimits& = {});

double cost_of(const MinSumProblem&, const std::vector<int>& choice);

}  // namespace karez::solve
