// Greedy elimination orders on the graph of variables that share a table.
#include "solve/elimination_order.h"

#include <algorithm>

namespace karez::solve {
namespace {
constexpr double hopeless_work = 1e18;  // cells: no other order saves so much, and counting fill in a dense graph is slow

// The graph in which variables are linked when a table holds both; eliminating one links its neighbours.
class Elimination {
 public:
  Elimination(std::span<const int> sizes, const Scopes& scopes, std::span<const int> variables)
      : sizes_(sizes),
        left_(variables.begin(), variables.end()),
        place_(sizes.size(), -1),
        linked_(variables.size(), std::vector<char>(variables.size(), 0)) {
    for (std::size_t i = 0; i < left_.size(); ++i) place_[left_[i]] = static_cast<int>(i);
    for (const auto& scope : scopes)
      for (int v : scope)
        for (int w : scope)
          if (v != w && place_[v] >= 0 && place_[w] >= 0) linked_[place_[v]][place_[w]] = 1;
    score_.assign(left_.size(), -1.0);
    near_.resize(left_.size());
    for (std::size_t i = 0; i < left_.size(); ++i)
      for (std::size_t j = 0; j < left_.size(); ++j)
        if (linked_[i][j]) near_[i].push_back(static_cast<int>(j));
  }

  // Eliminates everything, the least score first, ties to the lowest number. `work` gets the cells visited.
  std::vector<int> run(bool by_fill, double& work) {
    by_fill_ = by_fill;
    std::vector<int> order;
    std::vector<char> gone(left_.size(), 0);
    work = 0;
    for (std::size_t round = 0; round < left_.size(); ++round) {
      int best = -1;
      for (int i = 0; i < static_cast<int>(left_.size()); ++i) {
        if (gone[i]) continue;
        if (score_[i] < 0) score_[i] = by_fill ? fill_of(i) : cells_of(i);
        if (best < 0 || score_[i] < score_[best]) best = i;
      }
      work += cells_of(best);
      order.push_back(left_[best]);
      gone[best] = 1;
      remove(best);
    }
    return order;
  }

 private:
  double size(int i) const { return sizes_[left_[i]]; }

  double cells_of(int i) const {
    double cells = size(i);
    for (int j : near_[i]) cells *= size(j);
    return cells;
  }

  double fill_of(int i) const {  // a link to be added counts the cells of its pair
    double fill = 0;
    for (std::size_t a = 0; a < near_[i].size(); ++a)
      for (std::size_t b = a + 1; b < near_[i].size(); ++b)
        if (!linked_[near_[i][a]][near_[i][b]]) fill += size(near_[i][a]) * size(near_[i][b]);
    return fill + 1e-9 * std::min(cells_of(i), 1e9);  // of equal fill the smaller table
  }

  void remove(int i) {
    const std::vector<int> around = near_[i];
    for (int a : around) {
      std::erase(near_[a], i);
      for (int b : around) {
        if (a == b || linked_[a][b]) continue;
        linked_[a][b] = 1;
        near_[a].insert(std::lower_bound(near_[a].begin(), near_[a].end(), b), b);
      }
    }
    for (int a : around) {  // only scores of neighbours have changed, and fill also where two neighbours of a variable became linked
      score_[a] = -1;
      if (by_fill_)
        for (int b : near_[a]) score_[b] = -1;
    }
  }

  std::span<const int> sizes_;
  std::vector<int> left_, place_;
  std::vector<std::vector<char>> linked_;
  std::vector<std::vector<int>> near_;
  std::vector<double> score_;
  bool by_fill_ = true;
};
}  // namespace

std::vector<int> elimination_order(std::span<const int> sizes, const Scopes& scopes, std::span<const int> variables) {
  double fill_work = 0, small_work = 0;
  std::vector<int> by_size = Elimination(sizes, scopes, variables).run(false, small_work);
  if (small_work > hopeless_work) return by_size;
  std::vector<int> by_fill = Elimination(sizes, scopes, variables).run(true, fill_work);
  return fill_work <= small_work ? by_fill : by_size;
}

}  // namespace karez::solve
