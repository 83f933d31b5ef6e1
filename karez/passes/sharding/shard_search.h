// The search for layouts. It is exact on one mesh axis. On several axes it searches axis after axis, then computes a
// bound, then searches exactly among the layouts that the bound leaves open.
#pragma once

#include <cstddef>
#include <string>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/layout_choices.h"

namespace karez::passes {

struct LayoutSearchResult {
  ById<NodeId, int> chosen;
  double cost = 0, bound = 0;  // seconds: the true cost of the choice, and a lower bound for all choices
  bool optimal = false;
  std::string method;  // name of the method, for reports
};

// Limits are counts, never seconds, so that every rank makes the same decisions.
struct SearchLimits {
  int passes = 40;                                 // passes of the bound over the program
  int rounds = 12, reduced_problems = 11;          // rounds of narrowing by the bound; exact searches in each round
  bool axis_by_axis = true;                        // whether the search begins with single axes
  std::size_t table_cells = std::size_t{1} << 20;  // limit for one table of an exact elimination
  std::size_t cheap_cells = 4'000;  // limit for the result of a variable that is eliminated before the bound
};
LayoutSearchResult search_layouts(const Graph& graph, const Choices& choices, TransitionCostCache& prices,
                                  const SearchLimits& limits = {});

}  // namespace karez::passes
