// Minimises one variable out of a sum of tables: the inner loop of bucket elimination.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "solve/cost_graph.h"

namespace karez::solve {

// out[s...] = min over x of unary[x] + sum of tables at (s..., x), for all states s of the scope, row-major.
class Join {
 public:
  Join(const CostGraph&, int variable, std::span<const int> scope);

  void add_unary(std::span<const double> cost);
  void add(std::span<const double> cells, std::span<const int> scope);  // x and variables of the join's scope, in any order
  std::vector<double> minimise();

 private:
  struct Part {
    std::vector<double> own;        // cells in the join's axis order with x last, unless they come so
    const double* at;               // where the walk stands
    std::vector<std::size_t> step;  // per axis of the scope
    std::size_t deepest = 0;        // 1 + the last axis it depends on; 0: none
  };

  void descend(std::size_t axis, const double* sum);
  void add_row(const Part&, const double* sum, double* out) const;

  const CostGraph& graph_;
  int variable_, size_;
  std::vector<int> scope_;
  std::vector<double> base_;
  std::vector<Part> parts_;
  std::vector<std::vector<Part*>> ends_;      // per axis: parts whose deepest axis it is
  std::vector<std::vector<double>> partial_;  // per axis: sum so far for each state of x
  std::vector<double> out_;
};

}  // namespace karez::solve
