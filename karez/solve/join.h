// Minimises one variable out of a sum of tables: the inner loop of elimination.
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

  // Where the cell of index i on each axis of the scope, and of state x, lies; empty for an axis the table does not
  // have. It has x.
  void add(std::span<const double> cells, AxisOffsets step, const std::vector<std::size_t>& of_x);
  std::vector<double> minimise();
  // The sums at (i..., x) for all x, once for each i, until `visit` says false.
  void for_each(const std::function<bool(std::span<const double>)>& visit);

 private:
  struct Part {
    std::vector<double> own;        // cells with a run over x at the end, unless they come so
    AxisOffsets step;               // by axis of the scope
    std::size_t deepest = 0;        // 1 + the last axis it depends on; 0: none
    std::vector<const double*> at;  // by axis: where the walk stands before it
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
  std::vector<std::vector<Part*>> ends_;      // per axis: parts whose deepest axis it is
  std::vector<std::vector<double>> partial_;  // per axis: sum so far for each state of x
  std::vector<double> out_;
};

}  // namespace karez::solve
