// The search for layouts: exact on one mesh axis; on several, axis after axis, then a bound, then exact among the
// layouts that the bound leaves open.
#pragma once

#include <cstddef>
#include <string>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/layout_choices.h"

namespace karez::passes {

struct LayoutSearchResult {
  ById<NodeId, int> chosen;
  double cost = 0, bound = 0;  // seconds: true cost of the choice; lower bound for every choice
  bool optimal = false;
  std::string method;  // for reports
};

// Counts, never seconds, so that every rank decides alike.
struct SearchLimits {
  int passes = 40;                                 // of the bound over the whole program
  int rounds = 12, reduced_problems = 11;          // of narrowing by the bound; of exact searches in each
  bool axis_by_axis = true;                        // begin with single axes
  std::size_t table_cells = std::size_t{1} << 20;  // of one table of an exact elimination
  std::size_t cheap_cells = 4'000;  // of the table that a variable leaves when it is eliminated before the bound
};
LayoutSearchResult search_layouts(const Graph& graph, const Choices& choices, TransitionCostCache& prices,
                                  const SearchLimits& limits = {});

}  // namespace karez::passes
