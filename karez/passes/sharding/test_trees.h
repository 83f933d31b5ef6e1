// For brute-force tests: finds the cheapest tree of steps between the layouts of one tensor without the planner's
// search.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "karez/passes/namespace.h"
#include "karez/sbp/test_steps.h"
#include "karez/sbp/transition.h"

namespace karez::passes::testing {

// All layouts of one tensor and the costs of the cheapest trees. Distances are computed by the Floyd-Warshall
// algorithm; trees are found by trying every layout at which a tree may branch, with every division of the targets
// between the two branches.
class TransitionTrees {
 public:
  TransitionTrees(const TensorType& type, const Mesh& mesh, const std::set<Sbp>& partials, const CostTable& costs) {
    layouts_ = {broadcast_layout(mesh)};
    auto steps = [&](const Layout& layout) {
      auto out = steps_from(type, mesh, layout);
      std::erase_if(out, [&](const TransitionStep& step) {
        return step.to[step.axis].is_partial() && !partials.count(step.to[step.axis]);
      });
      return out;
    };
    for (std::size_t i = 0; i < layouts_.size(); ++i)
      for (const TransitionStep& step : steps(layouts_[i]))
        if (number(step.to) == layouts_.size()) layouts_.push_back(step.to);
    std::size_t n = layouts_.size();
    distance_.assign(n, std::vector<double>(n, INFINITY));
    for (std::size_t i = 0; i < n; ++i) {
      distance_[i][i] = 0;
      for (const TransitionStep& step : steps(layouts_[i]))
        distance_[i][number(step.to)] = seconds(type, mesh, step, costs);
    }
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
          distance_[i][j] = std::min(distance_[i][j], distance_[i][k] + distance_[k][j]);
  }
  double cheapest(const Layout& from, const std::set<Layout>& targets) {
    std::vector<std::size_t> ends;
    for (const Layout& target : targets) ends.push_back(number(target));
    return tree(number(from), ends);
  }

 private:
  std::size_t number(const Layout& layout) const {
    return static_cast<std::size_t>(std::find(layouts_.begin(), layouts_.end(), layout) - layouts_.begin());
  }

  double tree(std::size_t from, const std::vector<std::size_t>& ends) {
    if (ends.empty()) return 0;
    if (ends.size() == 1) return distance_[from][ends[0]];
    auto [cached, inserted] = trees_.try_emplace({from, ends}, INFINITY);
    if (!inserted) return cached->second;
    double best = INFINITY;
    for (std::size_t branch = 0; branch < layouts_.size(); ++branch)
      for (std::size_t bits = 1; bits + 1 < std::size_t{1} << ends.size() && distance_[from][branch] < best;
           bits += 2) {
        std::vector<std::size_t> first_ends, other_ends;  // `first_ends` contains ends[0]
        for (std::size_t e = 0; e < ends.size(); ++e) (bits >> e & 1U ? first_ends : other_ends).push_back(ends[e]);
        double sum = distance_[from][branch] + tree(branch, first_ends);
        if (sum < best) best = std::min(best, sum + tree(branch, other_ends));
      }
    return trees_[{from, ends}] = best;
  }

  std::vector<Layout> layouts_;
  std::vector<std::vector<double>> distance_;
  std::map<std::pair<std::size_t, std::vector<std::size_t>>, double> trees_;
};

}  // namespace karez::passes::testing
