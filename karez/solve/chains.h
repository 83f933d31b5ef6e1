// Long chains in an acyclic graph: sequences of nodes, each of which precedes the next.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

struct Chains {
  std::vector<int> length;        // by chain
  std::vector<int> chain, place;  // by node; -1 if the node is on no chain

  int count() const { return static_cast<int>(length.size()); }
};

struct ChainLimits {
  int min_length = 8, max_chains = 48;  // only the first chain may be shorter than min_length
};

// Finds long chains: as long as limits permit, takes the path that visits the most nodes without a chain, and makes
// these nodes a chain. `order` must list every node after all its successors, which `each_next` visits. Places on a
// chain are numbered from predecessors to successors.
//
//   a -> b -> c, a -> d: one chain a b c with places 0 1 2
template <class EachNext>
Chains long_chains(std::span<const int> order, EachNext each_next, const ChainLimits& limits = {}) {
  Chains chains;
  chains.chain.assign(order.size(), -1), chains.place.assign(order.size(), -1);
  std::vector<int> new_nodes(order.size()), next(order.size());
  while (chains.count() < limits.max_chains && !order.empty()) {
    int first = order.front();
    for (const int node : order) {
      const auto n = static_cast<std::size_t>(node);
      new_nodes[n] = 0, next[n] = -1;
      each_next(node, [&](int to) {
        if (const int nodes_after = new_nodes[static_cast<std::size_t>(to)]; nodes_after > new_nodes[n])
          new_nodes[n] = nodes_after, next[n] = to;
      });
      new_nodes[n] += chains.chain[n] < 0;
      if (new_nodes[n] > new_nodes[static_cast<std::size_t>(first)]) first = node;
    }
    const int max_new = new_nodes[static_cast<std::size_t>(first)];
    if (max_new == 0 || (max_new < limits.min_length && chains.count() > 0)) break;
    int place = 0;
    for (int n = first; n >= 0; n = next[static_cast<std::size_t>(n)])
      if (chains.chain[static_cast<std::size_t>(n)] < 0)
        chains.chain[static_cast<std::size_t>(n)] = chains.count(), chains.place[static_cast<std::size_t>(n)] = place++;
    chains.length.push_back(place);
  }
  return chains;
}

}  // namespace karez::solve
