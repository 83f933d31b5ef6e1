// Greedy packings, lower bounds, and a sequence of searches for peaks between them.
#include "karez/solve/packing.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>

#include "karez/base/error.h"
#include "karez/solve/packing_search.h"

namespace karez::solve {
namespace {
constexpr long max_greedy_work =
    250'000'000;  // blocks visited, which takes one to two seconds; the first order is always completed
constexpr std::size_t max_searched = 4000;  // blocks; the memory of a search grows with the square of this number
constexpr std::size_t max_seeds = 2000;     // blocks from which cliques of a general conflict graph are grown
constexpr long min_share = 100;             // the tolerance is at most the lower bound divided by this
constexpr std::size_t max_in_bit_matrix = 20'000;  // maximum number of blocks for growing cliques; 50 MB

// The properties by which blocks are sorted: the length of the lifetime (or the number of conflicts), the total bytes
// of the largest clique that contains the block, and the begin of the lifetime.
struct BlockTraits {
  long lifetime = 0, pressure = 0, begin = 0;
};

long total(const PackProblem& p, const std::vector<int>& blocks) {
  long sum = 0;
  for (int b : blocks) sum = checked_add(sum, p.blocks[b].size);
  return sum;
}

// Returns the orders to try; each lists the blocks from first to last.
std::vector<std::vector<int>> orders(const PackProblem& p, const std::vector<BlockTraits>& traits) {
  using Key = std::tuple<double, double, double>;  // sorted in descending order
  auto sorted_by = [&](auto key) {
    std::vector<int> order(p.blocks.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) > key(b); });
    return order;
  };
  auto size = [&](int b) { return static_cast<double>(p.blocks[b].size); };
  auto lifetime = [&](int b) { return static_cast<double>(traits[b].lifetime); };
  auto pressure = [&](int b) { return static_cast<double>(traits[b].pressure); };
  auto area = [&](int b) { return size(b) * lifetime(b); };
  return {sorted_by([&](int b) { return Key(pressure(b), area(b), size(b)); }),
          sorted_by([&](int b) { return Key(pressure(b), size(b), area(b)); }),
          sorted_by([&](int b) { return Key(area(b), size(b), 0); }),
          sorted_by([&](int b) { return Key(size(b), lifetime(b), 0); }),
          sorted_by([&](int b) { return Key(lifetime(b), size(b), 0); }),
          sorted_by([&](int b) { return Key(pressure(b), lifetime(b), size(b)); }),
          sorted_by([&](int b) { return Key(-static_cast<double>(traits[b].begin), size(b), lifetime(b)); })};
}

// The blocks placed so far, in ascending order of offset.
class PlacedBlocks {
 public:
  explicit PlacedBlocks(const PackProblem& p) : p_(p), offset_(p.blocks.size(), -1), is_conflict_(p.blocks.size(), 0) {}
  const std::vector<long>& offset() const { return offset_; }

  // Finds the ranges of the placed blocks that conflict with b, in ascending order. Sorts them or filters all placed
  // blocks, whichever is cheaper.
  void find(int b, std::vector<std::pair<long, long>>& occupied, long& work) {
    occupied.clear();
    const auto& conflicts = p_.conflicts[b];
    const bool filter_all = all_.size() < conflicts.size() * sort_cost_factor;
    work -= static_cast<long>(filter_all ? conflicts.size() + all_.size() : conflicts.size() * sort_cost_factor);
    if (filter_all) {
      for (int w : conflicts) is_conflict_[w] = 1;
      for (const auto& [begin, end, w] : all_)
        if (is_conflict_[w]) occupied.emplace_back(begin, end);
      for (int w : conflicts) is_conflict_[w] = 0;
    } else {
      for (int w : conflicts)
        if (offset_[w] >= 0) occupied.emplace_back(offset_[w], offset_[w] + p_.blocks[w].size);
      std::sort(occupied.begin(), occupied.end());
    }
  }

  void place_block(int b, long offset) {
    offset_[b] = offset;
    const std::tuple<long, long, int> item(offset, offset + p_.blocks[b].size, b);
    all_.insert(std::upper_bound(all_.begin(), all_.end(), item), item);
  }

 private:
  static constexpr std::size_t sort_cost_factor = 8;
  const PackProblem& p_;
  std::vector<long> offset_;  // -1 if not placed
  std::vector<char> is_conflict_;
  std::vector<std::tuple<long, long, int>> all_;  // offset, end, block
};

// Places blocks in order, each into the lowest or the tightest gap between the placed blocks that conflict with it.
// Returns an empty list if the peak would not be below `limit`. Every block visited costs one unit of `work`.
std::vector<long> greedy(const PackProblem& p, const std::vector<int>& order, bool tightest, long limit, long& work) {
  PlacedBlocks placed(p);
  std::vector<std::pair<long, long>> occupied;
  for (int b : order) {
    placed.find(b, occupied, work);
    const Block& block = p.blocks[b];
    long gap_begin = 0, best = -1, min_gap = std::numeric_limits<long>::max();
    for (auto [begin, end] : occupied) {
      long start = round_up(gap_begin, block.align), gap = begin - gap_begin;
      if (start + block.size <= begin && (best < 0 || (tightest && gap < min_gap))) {
        best = start;
        min_gap = gap;
        if (!tightest) break;
      }
      gap_begin = std::max(gap_begin, end);
    }
    if (best < 0) best = round_up(gap_begin, block.align);
    if (best + block.size >= limit) return {};
    placed.place_block(b, best);
  }
  return placed.offset();
}

long peak_of(const PackProblem& p, const std::vector<long>& offset) {
  long peak = 0;
  for (std::size_t b = 0; b < offset.size(); ++b) peak = std::max(peak, offset[b] + p.blocks[b].size);
  return peak;
}

// Computes in units of the greatest common divisor of all sizes and alignments, so that every peak is a whole number of
// units.
Packing solve(PackProblem p, const std::vector<BlockTraits>& traits, const PackLimits& limits) {
  if (p.blocks.empty()) return {.optimal = true};
  long unit = 0;
  for (const Block& b : p.blocks) unit = std::gcd(std::gcd(unit, b.size), b.align);
  for (Block& b : p.blocks) b = {b.size / unit, b.align / unit};
  Packing best;
  for (const auto& clique : p.cliques) best.lower_bound = std::max(best.lower_bound, total(p, clique));
  for (const Block& b : p.blocks) best.lower_bound = std::max(best.lower_bound, b.size);
  best.offset.assign(p.blocks.size(), 0);
  best.peak = std::numeric_limits<long>::max();
  const long tolerance = std::min(limits.tolerance / unit, best.lower_bound / min_share);
  auto accept = [&](std::vector<long> offset) {  // stores a better packing
    best.peak = peak_of(p, offset);
    best.offset = std::move(offset);
  };
  const auto tried_orders = orders(p, traits);
  long greedy_work = max_greedy_work;
  for (const auto& order : tried_orders)
    for (bool tightest : {false, true}) {
      if (best.peak <= best.lower_bound + tolerance || greedy_work <= 0) continue;
      std::vector<long> offset = greedy(p, order, tightest, best.peak, greedy_work);
      if (!offset.empty()) accept(std::move(offset));
    }
  std::vector<std::vector<int>> ranks;
  for (const auto& order : tried_orders) {
    ranks.emplace_back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) ranks.back()[order[i]] = static_cast<int>(i);
  }
  // First searches for a sufficient peak, with half of the work, or with seven eighths if the caller gave a capacity.
  // Then repeatedly halves the gap between infeasible and reached peaks, each time with half of the remaining work.
  long sufficient_peak = std::max(best.lower_bound, limits.capacity / unit), infeasible_peak = sufficient_peak - 1,
       target_peak = sufficient_peak;
  std::vector<long> offset;
  for (long work = p.blocks.size() <= max_searched ? limits.search_work : 0;
       work > 1 && best.peak > sufficient_peak + tolerance && target_peak < best.peak;) {
    long budget = target_peak == sufficient_peak && limits.capacity > 0 ? work - work / 8 : work - work / 2;
    work -= budget;
    Feasibility feasibility = search_with_restarts(p, ranks, target_peak, budget, offset);
    if (feasibility == Feasibility::yes) accept(offset);
    if (feasibility != Feasibility::yes) infeasible_peak = target_peak;
    if (feasibility == Feasibility::no)
      best.lower_bound = std::max(best.lower_bound, target_peak + 1),
      sufficient_peak = std::max(sufficient_peak, target_peak + 1);
    target_peak = infeasible_peak + std::max((best.peak - infeasible_peak) / 2, 1L);
  }
  best.optimal = best.peak == best.lower_bound;
  best.peak *= unit;
  best.lower_bound *= unit;
  for (long& o : best.offset) o *= unit;
  return best;
}

void check(std::size_t original_number, long size, long align) {
  require(size >= 0, "pack: block ", original_number, " has size ", size, "; it must be at least 0");
  require(align > 0, "pack: block ", original_number, " has align ", align, "; it must be at least 1");
}

void sort_unique(std::vector<int>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// Adds the blocks of zero bytes at offset 0.
Packing with_empty_blocks(const Packing& packed, const std::vector<int>& original_number, std::size_t count) {
  Packing out = packed;
  out.offset.assign(count, 0);
  for (std::size_t i = 0; i < original_number.size(); ++i) out.offset[original_number[i]] = packed.offset[i];
  return out;
}

// Grows a clique from each block by adding its largest neighbours first. Blocks are ranked by descending size; `common`
// has a bit for each block that conflicts with all members added so far.
std::vector<std::vector<int>> grown_cliques(const PackProblem& p) {
  constexpr std::size_t bits = 64;
  const std::size_t blocks = p.blocks.size(), words = (blocks + bits - 1) / bits;
  std::vector<std::vector<int>> out;
  if (blocks > max_in_bit_matrix) return out;
  std::vector<int> by_size(blocks), rank(blocks);
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(), [&](int a, int b) { return p.blocks[a].size > p.blocks[b].size; });
  for (std::size_t i = 0; i < blocks; ++i) rank[by_size[i]] = static_cast<int>(i);
  std::vector<std::uint64_t> rows(blocks * words, 0), common(words);
  for (std::size_t b = 0; b < blocks; ++b)
    for (int c : p.conflicts[b]) rows[rank[b] * words + rank[c] / bits] |= std::uint64_t{1} << rank[c] % bits;
  for (std::size_t seed = 0; seed < std::min(blocks, max_seeds); ++seed) {
    std::vector<int> clique{by_size[seed]};
    std::copy_n(&rows[seed * words], words, common.begin());
    for (std::size_t word = 0; word < words; ++word)
      while (common[word] != 0) {
        const std::size_t next = word * bits + static_cast<std::size_t>(std::countr_zero(common[word]));
        clique.push_back(by_size[next]);
        for (std::size_t w = word; w < words; ++w) common[w] &= rows[next * words + w];
      }
    std::sort(clique.begin(), clique.end());
    out.push_back(std::move(clique));
  }
  return out;
}

void set_pressure(const PackProblem& p, std::vector<BlockTraits>& traits) {
  for (const auto& clique : p.cliques) {
    long weight = total(p, clique);
    for (int b : clique) traits[b].pressure = std::max(traits[b].pressure, weight);
  }
}
}  // namespace

Packing pack(std::span<const Interval> intervals, const PackLimits& limits) {
  PackProblem p;
  std::vector<BlockTraits> traits;
  std::vector<int> original_number;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    const Interval& v = intervals[i];
    check(i, v.size, v.align);
    if (v.size == 0 || v.end <= v.begin) continue;
    p.blocks.push_back({v.size, v.align});
    traits.push_back({.lifetime = v.end - v.begin, .begin = v.begin});
    original_number.push_back(static_cast<int>(i));
  }
  // Sweeps over the begins of lifetimes. A set of live blocks is maximal if one of its blocks ends before the next
  // block begins.
  std::vector<int> by_begin(original_number.size()), live;
  std::iota(by_begin.begin(), by_begin.end(), 0);
  std::stable_sort(by_begin.begin(), by_begin.end(), [&](int a, int b) { return traits[a].begin < traits[b].begin; });
  auto end = [&](int b) { return intervals[original_number[b]].end; };
  p.conflicts.resize(original_number.size());
  for (std::size_t i = 0; i < by_begin.size(); ++i) {
    int b = by_begin[i];
    std::size_t before = live.size();
    std::vector<int> previously_live = live;
    std::erase_if(live, [&](int w) { return end(w) <= traits[b].begin; });
    if (live.size() < before) p.cliques.push_back(std::move(previously_live));
    for (int w : live) {
      p.conflicts[b].push_back(w);
      p.conflicts[w].push_back(b);
    }
    live.push_back(b);
  }
  if (!live.empty()) p.cliques.push_back(live);
  for (auto& list : p.conflicts) std::sort(list.begin(), list.end());
  set_pressure(p, traits);
  return with_empty_blocks(solve(std::move(p), traits, limits), original_number, intervals.size());
}

Packing pack(std::span<const Block> blocks, std::span<const std::pair<int, int>> conflicts, const PackLimits& limits) {
  PackProblem p;
  std::vector<int> original_number, packed_number(blocks.size(), -1);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    check(i, blocks[i].size, blocks[i].align);
    if (blocks[i].size == 0) continue;
    packed_number[i] = static_cast<int>(original_number.size());
    original_number.push_back(static_cast<int>(i));
    p.blocks.push_back(blocks[i]);
  }
  p.conflicts.resize(original_number.size());
  for (auto [a, b] : conflicts) {
    int count = static_cast<int>(blocks.size());
    require(a >= 0 && a < count && b >= 0 && b < count && a != b, "pack: a conflict must name two of ", count,
            " blocks, got (", a, ", ", b, ")");
    if (packed_number[a] < 0 || packed_number[b] < 0) continue;
    p.conflicts[packed_number[a]].push_back(packed_number[b]);
    p.conflicts[packed_number[b]].push_back(packed_number[a]);
  }
  for (auto& list : p.conflicts) sort_unique(list);
  p.cliques = grown_cliques(p);
  std::sort(p.cliques.begin(), p.cliques.end());
  p.cliques.erase(std::unique(p.cliques.begin(), p.cliques.end()), p.cliques.end());
  std::vector<BlockTraits> traits;
  for (const auto& list : p.conflicts) traits.push_back({.lifetime = static_cast<long>(list.size())});
  set_pressure(p, traits);
  return with_empty_blocks(solve(std::move(p), traits, limits), original_number, blocks.size());
}

}  // namespace karez::solve
