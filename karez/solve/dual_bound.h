// A lower bound on the cost of all choices of a cost graph, found by moving costs between tables and variables
// (sequential reweighted message passing).
#pragma once

#include <vector>

#include "karez/solve/elimination.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// A reparametrisation of the cost graph. It preserves the total cost of every choice of the variables that an
// elimination leaves: message[table][axis][class] is added to the cells of a table, and the same amounts are subtracted
// from node[variable][state]. The sum of the minima of all tables and variables is the bound. A cost of +inf marks
// states that no allowed choice has.
struct Reweighting {
  std::vector<std::vector<double>> node;  // by variable; empty for eliminated variables
  std::vector<std::vector<std::vector<double>>>
      message;  // by table; empty for replaced tables and for tables of one variable (their costs are in `node`)
  std::vector<std::vector<double>> unary_cost;  // by variable: the initial costs of its states
  std::vector<std::vector<double>>
      min_cost;            // by variable and state: a lower bound on the cost of choices with this state
  double bound = 0;        // after a pass: a lower bound on the cost of all choices, except for rounding
  bool first_pass = true;  // true until the first pass, which visits every table
  struct Use {
    int table, axis;
  };
  std::vector<std::vector<Use>> uses;  // by variable: its tables with two variables or more
};

Reweighting reweighting(const Elimination&);

// Makes one pass over the variables in ascending or descending order. The bound never decreases.
void run_pass(const Elimination&, Reweighting&, bool ascending);

// By variable and state: 1 for a selected state, otherwise 0.
using StateMasks = std::vector<std::vector<char>>;
// Returns masks of the states that may occur in choices whose cost is at most `excess` above the bound. Choices with
// other states are proven to cost more. Requires a previous pass.
StateMasks states_within(const Elimination&, const Reweighting&, double excess);

// Chooses states greedily by the reweighted costs, variable by variable. `ascending` must be true after a descending
// pass and false after an ascending one.
std::vector<int> round_choice(const Elimination&, const Reweighting&, bool ascending);

// Recomputes the bound from the minima of all tables and variables, without the rounding errors that the running bound
// accumulates.
double recomputed_bound(const Elimination&, const Reweighting&);

}  // namespace karez::solve
