// Minimisation of one variable out of a sum of tables: the inner loop of elimination.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "karez/solve/cost_graph.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// out[i...] = min over x of the sum of tables at (i..., x), for all i of the scope, row-major.
class Join {
 public:
  Join(std::vector<int> sizes, int states);  // of the scope's axes, and of x

  // Adds a table: `step` has the offset of index i on each axis of the scope, empty for axes that the table does not
  // have; `of_x` has the offset of state x, which every table has.
  void add(std::span<const double> cells, AxisOffsets step, const std::vector<std::size_t>& of_x);
  std::vector<double> minimise();
  // Visits the sums at (i..., x) for all x, once for each i, until `visit` returns false.
  void for_each(const std::function<bool(std::span<const double>)>& visit);

 private:
  struct Part {
    std::vector<double> own;        // copy of the cells with x contiguous, if the given cells are not so
    AxisOffsets step;               // by axis of the scope
    std::size_t deepest = 0;        // 1 + the last axis it depends on; 0 if none
    std::vector<const double*> at;  // by axis: current cell, without the offsets of this axis and later ones
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
  std::vector<std::vector<Part*>> ends_;      // by axis: parts that depend on no later axis
  std::vector<std::vector<double>> partial_;  // by axis: partial sum for each state of x
  std::vector<double> out_;
};

}  // namespace karez::solve
