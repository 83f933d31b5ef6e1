// Reachability with no token and with one, a row of bits a node, consumers first.
#include "solve/token_reach.h"

#include "base/error.h"

namespace karez::solve {

TokenReach::TokenReach(int nodes, std::span<const TokenEdge> edges) : words_((static_cast<std::size_t>(nodes) + 63) / 64) {
  const auto count = static_cast<std::size_t>(nodes);
  std::vector<std::vector<int>> now(count), later(count);  // edges without a token, and with one
  std::vector<int> waiting(count, 0), order;
  for (const TokenEdge& e : edges) {
    require(e.from >= 0 && e.from < nodes && e.to >= 0 && e.to < nodes && e.tokens >= 0, "token reach: an edge ", e.from, " -> ", e.to, " with ",
            e.tokens, " tokens among ", nodes, " nodes");
    if (e.tokens == 0) now[static_cast<std::size_t>(e.from)].push_back(e.to), ++waiting[static_cast<std::size_t>(e.to)];
    if (e.tokens == 1) later[static_cast<std::size_t>(e.from)].push_back(e.to);
  }
  for (int n = 0; n < nodes; ++n)
    if (waiting[static_cast<std::size_t>(n)] == 0) order.push_back(n);
  for (std::size_t i = 0; i < order.size(); ++i)
    for (int to : now[static_cast<std::size_t>(order[i])])
      if (--waiting[static_cast<std::size_t>(to)] == 0) order.push_back(to);
  require(order.size() == count, "token reach: edges without tokens close a circle");

  same_.assign(count * words_, 0);
  auto join = [&](Rows& into, std::size_t row, const Rows& from, int other) {
    for (std::size_t w = 0; w < words_; ++w) into[row * words_ + w] |= from[static_cast<std::size_t>(other) * words_ + w];
  };
  for (std::size_t i = count; i-- > 0;) {
    const auto node = static_cast<std::size_t>(order[i]);
    same_[node * words_ + node / 64] |= std::uint64_t{1} << (node % 64);
    for (int to : now[node]) join(same_, node, same_, to);
  }
  next_ = same_;  // a node's own next act comes behind its last, and all behind that
  for (std::size_t i = count; i-- > 0;) {
    const auto node = static_cast<std::size_t>(order[i]);
    for (int to : later[node]) join(next_, node, same_, to);
    for (int to : now[node]) join(next_, node, next_, to);
  }
}

}  // namespace karez::solve
