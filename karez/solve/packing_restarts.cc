// Restarts of the search for a packing: blocks on which it failed come earlier in the next run.
//
// A search that began badly seldom recovers, so it is restarted repeatedly. Its failures show which blocks are hard to
// place: these move forward in the order ("squeaky wheel": Joslin, Clements, "Squeaky Wheel Optimization", JAIR 10,
// 1999). All computations use integers, since the ranks of a world must decide alike. From time to time, a search in
// the first order gets up to a quarter of the work spent so far: a proof that no packing fits needs one long search.
#include <algorithm>
#include <bit>
#include <utility>

#include "karez/solve/packing_search.h"

namespace karez::solve {
namespace {
constexpr long one = 1024;                // 1 in fixed point
constexpr long min_run_work = 1'000'000;  // least work of a run
constexpr long descents = 3;              // least number of full descents of a run

// log2 of x / one, in fixed point, linear between powers of two.
long log2_of(long x) {
  int power = std::bit_width(static_cast<unsigned long>(x)) - 1;
  return (power - 10) * one + ((x << 10) >> power) - one;
}

// Blame decays, and one run adds `one` per block on average.
void add_blame(std::vector<long>& blame, const std::vector<long>& turn) {
  long total = 0;
  for (long b : turn) total += b;
  for (std::size_t i = 0; i < blame.size(); ++i)
    blame[i] = blame[i] * 7 / 10 + turn[i] * one * static_cast<long>(blame.size()) / std::max(total, 1L);
}

// The rank adjusted by blame: each doubling of a block's blame moves it forward by a fifth of all blocks.
std::vector<int> reranked(const std::vector<int>& rank, const std::vector<long>& blame) {
  std::vector<std::pair<long, int>> key;
  for (std::size_t i = 0; i < rank.size(); ++i)
    key.emplace_back(rank[i] * one / static_cast<long>(rank.size()) - log2_of(one + blame[i]) / 5, static_cast<int>(i));
  std::sort(key.begin(), key.end());
  std::vector<int> out(rank.size());
  for (std::size_t i = 0; i < key.size(); ++i) out[key[i].second] = static_cast<int>(i);
  return out;
}
// Approximate work of placing every block once: each placement visits all open blocks and the block's cliques.
long descent(const PackProblem& p) {
  const long count = static_cast<long>(p.blocks.size());
  long work = 4 * count * count;
  for (const auto& clique : p.cliques) work += 10 * static_cast<long>(clique.size() * clique.size());
  return work;
}
}  // namespace

Feasibility search_with_restarts(const PackProblem& p, const std::vector<std::vector<int>>& ranks, long capacity,
                                 long work, std::vector<long>& offset) {
  const std::vector<long> nobody(p.blocks.size(), 0);
  std::vector<std::vector<long>> blame(ranks.size(), nobody);
  std::vector<std::vector<int>> next = ranks;
  long spent = 0;
  std::vector<long> fresh;
  auto run_once = [&](const std::vector<int>& rank, long turn) {
    fresh = nobody;
    long lent = std::min(turn, work - spent), left = lent;
    Feasibility answer = search_packing(p, capacity, rank, left, offset, fresh);
    spent += lent - std::max(left, 0L);
    return answer;
  };
  long turn = std::max(min_run_work, descents * descent(p)), proof = 2 * turn;
  while (spent < work) {
    for (std::size_t r = 0; r < ranks.size() && spent < work; ++r) {
      Feasibility answer = run_once(next[r], turn);
      if (answer != Feasibility::unknown) return answer;  // any run that is decisive ends the search
      add_blame(blame[r], fresh);
      next[r] = reranked(ranks[r], blame[r]);
    }
    turn += turn / 32;
    if (spent < 4 * proof || spent >= work) continue;
    Feasibility answer = run_once(ranks.front(), proof);
    if (answer != Feasibility::unknown) return answer;
    proof *= 2;
  }
  return Feasibility::unknown;
}

}  // namespace karez::solve
