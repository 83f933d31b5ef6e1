// In any packing, blocks can be moved down until each has offset 0 or is on top of a block it conflicts with. Such
// packings are built in order of (offset, rank): the block with the lowest floor is either placed at it, or is never at
// that offset ("waits"). The order by offset, the pruning of blocks that could have been lower and the split into
// independent parts follow Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine
// Learning" (ASPLOS 2023).
//
// In the order by offset, blocks of distant times alternate, so a failure at one time is mostly not caused by the last
// block placed. Therefore every bound has its reasons: the placed blocks from which it follows. The reason of a failure
// is also a set of placed blocks, and only placements in that set are retried (conflict-directed backjumping: Prosser,
// "Hybrid algorithms for the constraint satisfaction problem", 1993).
#include "karez/solve/packing_search.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "karez/base/error.h"
#include "karez/base/interrupt.h"

namespace karez::solve {
namespace {
constexpr std::size_t remembered = 1 << 16;
constexpr long infinite_offset = std::numeric_limits<long>::max() / 4;

std::uint64_t mix(std::uint64_t x) {  // the finaliser of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

using Word = std::uint64_t;

class Search {
 public:
  Search(const PackProblem& problem, long capacity, const std::vector<int>& rank, long& work, std::vector<long>& blame)
      : p_(problem),
        capacity_(capacity),
        rank_(rank),
        work_(work),
        blame_(blame),
        count_(problem.blocks.size()),
        words_((count_ + 63) / 64),
        is_(count_),
        offset_(count_, 0),
        placed_(count_, 0),
        mark_(count_, 0),
        queued_(count_, 0),
        of_(count_),
        reasons_(count_ * kinds * words_, 0),
        conflict_(words_, 0),
        explained_(count_),
        by_earliest_(problem.cliques) {
    for (int k = 0; k < static_cast<int>(p_.cliques.size()); ++k)
      for (int b : p_.cliques[k]) of_[b].push_back(k);
    clique_mark_.assign(p_.cliques.size(), 0);
    failed_.resize(remembered);
  }

  Feasibility run(std::vector<long>& offset) {
    std::vector<int> all(count_);
    for (std::size_t i = 0; i < count_; ++i) all[i] = static_cast<int>(i);
    std::sort(all.begin(), all.end(), [&](int a, int b) { return rank_[a] < rank_[b]; });
    if (place_parts(all)) {
      offset = offset_;
      return Feasibility::yes;
    }
    return work_ <= 0 ? Feasibility::unknown : Feasibility::no;
  }

 private:
  struct State {
    long floor = 0;     // the lowest offset that the placed blocks permit
    long derived = 0;   // a lower bound on the offset from the "not first" rule in a clique; 0 if none
    long earliest = 0;  // the best lower bound on the offset
    bool waits = false;
  };
  struct Change {
    int block;
    State was;
    std::size_t reasons;  // position of its saved reasons, or `none`
  };
  // Three sets of placed blocks for each block: reasons that its offset is at least its floor, that it is not its
  // floor, and that it is at least `derived`.
  enum Kind { why_floor, why_waits, why_derived, kinds };
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  Word* reasons(int b, Kind kind) { return &reasons_[(static_cast<std::size_t>(b) * kinds + kind) * words_]; }
  void join(Word* into, const Word* more) {
    for (std::size_t i = 0; i < words_; ++i) into[i] |= more[i];
  }
  static void insert(Word* set, int b) { set[b / 64] |= Word{1} << (b % 64); }
  static bool contains(const Word* set, int b) { return set[b / 64] >> (b % 64) & 1; }
  static void erase(Word* set, int b) { set[b / 64] &= ~(Word{1} << (b % 64)); }
  void copy(const Word* from, Word* to) { std::copy_n(from, words_, to); }
  void clear(std::vector<Word>& set) { set.assign(words_, 0); }

  // True if the open neighbours of a block just placed are still connected with each other. Mostly they conflict with
  // each other, and the search is short.
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

  // Splits blocks (by rank) into parts without conflicts between them and places each, small parts first because they
  // fail sooner.
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

  // Places all blocks of one part. If that fails, restores the state, sets `conflict_` to placed blocks that are the
  // reason, and returns false.
  bool place(const std::vector<int>& part) {
    std::size_t start = trail_.size();
    auto key = state(part);
    auto& seen = failed_[key.first % failed_.size()];
    if (seen == key) {
      blame_part(part);
      return false;
    }
    while (true) {
      base::check_interrupt();
      work_ -= 3 * static_cast<long>(part.size());  // for the three loops over the part
      if (work_ <= 0) break;
      int lowest = -1;
      for (int b : part)
        if (!is_[b].waits && (lowest < 0 || is_[b].floor < is_[lowest].floor)) lowest = b;
      if (lowest < 0) blame_part(part);
      if (lowest < 0 || !promising(part, is_[lowest].floor)) break;
      if (is_[lowest].derived > is_[lowest].floor) {
        wait(lowest, reasons(lowest, why_derived));
        continue;
      }
      std::size_t before = trail_.size();
      put(lowest);
      std::vector<int> rest;
      for (int b : part)
        if (b != lowest) rest.push_back(b);
      if (still_linked(lowest) ? place(rest) : place_parts(rest)) return true;
      placed_[lowest] = 0;
      undo(before);
      if (work_ <= 0) break;
      if (!contains(conflict_.data(), lowest)) break;  // the failure does not depend on this block
      erase(conflict_.data(), lowest);
      wait(lowest, conflict_.data());
    }
    undo(start);
    seen = key;
    return false;
  }

  void wait(int b, const Word* why) {
    change(b, true);
    copy(why, reasons(b, why_waits));
    is_[b].waits = true;
  }

  // Sets `conflict_` to the reasons of the whole state of a part.
  void blame_part(const std::vector<int>& part) {
    clear(conflict_);
    work_ -= static_cast<long>(part.size() * words_);
    for (int b : part) {
      join(conflict_.data(), reasons(b, why_floor));
      if (!is_[b].waits) continue;
      join(conflict_.data(), reasons(b, why_waits));
      for (int w : p_.conflicts[b])
        if (placed_[w]) insert(conflict_.data(), w);
    }
  }

  // Adds to `out` the reasons that block b has an offset of at least `bound`. For a waiting block these include every
  // neighbour: each either supports it at that offset or is above it.
  void explain(int b, long bound, Word* out) {
    todo_.assign(1, {b, bound});
    ++explaining_;
    for (std::size_t i = 0; i < todo_.size(); ++i) {
      auto [x, need] = todo_[i];
      const State& s = is_[x];
      auto& done = explained_[x];
      if (need <= 0 || (done.first == explaining_ && need <= done.second)) continue;
      done = {explaining_, need};
      work_ -= static_cast<long>(words_);
      if (need > s.floor && need <= s.derived) {
        join(out, reasons(x, why_derived));
        continue;
      }
      join(out, reasons(x, why_floor));
      if (need <= s.floor || !s.waits) continue;
      join(out, reasons(x, why_waits));
      long top = s.floor + p_.blocks[x].size;
      work_ -= static_cast<long>(p_.conflicts[x].size());
      for (int w : p_.conflicts[x]) {
        if (placed_[w]) insert(out, w);
        else todo_.emplace_back(w, std::min(need - p_.blocks[w].size, top));
      }
    }
  }

  // Two hashes of the open blocks, their floors and which of them wait. The rest of the search depends on nothing else.
  std::pair<Word, Word> state(const std::vector<int>& part) {
    Word a = 1, b = 1;  // never {0, 0}, which marks an unused entry
    for (int i : part) {
      Word word = mix((static_cast<Word>(is_[i].floor) * 2 + is_[i].waits) ^ (static_cast<Word>(i + 1) << 48));
      a += word;
      b += mix(word);
    }
    return {a, b};
  }

  void put(int b) {
    placed_[b] = 1;
    offset_[b] = is_[b].floor;
    long top = offset_[b] + p_.blocks[b].size;
    work_ -= static_cast<long>(p_.conflicts[b].size());
    for (int w : p_.conflicts[b]) {
      if (placed_[w] || is_[w].floor >= top) continue;
      change(w, true);
      if (offset_[b] < p_.blocks[w].size) {  // it cannot fit below b, whatever other blocks are placed
        std::fill_n(reasons(w, why_floor), words_, 0);
      } else if (is_[w].waits) {
        clear(why_);
        explain(w, offset_[b], why_.data());
        copy(why_.data(), reasons(w, why_floor));
      }
      insert(reasons(w, why_floor), b);
      work_ -= static_cast<long>(words_);
      is_[w].floor = round_up(top, p_.blocks[w].align);
      is_[w].waits = false;
    }
  }

  void change(int b, bool with_reasons) {
    trail_.push_back({b, is_[b], with_reasons ? saved_.size() : none});
    if (with_reasons) saved_.insert(saved_.end(), reasons(b, why_floor), reasons(b, why_floor) + kinds * words_);
  }

  void undo(std::size_t to) {
    for (; trail_.size() > to; trail_.pop_back()) {
      const Change& c = trail_.back();
      is_[c.block] = c.was;
      if (c.reasons == none) continue;
      std::copy_n(&saved_[c.reasons], kinds * words_, reasons(c.block, why_floor));
      saved_.resize(c.reasons);
    }
  }

  // True if the part can still fit if nothing more is placed below `level`. Only cliques with a block whose bound rose
  // are checked again.
  bool promising(const std::vector<int>& part, long level) {
    for (int b : risen_) queued_[b] = 0;
    risen_.clear();
    for (int b : part) {
      const State& s = is_[b];
      long earliest = s.floor;
      if (s.waits) {  // another block must be placed below its top, otherwise it could be lower in the end
        long top = s.floor + p_.blocks[b].size;
        earliest = infinite_offset;
        work_ -= static_cast<long>(p_.conflicts[b].size());
        for (int w : p_.conflicts[b]) {
          if (placed_[w]) continue;
          long lifter = std::max(is_[w].waits ? level : is_[w].floor, is_[w].derived);
          if (lifter < top) earliest = std::min(earliest, lifter + p_.blocks[w].size);
        }
      }
      long most = capacity_ - p_.blocks[b].size;
      if (earliest > most) {
        clear(conflict_);
        explain(b, most + 1, conflict_.data());
        ++blame_[b];
        return false;
      }
      if (earliest <= s.earliest) continue;
      change(b, false);
      is_[b].earliest = earliest;
      risen_.push_back(b);
      queued_[b] = 1;
    }
    for (std::size_t from = 0; from < risen_.size();) {  // checking a clique may raise further blocks
      ++clique_round_;
      std::size_t to = risen_.size();
      for (std::size_t i = from; i < to; ++i) queued_[risen_[i]] = 0;
      for (; from < to; ++from)
        for (int k : of_[risen_[from]]) {
          if (clique_mark_[k] == clique_round_) continue;
          clique_mark_[k] = clique_round_;
          if (!stackable(k)) return false;
        }
    }
    return true;
  }

  // Sets `open_` to the open blocks of clique k, sorted by (earliest, number). The clique keeps that order, so that the
  // next sort is cheap.
  void sort_open(int k) {
    open_.clear();
    closed_.clear();
    for (int b : by_earliest_[k]) {
      if (placed_[b]) {
        closed_.push_back(b);
        continue;
      }
      std::pair<long, int> item{is_[b].earliest, b};
      std::size_t at = open_.size();
      for (open_.push_back(item); at > 0 && item < open_[at - 1]; --at) open_[at] = open_[at - 1], --work_;
      open_[at] = item;
    }
    work_ -= static_cast<long>(by_earliest_[k].size());
    for (std::size_t i = 0; i < open_.size(); ++i) by_earliest_[k][i] = open_[i].second;
    std::copy(closed_.begin(), closed_.end(), by_earliest_[k].begin() + static_cast<long>(open_.size()));
  }

  // Stacks the open blocks of a clique, each at or above its earliest offset: the top of the stack is a lower bound.
  bool stackable(int k) {
    sort_open(k);
    work_ -= static_cast<long>(open_.size());
    long top = 0, total = 0;
    std::size_t from = 0;  // the stack has no gap from here on
    for (std::size_t i = 0; i < open_.size(); ++i) {
      auto [earliest, b] = open_[i];
      if (earliest > top) top = earliest, from = i;
      top += p_.blocks[b].size;
      total += p_.blocks[b].size;
      if (top <= capacity_) continue;
      clear(conflict_);
      for (std::size_t j = from; j <= i; ++j)
        explain(open_[j].second, open_[from].first - (top - capacity_) + 1, conflict_.data());
      for (std::size_t j = from; j < open_.size(); ++j) ++blame_[open_[j].second];
      return false;
    }
    raise_all_but_firsts(total);
    return true;
  }

  // Of the open blocks of a clique, `total` bytes in all, one is the lowest. A block is not the lowest if the stack of
  // all others on top of it would exceed the capacity; then it is above one that may be the lowest ("not first":
  // Baptiste, Le Pape, Nuijten, "Constraint-Based Scheduling", 2001).
  //   capacity 10; sizes 3, 3, 4 with earliest 0, 0, 1: the third is not the lowest, so its offset is at least 3
  // The same rule applies to all but the first in `open_`, all but the first two, and so on.
  void raise_all_but_firsts(long total) {
    std::size_t others = 0;
    min_top_.clear();  // monotonic queue of places in `open_` from `first` to `others`, with the least top in front
    std::size_t front = 0;
    auto top_of = [&](std::size_t i) { return open_[i].first + p_.blocks[open_[i].second].size; };
    for (std::size_t first = 0; first < open_.size(); ++first) {
      const long latest = capacity_ - total;
      if (open_.back().first <= latest) return;
      for (; open_[others].first <= latest; ++others) {
        while (min_top_.size() > front && top_of(min_top_.back()) >= top_of(others)) min_top_.pop_back();
        min_top_.push_back(others);
      }
      --work_;
      while (min_top_[front] < first) ++front;
      const long least = top_of(min_top_[front]);
      bool explained = false;  // the reasons are the same for all
      for (std::size_t i = others; i < open_.size() && open_[i].first < least; ++i) {
        int b = open_[i].second;
        if (is_[b].earliest >= least) continue;
        if (!explained) {
          clear(why_);
          for (std::size_t j = first; j < open_.size(); ++j)
            explain(open_[j].second, j < others ? least - p_.blocks[open_[j].second].size : latest + 1, why_.data());
          explained = true;
        }
        change(b, true);
        is_[b].earliest = is_[b].derived = least;
        copy(why_.data(), reasons(b, why_derived));
        if (queued_[b]) continue;
        queued_[b] = 1;
        risen_.push_back(b);
      }
      total -= p_.blocks[open_[first].second].size;
    }
  }

  const PackProblem& p_;
  const long capacity_;
  const std::vector<int>& rank_;
  long& work_;
  std::vector<long>& blame_;
  std::size_t count_, words_;
  std::vector<State> is_;
  std::vector<long> offset_;
  std::vector<char> placed_, mark_, queued_;
  std::vector<std::vector<int>> of_;  // by block: its cliques
  std::vector<long> clique_mark_;
  long clique_round_ = 0;
  std::vector<Word> reasons_, saved_, conflict_, why_;
  std::vector<std::pair<long, long>> explained_;  // by block: the last explanation that included it, and the bound
  long explaining_ = 0;
  std::vector<std::vector<int>> by_earliest_;  // the cliques, in the order of the last sort
  std::vector<std::pair<int, long>> todo_;
  std::vector<std::pair<long, int>> open_;
  std::vector<std::size_t> min_top_;
  std::vector<int> risen_, reached_, closed_;
  std::vector<Change> trail_;
  std::vector<std::pair<Word, Word>> failed_;  // states that cannot be completed; newer ones replace older ones
};
}  // namespace

Feasibility search_packing(const PackProblem& problem, long capacity, const std::vector<int>& rank, long& work,
                           std::vector<long>& offset, std::vector<long>& blame) {
  return Search(problem, capacity, rank, work, blame).run(offset);
}

}  // namespace karez::solve
