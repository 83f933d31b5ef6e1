// The search for layouts. On one mesh axis it is exact. On several axes it first searches axis by axis, then computes a
// lower bound, and finally searches exactly among the layouts that the bound leaves open.
#pragma once

#include <cstddef>
#include <string>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/layout_choices.h"

namespace karez::passes {

struct LayoutSearchResult {
  ById<NodeId, int> chosen;
  double cost = 0, bound = 0;  // seconds: the true cost of the assignment, and a lower bound for all assignments
  bool optimal = false;
  std::string method;  // name of the method, for reports
};

// Limits are counts, never seconds, so that every rank makes the same decisions.
struct SearchLimits {
  int passes = 40;                                 // passes of the bound over the program
  int rounds = 12;                                 // rounds of narrowing by the bound
  int reduced_problems = 11;                       // maximum number of exact searches in each round
  bool axis_by_axis = true;                        // whether the search begins with single axes
  std::size_t table_cells = std::size_t{1} << 20;  // maximum cells of one table in an exact elimination
  std::size_t cheap_cells = 4'000;  // maximum cells of a table that an elimination before the bound may create
};
LayoutSearchResult search_layouts(const Graph& graph, const Choices& choices, TransitionCostCache& prices,
                                  const SearchLimits& limits = {});

}  // namespace karez::passes
