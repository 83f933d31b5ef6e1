// A sum of cost tables over discrete variables (a factor graph), and the result of its minimisation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

// Costs by class of state: row-major over the classes of each axis; +inf forbids. An axis with an empty list has a
// class for each state. Two axes, classes {0, 1, 1} and {}, cost {a, b, c, d}: state (2, 1) costs d.
struct CostCells {
  std::vector<double> cost;
  std::vector<std::vector<int>> classes;  // by axis and state; numbered from 0 without gaps
  // Replaces costs if the other axes imply the last: for each of their joint classes, the only class of the last axis
  // that is allowed, at cost 0; -1 if none is. Two axes of 2 classes each: {1, 0} means the costs {+inf, 0, 0, +inf}.
  std::vector<int> implied_class;
};

// Equal factors should share their cells, so that derived tables are computed once. A variable named twice reads the
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

struct MinSumResult {
  bool feasible = false;    // if false: with `optimal`, every choice is forbidden; without it, no choice was found
  std::vector<int> choice;  // one state per variable; empty if not feasible
  double cost = 0;          // of the choice, summed in the order of the factors; +inf if not feasible
  double lower_bound = 0;   // on all choices
  bool optimal = false;     // except for rounding: 1e-12 of the sum of the factors' largest finite costs
  std::string method;       // for reports
};

double cost_of(const MinSumProblem&, const std::vector<int>& choice);

}  // namespace karez::solve
