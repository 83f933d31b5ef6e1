// A lower bound on a cost graph by moving costs between tables and variables (sequential reweighted message passing).
#pragma once

#include <vector>

#include "karez/solve/elimination.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// The same total cost for every choice of the variables that a plan leaves, written differently: a table's cell counts
// with message[table][axis][class] added for each of its axes, a variable's state with node[variable][state], which has
// all of that subtracted. What is least everywhere is the bound. +inf stands where no allowed choice goes through.
struct Reweighting {
  std::vector<std::vector<double>> node;  // by variable; empty for those eliminated
  std::vector<std::vector<std::vector<double>>>
      message;  // by table; empty for those gone and for those of one variable, which are in node
  std::vector<std::vector<double>> unary_cost;  // by variable: the costs it began with
  std::vector<std::vector<double>> min_cost;    // by variable and state: no choice with this state costs less
  double bound = 0;                             // after a pass: no choice costs less, to rounding
  bool first_pass = true;                       // no pass yet: the first one asks every table
  struct Use {
    int table, axis;
  };
  std::vector<std::vector<Use>> uses;  // by variable: its tables of two variables or more
};

Reweighting reweighting(const Elimination&);

// One pass over the variables, ascending or descending. The bound never falls.
void run_pass(const Elimination&, Reweighting&, bool ascending);

// By variable and state: 0 where no choice that costs at most `excess` more than the bound has this state. After a
// pass.
using StateMasks = std::vector<std::vector<char>>;
StateMasks states_within(const Elimination&, const Reweighting&, double excess);

// A choice that follows the reweighted costs, variable by variable; ascending after a descending pass and the other way
// about.
std::vector<int> round_choice(const Elimination&, const Reweighting&, bool ascending);

// Sum of what is least in each table and variable, computed anew: free of the drift that a running bound gathers.
double recomputed_bound(const Elimination&, const Reweighting&);

}  // namespace karez::solve
