// Finds the components of the conflict graph by breadth-first searches over the blocks that are not placed.
#include "karez/solve/conflict_components.h"

#include <algorithm>
#include <utility>

namespace karez::solve {

ConflictComponents::ConflictComponents(const PackProblem& problem, const std::vector<int>& rank,
                                       const std::vector<char>& placed, long& work)
    : problem_(problem),
      rank_(rank),
      placed_(placed),
      work_(work),
      mark_(problem.blocks.size(), 0) {}

std::vector<std::vector<int>> ConflictComponents::split(const std::vector<int>& blocks) {
  std::vector<std::vector<int>> components;
  for (int b : blocks) mark_[b] = 1;
  for (int start : blocks) {
    if (!mark_[start]) continue;
    std::vector<int> component{start};
    mark_[start] = 0;
    for (std::size_t i = 0; i < component.size(); ++i) {
      work_ -= static_cast<long>(problem_.conflicts[component[i]].size());
      for (int w : problem_.conflicts[component[i]])
        if (mark_[w]) {
          mark_[w] = 0;
          component.push_back(w);
        }
    }
    std::sort(component.begin(), component.end(), [&](int a, int b) { return rank_[a] < rank_[b]; });
    components.push_back(std::move(component));
  }
  return components;
}

bool ConflictComponents::remain_connected(int placed_block) {
  int unreached = 0, start = -1;
  for (int w : problem_.conflicts[placed_block])
    if (!placed_[w]) mark_[w] = 2, ++unreached, start = w;
  if (unreached == 0) return false;
  reached_.assign(1, start);
  mark_[start] = 1;
  --unreached;
  for (std::size_t i = 0; i < reached_.size() && unreached > 0; ++i)
    for (int w : problem_.conflicts[reached_[i]]) {
      --work_;
      if (placed_[w] || mark_[w] == 1) continue;
      unreached -= mark_[w] == 2;
      mark_[w] = 1;
      reached_.push_back(w);
    }
  for (int b : reached_) mark_[b] = 0;
  for (int w : problem_.conflicts[placed_block]) mark_[w] = 0;
  return unreached == 0;
}

}  // namespace karez::solve
