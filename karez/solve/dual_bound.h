// A lower bound on a cost graph, found by moving costs between tables and variables (sequential reweighted message
// passing).
#pragma once

#include <vector>

#include "karez/solve/elimination.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// A reparametrisation of the cost graph: the total cost of every choice of a plan's remaining variables is unchanged.
// message[table][axis][class] is added to a table's cells for each axis; node[variable][state] has the same amounts
// subtracted. The sum of all minima is the bound. +inf marks states that no allowed choice has.
struct Reweighting {
  std::vector<std::vector<double>> node;  // by variable; empty for eliminated ones
  std::vector<std::vector<std::vector<double>>>
      message;  // by table; empty for replaced tables and for those of one variable, which are in node
  std::vector<std::vector<double>> unary_cost;  // by variable: its initial costs
  std::vector<std::vector<double>> min_cost;    // by variable and state: a lower bound on choices with this state
  double bound = 0;                             // after a pass: a lower bound on all choices, except for rounding
  bool first_pass = true;                       // no pass was made yet; the first one visits every table
  struct Use {
    int table, axis;
  };
  std::vector<std::vector<Use>> uses;  // by variable: its tables with two variables or more
};

Reweighting reweighting(const Elimination&);

// Makes one pass over the variables in ascending or descending order. The bound never falls.
void run_pass(const Elimination&, Reweighting&, bool ascending);

// By variable and state: 0 if no choice that costs at most `excess` more than the bound has this state. Requires a
// previous pass.
using StateMasks = std::vector<std::vector<char>>;
StateMasks states_within(const Elimination&, const Reweighting&, double excess);

// A choice made greedily by the reweighted costs, variable by variable; ascending after a descending pass and vice
// versa.
std::vector<int> round_choice(const Elimination&, const Reweighting&, bool ascending);

// The bound recomputed from the minima of all tables and variables, without the rounding that a running bound
// accumulates.
double recomputed_bound(const Elimination&, const Reweighting&);

}  // namespace karez::solve
