// Long chains in an acyclic graph: sequences of nodes, each of which precedes the next.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

struct Chains {
  std::vector<int> length;        // by chain
  std::vector<int> chain, place;  // by node; -1 if on no chain

  int count() const { return static_cast<int>(length.size()); }
};

struct ChainLimits {
  int shortest = 8, most = 48;  // only the first chain may be shorter
};

// Repeatedly takes the path that visits the most nodes that are on no chain yet. `order` lists every node after all its
// successors, which `each_next` visits; places on a chain are numbered from predecessors to successors.
//
//   a -> b -> c, a -> d: one chain a b c of places 0 1 2
template <class EachNext>
Chains long_chains(std::span<const int> order, EachNext each_next, const ChainLimits& limits = {}) {
  Chains made;
  made.chain.assign(order.size(), -1), made.place.assign(order.size(), -1);
  std::vector<int> ahead(order.size()), next(order.size());
  while (made.count() < limits.most && !order.empty()) {
    int first = order.front();
    for (const int at : order) {
      const auto n = static_cast<std::size_t>(at);
      ahead[n] = 0, next[n] = -1;
      each_next(at, [&](int to) {
        if (const int there = ahead[static_cast<std::size_t>(to)]; there > ahead[n]) ahead[n] = there, next[n] = to;
      });
      ahead[n] += made.chain[n] < 0;
      if (ahead[n] > ahead[static_cast<std::size_t>(first)]) first = at;
    }
    const int most = ahead[static_cast<std::size_t>(first)];
    if (most == 0 || (most < limits.shortest && made.count() > 0)) break;
    int place = 0;
    for (int n = first; n >= 0; n = next[static_cast<std::size_t>(n)])
      if (made.chain[static_cast<std::size_t>(n)] < 0)
        made.chain[static_cast<std::size_t>(n)] = made.count(), made.place[static_cast<std::size_t>(n)] = place++;
    made.length.push_back(place);
  }
  return made;
}

}  // namespace karez::solve
