// Reachability between acts of actors in a graph whose edges have tokens.
#pragma once

#include <span>
#include <vector>

#include "karez/solve/chains.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// An edge: act k + tokens of `to` begins after act k of `from` has ended, for every k.
struct TokenEdge {
  int from = 0, to = 0;
  int tokens =
      0;  // 0 if `to` reads the piece that `from` fills; otherwise the number of slots that are free at the start
};

// Finds orders that the edges imply: act k of one node ends before act k (or k + 1) of another node begins, for every
// k. Nodes are numbered from 0; no node begins an act before its previous act has ended. Throws an error if edges
// without tokens form a cycle.
//
// A chain is a sequence of nodes, each of which precedes the next. For every node and each long chain, the object
// stores the last node of the chain before the node and the first one after it. The few nodes on no chain are
// traversed. Time and memory grow as (nodes + edges) times chains.
//
//   a -> b -> c, a -> d: one chain a b c with places 0 1 2; first_after(a, 0) = 0, first_after(d, 0) = 3 (none),
//   last_before(d, 0) = 0
class TokenReachability {
 public:
  TokenReachability(int nodes, std::span<const TokenEdge> edges);

  // Returns whether `from` comes before `to` in the same act, that is, along edges without tokens. No node comes before
  // itself.
  bool before_same_act(int from, int to) const { return from != to && reaches(from, to, 0); }
  // Returns whether `from` comes before the next act of `to`, that is, along a path with at most one token.
  bool before_next_act(int from, int to) const { return from == to || reaches(from, to, 1); }

  int rank(int node) const {
    return rank_[static_cast<std::size_t>(node)];
  }  // larger than the ranks of all nodes before it
  int chains() const { return chains_.count(); }
  int length(int chain) const { return chains_.length[static_cast<std::size_t>(chain)]; }
  int chain_of(int node) const {
    return chains_.chain[static_cast<std::size_t>(node)];
  }  // -1 if the node is on no chain
  int place_of(int node) const { return chains_.place[static_cast<std::size_t>(node)]; }
  // Returns the last place of the chain that comes before the node, or the place of the node if it is on this chain; -1
  // if there is none.
  int last_before(int node, int chain) const { return before_[at(node, chain)]; }
  // Returns the first place of the chain that comes after the node, or the place of the node if it is on this chain;
  // the chain's length if there is none. `next_after` is the same for the next acts of the chain's nodes.
  int first_after(int node, int chain) const { return after_[at(node, chain)]; }
  int next_after(int node, int chain) const { return next_after_[at(node, chain)]; }

 private:
  struct Step {
    int node, tokens;
  };
  std::size_t at(int node, int chain) const {
    return static_cast<std::size_t>(node) * static_cast<std::size_t>(chains()) + static_cast<std::size_t>(chain);
  }
  void sort(int nodes);
  void fill();
  bool reaches(int from, int to, int tokens) const;

  std::vector<std::vector<Step>> out_, in_;
  std::vector<int> order_, rank_;  // the nodes with producers first, and the place of each node in this order
  Chains chains_;
  std::vector<int> before_, next_before_, after_, next_after_;  // by node and chain
};

}  // namespace karez::solve
