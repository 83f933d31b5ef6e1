// Any packing can be pushed down until every block stands on the floor or on a block it conflicts with. Such packings are built in order
// of (offset, rank): the lowest block that can be placed either is placed where it is, or never stands at that height ("waits").
// The order of heights, the pruning of blocks that could have been lower and the split into independent parts follow Moffitt,
// "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023).
#include "solve/packing_search.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/error.h"

namespace karez::solve {
namespace {
constexpr std::size_t remembered = 1 << 16;
constexpr long never = std::numeric_limits<long>::max() / 4;

std::uint64_t mix(std::uint64_t x) {  // the finaliser of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

class Search {
 public:
  Search(const PackProblem& problem, long capacity, const std::vector<int>& rank, long& work)
      : p_(problem),
        capacity_(capacity),
        rank_(rank),
        work_(work),
        count_(problem.blocks.size()),
        floor_(count_, 0),
        earliest_(count_, 0),
        offset_(count_, 0),
        waits_(count_, 0),
        placed_(count_, 0),
        mark_(count_, 0),
        of_(count_) {
    for (int k = 0; k < static_cast<int>(p_.cliques.size()); ++k)
      for (int b : p_.cliques[k]) of_[b].push_back(k);
    clique_mark_.assign(p_.cliques.size(), 0);
    failed_.resize(remembered);
  }

  Fit run(std::vector<long>& offset) {
    std::vector<int> all(count_);
    for (std::size_t i = 0; i < count_; ++i) all[i] = static_cast<int>(i);
    std::sort(all.begin(), all.end(), [&](int a, int b) { return rank_[a] < rank_[b]; });
    if (place_parts(all)) {
      offset = offset_;
      return Fit::yes;
    }
    return work_ <= 0 ? Fit::unknown : Fit::no;
  }

 private:
  struct Change {
    int block;
    long floor, earliest;
    char waits;
  };

  // Are the open neighbours of a block just placed still linked with each other? Mostly they conflict, and the walk is short.
  bool still_linked(int placed) {
    int missing = 0, start = -1;
    for (int w : p_.conflicts[placed])
      if (!placed_[w]) mark_[w] = 2, ++missing, start = w;
    if (missing == 0) return false;
    reached_.assign(1, start);
    mark_[start] = 1;
    --missing;
    for (std::size_t i = 0; i < reached_.size() && missing > 0; ++i)
      for (int w : p_.conflicts[reached_[i]]) {
        --work_;
        if (placed_[w] || mark_[w] == 1) continue;
        missing -= mark_[w] == 2;
        mark_[w] = 1;
        reached_.push_back(w);
      }
    for (int b : reached_) mark_[b] = 0;
    for (int w : p_.conflicts[placed]) mark_[w] = 0;
    return missing == 0;
  }

  // Splits blocks (by rank) into parts without conflicts between them and places each. Small parts first: they fail sooner.
  bool place_parts(const std::vector<int>& blocks) {
    std::vector<std::vector<int>> parts = parts_of(blocks);
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    for (const auto& part : parts) {
      if (place(part)) continue;
      for (int b : blocks) placed_[b] = 0;  // parts before this one are placed; the caller undoes their floors
      return false;
    }
    return true;
  }

  std::vector<std::vector<int>> parts_of(const std::vector<int>& blocks) {
    std::vector<std::vector<int>> parts;
    for (int b : blocks) mark_[b] = 1;
    for (int start : blocks) {
      if (!mark_[start]) continue;
      std::vector<int> part{start};
      mark_[start] = 0;
      for (std::size_t i = 0; i < part.size(); ++i) {
        work_ -= static_cast<long>(p_.conflicts[part[i]].size());
        for (int w : p_.conflicts[part[i]])
          if (mark_[w]) {
            mark_[w] = 0;
            part.push_back(w);
          }
      }
      std::sort(part.begin(), part.end(), [&](int a, int b) { return rank_[a] < rank_[b]; });
      parts.push_back(std::move(part));
    }
    return parts;
  }

  // Places all blocks of one part, or restores everything and says no.
  bool place(const std::vector<int>& part) {
    std::size_t start = trail_.size();
    auto key = state(part);
    auto& seen = failed_[key.first % failed_.size()];
    if (seen == key) return false;
    while (true) {
      work_ -= static_cast<long>(part.size());
      if (work_ <= 0) break;
      int lowest = -1;
      for (int b : part)
        if (!waits_[b] && (lowest < 0 || floor_[b] < floor_[lowest])) lowest = b;
      if (lowest < 0 || !promising(part, floor_[lowest])) break;
      std::size_t before = trail_.size();
      put(lowest);
      std::vector<int> rest;
      for (int b : part)
        if (b != lowest) rest.push_back(b);
      if (still_linked(lowest) ? place(rest) : place_parts(rest)) return true;
      placed_[lowest] = 0;
      undo(before);
      change(lowest);
      waits_[lowest] = 1;
    }
    undo(start);
    if (work_ > 0) seen = key;
    return false;
  }

  // Two hashes of which blocks are open, how low they may stand and who waits: whatever lies below, the rest of the search is the same.
  std::pair<std::uint64_t, std::uint64_t> state(const std::vector<int>& part) {
    std::uint64_t a = 1, b = 1;  // never {0, 0}, which marks an unused entry
    for (int i : part) {
      std::uint64_t word = mix((static_cast<std::uint64_t>(floor_[i]) * 2 + waits_[i]) ^ (static_cast<std::uint64_t>(i + 1) << 48));
      a += word;
      b += mix(word);
    }
    return {a, b};
  }

  void put(int b) {
    placed_[b] = 1;
    offset_[b] = floor_[b];
    long top = floor_[b] + p_.blocks[b].size;
    work_ -= static_cast<long>(p_.conflicts[b].size());
    for (int w : p_.conflicts[b]) {
      if (placed_[w] || floor_[w] >= top) continue;
      change(w);
      floor_[w] = round_up(top, p_.blocks[w].align);
      waits_[w] = 0;
    }
  }

  void change(int b) { trail_.push_back({b, floor_[b], earliest_[b], waits_[b]}); }

  void undo(std::size_t to) {
    for (; trail_.size() > to; trail_.pop_back()) {
      const Change& c = trail_.back();
      floor_[c.block] = c.floor;
      earliest_[c.block] = c.earliest;
      waits_[c.block] = c.waits;
    }
  }

  // Can the part still fit when nothing more is placed below `level`? Only cliques in which something rose are looked at again.
  bool promising(const std::vector<int>& part, long level) {
    risen_.clear();
    for (int b : part) {
      long earliest = floor_[b];
      if (waits_[b]) {  // it must be lifted by a block that reaches below its top, or it could stand lower in the end
        long top = floor_[b] + p_.blocks[b].size;
        earliest = never;
        work_ -= static_cast<long>(p_.conflicts[b].size());
        for (int w : p_.conflicts[b]) {
          if (placed_[w]) continue;
          long lifter = waits_[w] ? level : floor_[w];
          if (lifter < top) earliest = std::min(earliest, lifter + p_.blocks[w].size);
        }
      }
      if (earliest + p_.blocks[b].size > capacity_) return false;
      if (earliest <= earliest_[b]) continue;
      change(b);
      earliest_[b] = earliest;
      risen_.push_back(b);
    }
    ++clique_round_;
    for (int b : risen_)
      for (int k : of_[b]) {
        if (clique_mark_[k] == clique_round_) continue;
        clique_mark_[k] = clique_round_;
        if (!stackable(p_.cliques[k])) return false;
      }
    return true;
  }

  // Stacks the open blocks of a clique, each no lower than its earliest: the top of such a stack is a lower bound.
  bool stackable(const std::vector<int>& clique) {
    open_.clear();
    for (int b : clique)
      if (!placed_[b]) open_.push_back({earliest_[b], p_.blocks[b].size});
    work_ -= static_cast<long>(open_.size());
    std::sort(open_.begin(), open_.end());
    long top = 0;
    for (auto [earliest, size] : open_) top = std::max(top, earliest) + size;
    return top <= capacity_;
  }

  const PackProblem& p_;
  const long capacity_;
  const std::vector<int>& rank_;
  long& work_;
  std::size_t count_;
  std::vector<long> floor_;     // the lowest offset that placed blocks leave
  std::vector<long> earliest_;  // a bound on the offset it will get
  std::vector<long> offset_;
  std::vector<char> waits_, placed_, mark_;
  std::vector<std::vector<int>> of_;  // cliques of a block
  std::vector<long> clique_mark_;
  long clique_round_ = 0;
  std::vector<std::pair<long, long>> open_;
  std::vector<int> risen_, reached_;
  std::vector<Change> trail_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> failed_;  // states that cannot be completed; a newer one takes the place of an older
};
}  // namespace

Fit fit(const PackProblem& problem, long capacity, const std::vector<int>& rank, long& work, std::vector<long>& offset) {
  return Search(problem, capacity, rank, work).run(offset);
}

}  // namespace karez::solve
