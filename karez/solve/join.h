// Minimisation of a sum of tables over one variable, which is the inner loop of elimination.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "karez/solve/cost_graph.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// Computes out[i...] = min over x of the sum of all tables at (i..., x), for all i... of the scope; `out` is row-major.
class Join {
 public:
  Join(std::vector<int> sizes, int states);  // the sizes of the scope's axes, and the number of states of x

  // Adds a table. For each axis of the scope, `step` has the offset of each index; its list is empty if the table lacks
  // the axis. `of_x` has the offset of each state of x; every table depends on x.
  void add(std::span<const double> cells, AxisOffsets step, const std::vector<std::size_t>& of_x);
  std::vector<double> minimise();
  // Visits the sums at (i..., x) for all x, once for each i, until `visit` returns false.
  void for_each(const std::function<bool(std::span<const double>)>& visit);

 private:
  struct Part {
    std::vector<double>
        owned_cells;           // a copy of the cells with contiguous x, unless x is contiguous in the given cells
    AxisOffsets step;          // by axis of the scope
    std::size_t end_axis = 0;  // 1 + the last axis on which the table depends; 0 if it depends on none
    std::vector<const double*> cell;  // by axis: the current cell, without the offsets of this axis and later ones
    std::span<const double> cells;
  };

  void begin();
  void descend(std::size_t axis, const double* sum);
  bool walk(std::size_t axis, const double* sum, const std::function<bool(std::span<const double>)>& visit);
  void add_row(const double* cells, const double* sum, double* out) const;

  std::vector<int> sizes_;
  int states_;
  std::vector<double> base_;
  std::vector<Part> parts_;
  std::vector<std::vector<Part*>> ends_;      // by axis: the parts that depend on this axis and on no later one
  std::vector<std::vector<double>> partial_;  // by axis: the partial sum for each state of x
  std::vector<double> out_;
};

}  // namespace karez::solve
