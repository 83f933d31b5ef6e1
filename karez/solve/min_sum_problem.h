// A sum of cost tables over discrete variables (a factor graph), and the result of its minimisation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

// Costs by class of state, row-major over the classes of each axis; +inf forbids a combination. An axis with an empty
// list has a class for each state. Example: with two axes, classes {0, 1, 1} and {}, and cost {a, b, c, d}, the states
// (2, 1) cost d.
struct CostCells {
  std::vector<double> cost;
  std::vector<std::vector<int>> classes;  // by axis and state; numbered from 0 without gaps
  // Used instead of `cost` if the other axes imply the class of the last axis: for each joint class of the other axes,
  // the only class of the last axis that is allowed, at cost 0; -1 if none is allowed. For two axes with 2 classes
  // each, {1, 0} stands for the costs {+inf, 0, 0, +inf}.
  std::vector<int> implied_class;
};

// A cost table over the variables of `scope`. Equal factors should share their cells, so that derived tables are
// computed only once. If a scope names a variable twice, the diagonal of the cells is used.
struct Factor {
  std::vector<int> scope;
  std::shared_ptr<const CostCells> cells;
};
Factor factor(std::vector<int> scope, std::vector<double> cost);  // has a class for each state

struct MinSumProblem {
  std::vector<int> domain;  // number of states of each variable, at least 1
  std::vector<Factor> factors;
};

struct MinSumResult {
  bool feasible =
      false;  // if false and `optimal`, all choices are forbidden; if false and not `optimal`, none was found
  std::vector<int> choice;  // one state per variable; empty if not feasible
  double cost = 0;          // cost of the choice, summed in the order of the factors; +inf if not feasible
  double lower_bound = 0;   // lower bound on the cost of all choices
  bool optimal = false;     // minimal up to rounding: 1e-12 of the sum of the factors' largest finite costs
  std::string method;       // name of the method, for reports
};

double cost_of(const MinSumProblem&, const std::vector<int>& choice);

}  // namespace karez::solve
