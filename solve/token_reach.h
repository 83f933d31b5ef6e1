// Which act always comes before which other, in a graph of actors whose edges hold tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace karez::solve {

// `to` begins its act k + tokens when act k of `from` is over, and not before.
struct TokenEdge {
  int from = 0, to = 0;
  int tokens = 0;  // 0: what `from` makes, `to` takes; else slots that were free at the beginning, or the turns of a circle
};

// What follows from the edges: act k of one node is over before act k (or k + 1) of another begins, for every k. Nodes are numbered from 0;
// no node begins an act before its last one is over. Time and memory grow with nodes times edges / 64. Throws if edges without tokens close
// a circle.
class TokenReach {
 public:
  TokenReach(int nodes, std::span<const TokenEdge> edges);

  // The same act: along edges without tokens. A node does not come before itself.
  bool same(int from, int to) const { return from != to && has(same_, from, to); }
  // The next act at the latest: with at most one token on the way.
  bool next(int from, int to) const { return has(next_, from, to); }

 private:
  using Rows = std::vector<std::uint64_t>;
  bool has(const Rows& rows, int from, int to) const {
    const auto at = static_cast<std::size_t>(to);
    return (rows[static_cast<std::size_t>(from) * words_ + at / 64] >> (at % 64) & 1) != 0;
  }
  std::size_t words_;
  Rows same_, next_;  // by node: those it reaches, itself among them
};

}  // namespace karez::solve
