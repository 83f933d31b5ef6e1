// Howard's policy iteration for the maximum cycle ratio.
#include "karez/solve/cycle_ratio.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "karez/base/error.h"
#include "karez/base/interrupt.h"

namespace karez::solve {
namespace {
constexpr int max_rounds = 100'000;  // far more than any known graph needs

using Lists = std::vector<std::vector<int>>;  // edges per node

CycleRatio measure(std::span<const TimedEdge> edges, std::vector<int> cycle) {
  auto first =
      std::min_element(cycle.begin(), cycle.end(), [&](int a, int b) { return edges[a].from < edges[b].from; });
  std::rotate(cycle.begin(), first, cycle.end());  // makes the rounding of the sum independent of the edge found first
  CycleRatio out;
  for (int e : cycle) {
    out.time += edges[e].time;
    out.tokens += edges[e].tokens;
  }
  out.ratio = out.tokens > 0 ? out.time / static_cast<double>(out.tokens) : std::numeric_limits<double>::infinity();
  out.cycle = std::move(cycle);
  return out;
}

// Finds a cycle of edges without tokens by depth-first search; returns an empty list if there is none.
std::vector<int> tokenless_cycle(std::span<const TimedEdge> edges, const Lists& leaving) {
  std::vector<char> colour(leaving.size(), 0);  // 1: on the path, 2: done
  std::vector<std::size_t> next(leaving.size(), 0);
  std::vector<int> path;  // edges
  for (int start = 0; start < static_cast<int>(leaving.size()); ++start) {
    if (colour[start] != 0) continue;
    colour[start] = 1;
    for (int at = start;;) {
      if (next[at] == leaving[at].size()) {
        colour[at] = 2;
        if (path.empty()) break;
        at = edges[path.back()].from;
        path.pop_back();
        continue;
      }
      int e = leaving[at][next[at]++], to = edges[e].to;
      if (edges[e].tokens > 0 || colour[to] == 2) continue;
      path.push_back(e);
      if (colour[to] == 1) {
        auto begin = std::find_if(path.begin(), path.end(), [&](int p) { return edges[p].from == to; });
        return {begin, path.end()};
      }
      colour[to] = 1;
      at = to;
    }
  }
  return {};
}

// A policy chooses one outgoing edge of each node, so every path ends in a cycle. Improving an edge never lowers the
// ratio of the cycle.
class Policy {
 public:
  Policy(std::span<const TimedEdge> edges, const Lists& leaving)
      : edges_(edges),
        leaving_(leaving),
        chosen_(leaving.size(), -1),
        ratio_(leaving.size(), 0),
        value_(leaving.size(), 0),
        cycle_of_(leaving.size(), -1) {
    for (std::size_t u = 0; u < leaving.size(); ++u)
      for (int e : leaving[u])
        if (chosen_[u] < 0 || edges[e].time > edges[chosen_[u]].time) chosen_[u] = e;
  }

  CycleRatio run() {
    int rounds = 0;
    do {
      require(++rounds < max_rounds, "max_cycle_ratio: ", leaving_.size(), " nodes have not converged after ", rounds,
              " rounds");
      evaluate();
    } while (improve());
    CycleRatio best;
    for (const CycleRatio& c : cycles_)
      if (best.cycle.empty() || c.ratio > best.ratio) best = c;
    return best;
  }

 private:
  // For each node, finds the cycle in which its path ends, and the node's value: the sum of time - ratio * tokens on
  // the path to the first node of the cycle.
  void evaluate() {
    cycles_.clear();
    std::fill(cycle_of_.begin(), cycle_of_.end(), -1);
    std::vector<int> seen(leaving_.size(), -1), path;
    for (int start = 0; start < static_cast<int>(leaving_.size()); ++start) {
      if (chosen_[start] < 0 || cycle_of_[start] >= 0) continue;
      path.clear();
      int u = start;
      for (; cycle_of_[u] < 0 && seen[u] != start; u = edges_[chosen_[u]].to) {
        seen[u] = start;
        path.push_back(u);
      }
      if (cycle_of_[u] < 0) {  // a new cycle, entered at u
        std::vector<int> cycle;
        for (auto at = std::find(path.begin(), path.end(), u); at != path.end(); ++at) cycle.push_back(chosen_[*at]);
        cycles_.push_back(measure(edges_, std::move(cycle)));
        const auto& cycle_found = cycles_.back();
        int root = edges_[cycle_found.cycle[0]].from;
        set_node(root, static_cast<int>(cycles_.size()) - 1, 0);
        for (std::size_t i = cycle_found.cycle.size(); i-- > 1;) set_from_next(edges_[cycle_found.cycle[i]].from);
      }
      for (std::size_t i = path.size(); i-- > 0;)
        if (cycle_of_[path[i]] < 0) set_from_next(path[i]);
    }
  }

  void set_node(int u, int cycle, double value) {
    cycle_of_[u] = cycle;
    ratio_[u] = cycles_[cycle].ratio;
    value_[u] = value;
  }

  void set_from_next(int u) {
    const TimedEdge& e = edges_[chosen_[u]];
    set_node(u, cycle_of_[e.to], gain(e) + value_[e.to]);
  }

  double gain(const TimedEdge& e) const { return e.time - ratio_[e.to] * static_cast<double>(e.tokens); }

  bool improve() {
    bool changed = false;
    for (bool changed_now = true; changed_now;
         changed |=
         changed_now) {  // before the next evaluation, a larger ratio spreads to all nodes that reach its cycle
      base::check_interrupt();
      changed_now = false;
      for (std::size_t u = leaving_.size(); u-- > 0;)
        for (int e : leaving_[u])
          if (ratio_[edges_[e].to] > ratio_[u]) {
            chosen_[u] = e;
            ratio_[u] = ratio_[edges_[e].to];
            changed_now = true;
          }
    }
    if (changed) return true;
    double scale = 0;
    for (std::size_t u = 0; u < leaving_.size(); ++u)
      if (chosen_[u] >= 0) scale = std::max({scale, std::abs(value_[u]), std::abs(edges_[chosen_[u]].time)});
    for (std::size_t u = 0; u < leaving_.size(); ++u) {
      double best = value_[u] + 1e-13 * scale;  // smaller differences are rounding
      for (int e : leaving_[u]) {
        const TimedEdge& edge = edges_[e];
        if (ratio_[edge.to] < ratio_[u] || gain(edge) + value_[edge.to] <= best) continue;
        best = gain(edge) + value_[edge.to];
        chosen_[u] = e;
        changed = true;
      }
    }
    return changed;
  }

  std::span<const TimedEdge> edges_;
  const Lists& leaving_;
  std::vector<int> chosen_;
  std::vector<double> ratio_, value_;
  std::vector<int> cycle_of_;
  std::vector<CycleRatio> cycles_;
};
}  // namespace

CycleRatio max_cycle_ratio(int nodes, std::span<const TimedEdge> edges) {
  Lists leaving(nodes), entering(nodes);
  for (int e = 0; e < static_cast<int>(edges.size()); ++e) {
    const TimedEdge& edge = edges[e];
    require(edge.from >= 0 && edge.from < nodes && edge.to >= 0 && edge.to < nodes, "max_cycle_ratio: edge ", e,
            " from ", edge.from, " to ", edge.to, " in a graph of ", nodes, " nodes");
    require(edge.tokens >= 0, "max_cycle_ratio: edge ", e, " has ", edge.tokens, " tokens");
    require(std::isfinite(edge.time), "max_cycle_ratio: edge ", e, " has time ", edge.time);
    leaving[edge.from].push_back(e);
    entering[edge.to].push_back(e);
  }
  if (std::vector<int> tokenless = tokenless_cycle(edges, leaving); !tokenless.empty())
    return measure(edges, std::move(tokenless));
  // Remove nodes from which no cycle is reachable.
  std::vector<int> dead_ends;
  std::vector<std::size_t> leaving_count(nodes);
  for (int u = 0; u < nodes; ++u)
    if ((leaving_count[u] = leaving[u].size()) == 0) dead_ends.push_back(u);
  for (std::size_t i = 0; i < dead_ends.size(); ++i)
    for (int e : entering[dead_ends[i]])
      if (--leaving_count[edges[e].from] == 0) dead_ends.push_back(edges[e].from);
  for (auto& list : leaving) std::erase_if(list, [&](int e) { return leaving_count[edges[e].to] == 0; });
  return Policy(edges, leaving).run();
}

}  // namespace karez::solve
