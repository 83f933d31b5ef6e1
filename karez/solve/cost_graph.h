// A factor graph in the form min_sum works on: tables over classes of states, their cells and their classes each kept
// once.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "karez/solve/min_sum.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// A way to part the states of a variable into classes, which are numbered in the order of their first states.
struct StatePartition {
  std::vector<int> of;     // class by state
  std::vector<int> first;  // by class
  int count() const { return static_cast<int>(first.size()); }
};

// Every parting once, by number.
class StatePartitions {
 public:
  int number(const std::vector<int>& class_of);  // any numbering of classes
  int finest(int states);
  int common_refinement(int a, int b);  // states are together where both have them together
  const StatePartition& operator[](int number) const { return all_[static_cast<std::size_t>(number)]; }

 private:
  std::vector<StatePartition> all_;
  std::map<std::vector<int>, int> number_of_;
  std::map<std::pair<int, int>, int> refinements_;
};

struct Table {
  std::vector<int> scope;       // ascending variables
  std::vector<int> partitions;  // by axis, of two classes or more
  int cost_array = -1;
};

// Distinct cells, which any number of tables have.
struct CostArray {
  std::vector<int> sizes;            // by axis
  std::vector<double> own;           // the cells, unless they are the caller's
  std::span<const double> borrowed;  // which are read in place
  std::span<const int>
      implied_class;  // or, where the last axis follows from the others, its class (see CostCells): the caller's too
  std::span<const double> cells() const { return own.empty() ? borrowed : std::span<const double>(own); }
};

struct CostGraph {
  std::vector<int> states;  // by variable
  StatePartitions partitions;
  std::vector<CostArray> cost_arrays;
  std::vector<Table> tables;  // of one variable or more
  double constant = 0;

  int variables() const { return static_cast<int>(states.size()); }
};

// Checks the problem. Borrows its cells.
CostGraph cost_graph(const MinSumProblem&);

// Cost of one choice.
double cost_of(const CostGraph&, std::span<const int> choice);
double cell_of(const CostGraph&, const Table&, std::span<const int> choice);

// Sum over tables of the largest finite magnitude: what rounding errors are measured against.
double magnitude(const CostGraph&);

// Row-major strides; the last is 1.
std::vector<std::size_t> strides_of(std::span<const int> sizes);
std::size_t cell_count(std::span<const int> sizes);
std::vector<double> dense_cells(const CostArray&);  // those that `follows` stands for

using AxisOffsets = std::vector<std::vector<std::size_t>>;  // by axis and index: how far the cell lies

// out[i, j, ...] += cells[step[0][i] + step[1][j] + ...], out row-major: restricts, transposes, broadcasts and takes
// diagonals.
void add_gathered(std::span<double> out, std::span<const double> cells, const AxisOffsets& step);

}  // namespace karez::solve
