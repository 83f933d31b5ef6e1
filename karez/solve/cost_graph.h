// A factor graph in the form that min_sum uses: tables over classes of states. Equal cells and equal partitions into
// classes are stored once.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "karez/solve/min_sum_problem.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// A division of a variable's states into classes, numbered in the order of their first states.
struct StatePartition {
  std::vector<int> of;     // class by state
  std::vector<int> first;  // by class: its first state
  int count() const { return static_cast<int>(first.size()); }
};

// Distinct state partitions, by number.
class StatePartitions {
 public:
  int number(const std::vector<int>& class_of);  // of the partition; `class_of` may number the classes in any way
  int common_refinement(int a, int b);           // two states share a class if they share one in both a and b
  const StatePartition& operator[](int number) const { return all_[static_cast<std::size_t>(number)]; }

 private:
  std::vector<StatePartition> all_;
  std::map<std::vector<int>, int> number_of_;
  std::map<std::pair<int, int>, int> refinements_;
};

struct Table {
  std::vector<int> scope;       // ascending variables
  std::vector<int> partitions;  // by axis; each has two classes or more
  int cost_array = -1;
};

// The cells of a table; tables with the same cells share one array.
struct CostArray {
  std::vector<int> sizes;                  // by axis
  std::vector<double> owned_cells;         // empty if the caller owns the cells
  std::span<const double> borrowed_cells;  // the caller's cells
  std::span<const int> implied_class;  // used instead of cells if the other axes imply the class of the last axis (see
                                       // CostCells); owned by the caller
  std::span<const double> cells() const {
    return owned_cells.empty() ? borrowed_cells : std::span<const double>(owned_cells);
  }
};

struct CostGraph {
  std::vector<int> states;  // by variable
  StatePartitions partitions;
  std::vector<CostArray> cost_arrays;
  std::vector<Table> tables;  // each has one variable or more
  double constant = 0;

  int variables() const { return static_cast<int>(states.size()); }
};

// Checks the problem and builds its graph, which refers to the problem's cells.
CostGraph cost_graph(const MinSumProblem&);

// Returns the sum of the largest finite magnitudes of all tables. Rounding errors are measured relative to this sum.
double magnitude(const CostGraph&);

// Returns row-major strides; the last is 1.
std::vector<std::size_t> strides_of(std::span<const int> sizes);
std::size_t cell_count(std::span<const int> sizes);
std::vector<double> dense_cells(const CostArray&);  // expands `implied_class` to cells

using AxisOffsets = std::vector<std::vector<std::size_t>>;  // by axis and index: the offset of the cell

// Computes out[i, j, ...] += cells[step[0][i] + step[1][j] + ...] for row-major `out`. The steps can restrict,
// transpose and broadcast the cells, or take their diagonal.
void add_gathered(std::span<double> out, std::span<const double> cells, const AxisOffsets& step);

}  // namespace karez::solve
