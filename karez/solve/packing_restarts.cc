// Restarts of the search for a packing: blocks on which a run failed come earlier in the next run.
//
// A search that places its first blocks badly seldom recovers, so it is restarted repeatedly. Its failures show which
// blocks are hard to place; these blocks move forward in the order ("squeaky wheel": Joslin, Clements, "Squeaky Wheel
// Optimization", JAIR 10, 1999). All computations use integers, since all ranks of a world must make the same
// decisions. From time to time, a search in the first order gets up to a quarter of the work spent so far, because a
// proof that no packing fits needs one long search.
#include <algorithm>
#include <bit>
#include <utility>

#include "karez/solve/packing_search.h"

namespace karez::solve {
namespace {
constexpr long unit = 1024;               // 1 in fixed point
constexpr long min_run_work = 1'000'000;  // minimum work of a run
constexpr long min_descents = 3;          // the work of a run is enough for at least this number of full descents

// Returns log2(x / unit) in fixed point, interpolated linearly between powers of two.
long log2_of(long x) {
  int power = std::bit_width(static_cast<unsigned long>(x)) - 1;
  return (power - 10) * unit + ((x << 10) >> power) - unit;
}

// Adds the failures of a run. Old counts decay, and a run adds `unit` per block on average.
void add_failures(std::vector<long>& failures, const std::vector<long>& run_failures) {
  long total = 0;
  for (long b : run_failures) total += b;
  for (std::size_t i = 0; i < failures.size(); ++i)
    failures[i] =
        failures[i] * 7 / 10 + run_failures[i] * unit * static_cast<long>(failures.size()) / std::max(total, 1L);
}

// Returns the ranks adjusted by failures: each doubling of a block's count moves the block forward by a fifth of all
// blocks.
std::vector<int> reranked(const std::vector<int>& rank, const std::vector<long>& failures) {
  std::vector<std::pair<long, int>> key;
  for (std::size_t i = 0; i < rank.size(); ++i)
    key.emplace_back(rank[i] * unit / static_cast<long>(rank.size()) - log2_of(unit + failures[i]) / 5,
                     static_cast<int>(i));
  std::sort(key.begin(), key.end());
  std::vector<int> out(rank.size());
  for (std::size_t i = 0; i < key.size(); ++i) out[key[i].second] = static_cast<int>(i);
  return out;
}

// Returns the approximate work of placing every block once: each placement visits all blocks that are not placed yet
// and the cliques of the block.
long descent_work(const PackProblem& p) {
  const long count = static_cast<long>(p.blocks.size());
  long work = 4 * count * count;
  for (const auto& clique : p.cliques) work += 10 * static_cast<long>(clique.size() * clique.size());
  return work;
}
}  // namespace

Feasibility search_with_restarts(const PackProblem& p, const std::vector<std::vector<int>>& ranks, long capacity,
                                 long work, std::vector<long>& offset) {
  const std::vector<long> no_failures(p.blocks.size(), 0);
  std::vector<std::vector<long>> failures(ranks.size(), no_failures);
  std::vector<std::vector<int>> next_ranks = ranks;
  long spent = 0;
  std::vector<long> run_failures;
  auto run_once = [&](const std::vector<int>& rank, long run_budget) {
    run_failures = no_failures;
    long budget = std::min(run_budget, work - spent), remaining = budget;
    Feasibility result = search_packing(p, capacity, rank, remaining, offset, run_failures);
    spent += budget - std::max(remaining, 0L);
    return result;
  };
  long run_budget = std::max(min_run_work, min_descents * descent_work(p)), proof_work = 2 * run_budget;
  while (spent < work) {
    for (std::size_t r = 0; r < ranks.size() && spent < work; ++r) {
      Feasibility result = run_once(next_ranks[r], run_budget);
      if (result != Feasibility::unknown) return result;  // the run has found the answer
      add_failures(failures[r], run_failures);
      next_ranks[r] = reranked(ranks[r], failures[r]);
    }
    run_budget += run_budget / 32;
    if (spent < 4 * proof_work || spent >= work) continue;
    Feasibility result = run_once(ranks.front(), proof_work);
    if (result != Feasibility::unknown) return result;
    proof_work *= 2;
  }
  return Feasibility::unknown;
}

}  // namespace karez::solve
