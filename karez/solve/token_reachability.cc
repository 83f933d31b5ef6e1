// Computes token reachability: stores the nearest places of each node on long chains without tokens, and traverses the
// nodes on no chain.
#include "karez/solve/token_reachability.h"

#include <algorithm>

#include "karez/base/error.h"

namespace karez::solve {

TokenReachability::TokenReachability(int nodes, std::span<const TokenEdge> edges)
    : out_(static_cast<std::size_t>(nodes)),
      in_(out_.size()) {
  for (const TokenEdge& e : edges) {
    require(e.from >= 0 && e.from < nodes && e.to >= 0 && e.to < nodes && e.tokens >= 0, "token reachability: edge ",
            e.from, " -> ", e.to, " with ", e.tokens, " tokens is invalid in a graph of ", nodes, " nodes");
    if (e.tokens > 1) continue;
    out_[static_cast<std::size_t>(e.from)].push_back({e.to, e.tokens});
    in_[static_cast<std::size_t>(e.to)].push_back({e.from, e.tokens});
  }
  sort(nodes);
  chains_ = long_chains(std::vector<int>(order_.rbegin(), order_.rend()), [&](int n, auto visit) {
    for (const Step& s : out_[static_cast<std::size_t>(n)])
      if (s.tokens == 0) visit(s.node);
  });
  fill();
}

void TokenReachability::sort(int nodes) {
  std::vector<int> inputs_left(out_.size(), 0);
  for (const auto& steps : out_)
    for (const Step& s : steps) inputs_left[static_cast<std::size_t>(s.node)] += s.tokens == 0;
  for (int n = 0; n < nodes; ++n)
    if (inputs_left[static_cast<std::size_t>(n)] == 0) order_.push_back(n);
  for (std::size_t i = 0; i < order_.size(); ++i)
    for (const Step& s : out_[static_cast<std::size_t>(order_[i])])
      if (s.tokens == 0 && --inputs_left[static_cast<std::size_t>(s.node)] == 0) order_.push_back(s.node);
  require(order_.size() == out_.size(), "token reachability: edges without tokens form a cycle");
  rank_.resize(order_.size());
  for (std::size_t i = 0; i < order_.size(); ++i) rank_[static_cast<std::size_t>(order_[i])] = static_cast<int>(i);
}

void TokenReachability::fill() {
  const auto width = static_cast<std::size_t>(chains());
  before_.assign(out_.size() * width, -1);
  for (std::size_t n = 0; n < out_.size(); ++n)
    after_.insert(after_.end(), chains_.length.begin(), chains_.length.end());
  auto combine = [&](int to, int from, std::vector<int>& places, const std::vector<int>& other_places, auto better) {
    for (int c = 0; c < chains(); ++c) places[at(to, c)] = better(places[at(to, c)], other_places[at(from, c)]);
  };
  auto later = [](int a, int b) { return std::max(a, b); };
  auto earlier = [](int a, int b) { return std::min(a, b); };
  for (int n : order_) {
    const auto node = static_cast<std::size_t>(n);
    if (const int chain = chains_.chain[node]; chain >= 0)
      before_[at(n, chain)] = after_[at(n, chain)] = chains_.place[node];
  }
  for (int n : order_)
    for (const Step& s : in_[static_cast<std::size_t>(n)])
      if (s.tokens == 0) combine(n, s.node, before_, before_, later);
  for (auto n = order_.rbegin(); n != order_.rend(); ++n)
    for (const Step& s : out_[static_cast<std::size_t>(*n)])
      if (s.tokens == 0) combine(*n, s.node, after_, after_, earlier);
  next_before_ = before_, next_after_ = after_;
  for (int n : order_)
    for (const Step& s : in_[static_cast<std::size_t>(n)])
      combine(n, s.node, next_before_, s.tokens == 0 ? next_before_ : before_, later);
  for (auto n = order_.rbegin(); n != order_.rend(); ++n)
    for (const Step& s : out_[static_cast<std::size_t>(*n)])
      combine(*n, s.node, next_after_, s.tokens == 0 ? next_after_ : after_, earlier);
}

// From a node on no chain, traverses forward until the paths reach chains.
bool TokenReachability::reaches(int from, int to, int tokens) const {
  auto is_on_path = [&](int node, int left) {
    return (left == 0 ? before_ : next_before_)[at(to, chain_of(node))] >= place_of(node);
  };
  if (chain_of(from) >= 0) return is_on_path(from, tokens);
  std::vector<std::pair<int, int>> visited = {{from, tokens}};
  for (std::size_t i = 0; i < visited.size(); ++i)
    for (const Step& s : out_[static_cast<std::size_t>(visited[i].first)]) {
      const std::pair state(s.node, visited[i].second - s.tokens);
      if (state.second < 0) continue;
      if (s.node == to) return true;
      if (chain_of(s.node) >= 0) {
        if (is_on_path(s.node, state.second)) return true;
      } else if (std::find(visited.begin(), visited.end(), state) == visited.end()) {
        visited.push_back(state);
      }
    }
  return false;
}

}  // namespace karez::solve
