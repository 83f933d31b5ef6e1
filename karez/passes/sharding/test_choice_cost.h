// For tests: evaluates the planner's tables for one choice of every node.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard_tables.h"

namespace karez::passes {

// Returns the cost of the problem for one choice of every node. The choices determine the sets along the chains.
inline double cost_of_choices(const LayoutProblem& problem, const Choices& choices, const ById<NodeId, int>& chosen) {
  std::vector<int> state(problem.sum.domain.size(), 0);
  for (NodeId n : choices.ids()) state[static_cast<std::size_t>(problem.variable[n])] = chosen[n];
  for (const solve::Factor& link : problem.sum.factors) {
    if (link.cells->implied_class.empty()) continue;
    std::size_t cell = 0;
    for (std::size_t a = 0; a + 1 < link.scope.size(); ++a) {
      const auto v = static_cast<std::size_t>(link.scope[a]);
      const auto& class_of = link.cells->classes[a];
      const int classes =
          class_of.empty() ? problem.sum.domain[v] : 1 + *std::max_element(class_of.begin(), class_of.end());
      cell = cell * static_cast<std::size_t>(classes) +
             static_cast<std::size_t>(class_of.empty() ? state[v] : class_of[static_cast<std::size_t>(state[v])]);
    }
    if (link.cells->implied_class[cell] < 0) return INFINITY;
    state[static_cast<std::size_t>(link.scope.back())] = link.cells->implied_class[cell];
  }
  return solve::cost_of(problem.sum, state) + problem.constant;
}

}  // namespace karez::passes
