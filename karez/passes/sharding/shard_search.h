// The search for layouts: exact on one mesh axis; on several axis after axis, beside a bound, and exactly among the
// layouts that it leaves open.
#pragma once

#include <cstddef>
#include <string>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

struct LayoutSearchResult {
  ById<NodeId, int> chosen;
  double cost = 0, bound = 0;  // seconds: true price of the choice; what every choice costs at least
  bool optimal = false;
  std::string method;  // for people
};

// Counted, never seconds: every rank decides alike.
struct SearchLimits {
  int passes = 40;                                 // of the bound over the whole program
  int rounds = 12, reduced_problems = 11;          // of narrowing to what the bound leaves; of exact searches in each
  bool axis_by_axis = true;                        // begin so
  std::size_t table_cells = std::size_t{1} << 20;  // of one table of an exact elimination
  std::size_t cheap_cells = 4'000;                 // of what one variable leaves that goes before the bound
};
LayoutSearchResult search_layouts(const Graph& graph, const Choices& choices, TransitionCostCache& prices,
                                  const SearchLimits& limits = {});

}  // namespace karez::passes
