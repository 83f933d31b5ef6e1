// Which act always comes before which other, in a graph of actors whose edges hold tokens.
#pragma once

#include <span>
#include <vector>

#include "karez/solve/chains.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// `to` begins its act k + tokens when act k of `from` is over, and not before.
struct TokenEdge {
  int from = 0, to = 0;
  int tokens =
      0;  // 0: what `from` makes, `to` takes; else slots that were free at the beginning, or the turns of a circle
};

// What follows from the edges: act k of one node is over before act k (or k + 1) of another begins, for every k. Nodes
// are numbered from 0; no node begins an act before its last one is over. Throws if edges without tokens close a
// circle.
//
// Nodes that come one after the other are a chain; long ones are found, and for each node who is last before it and
// first behind it there. What lies on none is walked over, of which little is left. Time and memory grow with nodes and
// edges times chains.
//
//   a -> b -> c, a -> d: one chain a b c of places 0 1 2; first_after(a, 0) = 0, first_after(d, 0) = 3: none;
//   last_before(d, 0) = 0
class TokenReachability {
 public:
  TokenReachability(int nodes, std::span<const TokenEdge> edges);

  // The same act: along edges without tokens. A node does not come before itself.
  bool before_same_act(int from, int to) const { return from != to && reaches(from, to, 0); }
  // The next act at the latest: with at most one token on the way.
  bool before_next_act(int from, int to) const { return from == to || reaches(from, to, 1); }

  int rank(int node) const { return rank_[static_cast<std::size_t>(node)]; }  // larger than of all that come before it
  int chains() const { return chains_.count(); }
  int length(int chain) const { return chains_.length[static_cast<std::size_t>(chain)]; }
  int chain_of(int node) const { return chains_.chain[static_cast<std::size_t>(node)]; }  // -1: on none
  int place_of(int node) const { return chains_.place[static_cast<std::size_t>(node)]; }
  // The last place of the chain that comes before the node, or is it; -1: none.
  int last_before(int node, int chain) const { return before_[at(node, chain)]; }
  // The first place of the chain that comes behind the node, or is it; the chain's length: none. In the next act at the
  // latest: `next_after`.
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
  std::vector<int> order_, rank_;  // producers first
  Chains chains_;
  std::vector<int> before_, next_before_, after_, next_after_;  // by node and chain
};

}  // namespace karez::solve
