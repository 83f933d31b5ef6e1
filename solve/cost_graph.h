// A factor graph in the form min_sum works on: the states still alive, unary costs apart, tables over ascending scopes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "solve/min_sum.h"

namespace karez::solve {

struct Table {
  std::vector<int> scope;            // ascending variables
  std::vector<double> own;           // the cells, unless they still are the caller's
  std::span<const double> borrowed;  // big input tables are read in place until something must change them

  std::span<const double> cells() const { return own.empty() ? borrowed : std::span<const double>(own); }
};

struct Use {
  int table, axis;
};

struct CostGraph {
  std::vector<std::vector<int>> states;    // per variable: the caller's number of each state that is left
  std::vector<std::vector<double>> unary;  // per variable: cost of each of these states
  std::vector<Table> tables;               // two variables or more each
  std::vector<std::vector<Use>> uses;      // per variable: the tables that speak of it, ascending
  double constant = 0;

  int variables() const { return static_cast<int>(states.size()); }
  int size(int variable) const { return static_cast<int>(states[variable].size()); }
};

using Marks = std::vector<std::vector<char>>;  // one per variable and state

// Checks the problem and merges factors whose scope lies within another's. Borrows the problem's cells.
CostGraph cost_graph(const MinSumProblem&);

Marks no_marks(const CostGraph&);
bool any(const Marks&);

// Marks every state that no finite assignment of some table contains, until nothing changes. False: a variable has no state left.
bool propagate(const CostGraph&, Marks& dead);

// Marks states that another state of the same variable can always replace at no more cost. Bounded work.
void mark_dominated(const CostGraph&, Marks& dead);

void drop(CostGraph&, const Marks& dead);

// The same costs without the variables that have one state: they leave all scopes, and tables that became subsets are merged.
// Borrows cells of the given graph.
CostGraph folded(const CostGraph&);

// Cost of one choice of state indices (of the graph, not of the caller).
double cost_of(const CostGraph&, std::span<const int> choice);

// Sum over tables of the largest finite magnitude: what rounding errors are measured against.
double magnitude(const CostGraph&);

std::size_t cell_count(const CostGraph&, std::span<const int> scope);

// Row-major strides of a scope; the last is 1.
std::vector<std::size_t> strides_of(const CostGraph&, std::span<const int> scope);

// out[i, j, ...] += cells[step[0][i] + step[1][j] + ...], out row-major: restricts, transposes, broadcasts and takes diagonals.
void add_gathered(std::span<double> out, std::span<const double> cells, const std::vector<std::vector<std::size_t>>& step);

}  // namespace karez::solve
