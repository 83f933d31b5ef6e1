// A lower bound on a cost graph by moving costs between tables and variables (sequential reweighted message passing).
#pragma once

#include <vector>

#include "solve/cost_graph.h"

namespace karez::solve {

// The same total cost for every choice, written differently: a table's cell counts with message[table][axis][state] added for each
// of its axes, a variable's state with node[variable][state], which has all of that subtracted. What is least everywhere is the bound.
struct Reweighting {
  std::vector<std::vector<double>> node;
  std::vector<std::vector<std::vector<double>>> message;
  double bound = 0;   // after a pass: no choice costs less, to rounding
  bool fresh = true;  // no pass since the last change of the graph: the next one asks every table
};

Reweighting reweighting(const CostGraph&);

// Cells that one pass reads.
std::size_t pass_cells(const CostGraph&);

// One pass over the variables, ascending or descending. The graph must be propagated (each state has a finite cell in each table).
// Marks states that no choice of cost <= `ceiling` contains.
void pass(const CostGraph&, Reweighting&, bool ascending, double ceiling, Marks& dead);

// A choice that follows the reweighted costs, variable by variable; ascending after a descending pass and the other way about.
std::vector<int> round_choice(const CostGraph&, const Reweighting&, bool ascending);

// Keeps the messages of the states that stay; call before `drop`.
void drop(Reweighting&, const CostGraph&, const Marks& dead);

// The graph with the reweighted costs in its cells.
CostGraph reweighted(const CostGraph&, const Reweighting&);

// Sum of what is least in each table and variable, computed anew: free of the drift that a running bound gathers.
double least_sum(const CostGraph&);

}  // namespace karez::solve
