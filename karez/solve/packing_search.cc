// In any packing, blocks can be moved down until each has offset 0 or is on top of a block with which it conflicts. The
// search builds such packings in order of (offset, rank): the block with the lowest floor is either placed at its
// floor, or never has that offset (it "waits"). The order by offset, the pruning of blocks that could have been lower
// and the split into independent parts follow Moffitt, "MiniMalloc" (ASPLOS 2023).
//
// In the order by offset, consecutive blocks are often in use at distant times, so a failure is usually not caused by
// the block placed last. Therefore every bound has reasons: the placed blocks that imply it. The reason for a failure
// is also a set of placed blocks, and only placements in this set are retried (conflict-directed backjumping: Prosser,
// "Hybrid algorithms for the constraint satisfaction problem", 1993).
#include "karez/solve/packing_search.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "karez/base/error.h"
#include "karez/base/interrupt.h"
#include "karez/solve/conflict_components.h"
#include "karez/solve/failed_states.h"

namespace karez::solve {
namespace {
constexpr long infinite_offset = std::numeric_limits<long>::max() / 4;

using Word = std::uint64_t;

class Search {
 public:
  Search(const PackProblem& problem, long capacity, const std::vector<int>& rank, long& work,
         std::vector<long>& failures)
      : p_(problem),
        capacity_(capacity),
        rank_(rank),
        work_(work),
        failures_(failures),
        count_(problem.blocks.size()),
        words_((count_ + 63) / 64),
        states_(count_),
        offset_(count_, 0),
        placed_(count_, 0),
        queued_(count_, 0),
        cliques_of_(count_),
        reasons_(count_ * kinds * words_, 0),
        conflict_(words_, 0),
        explained_(count_),
        sorted_cliques_(problem.cliques),
        components_(problem, rank, placed_, work) {
    for (int k = 0; k < static_cast<int>(p_.cliques.size()); ++k)
      for (int b : p_.cliques[k]) cliques_of_[b].push_back(k);
    clique_mark_.assign(p_.cliques.size(), 0);
  }

  Feasibility run(std::vector<long>& offset) {
    std::vector<int> order(count_);
    for (std::size_t i = 0; i < count_; ++i) order[i] = static_cast<int>(i);
    std::sort(order.begin(), order.end(), [&](int a, int b) { return rank_[a] < rank_[b]; });
    if (place_parts(order)) {
      offset = offset_;
      return Feasibility::yes;
    }
    return work_ <= 0 ? Feasibility::unknown : Feasibility::no;
  }

 private:
  struct State {
    long floor = 0;     // the lowest offset that the placed blocks permit
    long derived = 0;   // a lower bound on the offset from the "not first" rule in a clique, or 0
    long earliest = 0;  // the largest known lower bound on the offset
    bool waits = false;
  };
  struct Change {
    int block;
    State old_state;
    std::size_t reasons;  // position of the saved reasons, or `none`
  };
  // Each block has three sets of placed blocks: the reasons why its offset is at least its floor, why its offset is not
  // its floor, and why its offset is at least `derived`.
  enum Kind { floor_reason, wait_reason, derived_reason, kinds };
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  Word* reasons(int b, Kind kind) { return &reasons_[(static_cast<std::size_t>(b) * kinds + kind) * words_]; }
  void join(Word* target, const Word* source) {
    for (std::size_t i = 0; i < words_; ++i) target[i] |= source[i];
  }
  static void insert(Word* set, int b) { set[b / 64] |= Word{1} << (b % 64); }
  static bool contains(const Word* set, int b) { return set[b / 64] >> (b % 64) & 1; }
  static void erase(Word* set, int b) { set[b / 64] &= ~(Word{1} << (b % 64)); }
  void copy(const Word* from, Word* to) { std::copy_n(from, words_, to); }
  void clear(std::vector<Word>& set) { set.assign(words_, 0); }

  // Splits blocks, which are in the order of ranks, into parts that do not conflict with each other, and places each
  // part. Small parts come first because they fail sooner.
  bool place_parts(const std::vector<int>& blocks) {
    std::vector<std::vector<int>> parts = components_.split(blocks);
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    for (const auto& part : parts) {
      if (place(part)) continue;
      for (int b : blocks) placed_[b] = 0;  // earlier parts are placed; the caller undoes the changes of floors
      return false;
    }
    return true;
  }

  // Places all blocks of one part. On failure, restores the state, sets `conflict_` to the placed blocks that are the
  // reason, and returns false.
  bool place(const std::vector<int>& part) {
    std::size_t start = trail_.size();
    const StateHash hash = hash_of(part);
    if (failed_states_.contains(hash)) {
      explain_part(part);
      return false;
    }
    while (true) {
      base::check_interrupt();
      work_ -= 3 * static_cast<long>(part.size());  // for the three loops over the part
      if (work_ <= 0) break;
      int lowest_block = -1;
      for (int b : part)
        if (!states_[b].waits && (lowest_block < 0 || states_[b].floor < states_[lowest_block].floor)) lowest_block = b;
      if (lowest_block < 0) explain_part(part);
      if (lowest_block < 0 || !can_fit(part, states_[lowest_block].floor)) break;
      if (states_[lowest_block].derived > states_[lowest_block].floor) {
        wait(lowest_block, reasons(lowest_block, derived_reason));
        continue;
      }
      std::size_t before = trail_.size();
      place_block(lowest_block);
      std::vector<int> remaining_blocks;
      for (int b : part)
        if (b != lowest_block) remaining_blocks.push_back(b);
      if (components_.remain_connected(lowest_block) ? place(remaining_blocks) : place_parts(remaining_blocks))
        return true;
      placed_[lowest_block] = 0;
      undo(before);
      if (work_ <= 0) break;
      if (!contains(conflict_.data(), lowest_block)) break;  // the failure does not depend on this block
      erase(conflict_.data(), lowest_block);
      wait(lowest_block, conflict_.data());
    }
    undo(start);
    failed_states_.insert(hash);
    return false;
  }

  void wait(int b, const Word* reason) {
    change(b, true);
    copy(reason, reasons(b, wait_reason));
    states_[b].waits = true;
  }

  // Sets `conflict_` to the reasons for the complete state of a part.
  void explain_part(const std::vector<int>& part) {
    clear(conflict_);
    work_ -= static_cast<long>(part.size() * words_);
    for (int b : part) {
      join(conflict_.data(), reasons(b, floor_reason));
      if (!states_[b].waits) continue;
      join(conflict_.data(), reasons(b, wait_reason));
      for (int w : p_.conflicts[b])
        if (placed_[w]) insert(conflict_.data(), w);
    }
  }

  // Adds to `out` the reasons why block b has an offset of at least `bound`. For a waiting block, they include every
  // neighbour, because each neighbour either supports the block at that offset or is above it.
  void explain(int b, long bound, Word* out) {
    to_explain_.assign(1, {b, bound});
    ++explanation_;
    for (std::size_t i = 0; i < to_explain_.size(); ++i) {
      auto [x, min_offset] = to_explain_[i];
      const State& s = states_[x];
      auto& done = explained_[x];
      if (min_offset <= 0 || (done.first == explanation_ && min_offset <= done.second)) continue;
      done = {explanation_, min_offset};
      work_ -= static_cast<long>(words_);
      if (min_offset > s.floor && min_offset <= s.derived) {
        join(out, reasons(x, derived_reason));
        continue;
      }
      join(out, reasons(x, floor_reason));
      if (min_offset <= s.floor || !s.waits) continue;
      join(out, reasons(x, wait_reason));
      long top = s.floor + p_.blocks[x].size;
      work_ -= static_cast<long>(p_.conflicts[x].size());
      for (int w : p_.conflicts[x]) {
        if (placed_[w]) insert(out, w);
        else to_explain_.emplace_back(w, std::min(min_offset - p_.blocks[w].size, top));
      }
    }
  }

  // Hashes the open blocks, their floors and which of them wait. The remaining search depends on nothing else.
  StateHash hash_of(const std::vector<int>& part) const {
    StateHash hash;
    for (int b : part) hash.add(b, static_cast<Word>(states_[b].floor) * 2 + states_[b].waits);
    return hash;
  }

  void place_block(int b) {
    placed_[b] = 1;
    offset_[b] = states_[b].floor;
    long top = offset_[b] + p_.blocks[b].size;
    work_ -= static_cast<long>(p_.conflicts[b].size());
    for (int w : p_.conflicts[b]) {
      if (placed_[w] || states_[w].floor >= top) continue;
      change(w, true);
      if (offset_[b] < p_.blocks[w].size) {  // w cannot fit below b, whatever other blocks are placed
        std::fill_n(reasons(w, floor_reason), words_, 0);
      } else if (states_[w].waits) {
        clear(reason_);
        explain(w, offset_[b], reason_.data());
        copy(reason_.data(), reasons(w, floor_reason));
      }
      insert(reasons(w, floor_reason), b);
      work_ -= static_cast<long>(words_);
      states_[w].floor = round_up(top, p_.blocks[w].align);
      states_[w].waits = false;
    }
  }

  void change(int b, bool with_reasons) {
    trail_.push_back({b, states_[b], with_reasons ? saved_.size() : none});
    if (with_reasons) saved_.insert(saved_.end(), reasons(b, floor_reason), reasons(b, floor_reason) + kinds * words_);
  }

  void undo(std::size_t to) {
    for (; trail_.size() > to; trail_.pop_back()) {
      const Change& c = trail_.back();
      states_[c.block] = c.old_state;
      if (c.reasons == none) continue;
      std::copy_n(&saved_[c.reasons], kinds * words_, reasons(c.block, floor_reason));
      saved_.resize(c.reasons);
    }
  }

  // Returns whether the part can still fit if no more blocks are placed below `level`. Checks only the cliques with a
  // block whose bound rose.
  bool can_fit(const std::vector<int>& part, long level) {
    for (int b : raised_) queued_[b] = 0;
    raised_.clear();
    for (int b : part) {
      const State& s = states_[b];
      long earliest = s.floor;
      if (s.waits) {  // another block must be placed below its top; otherwise it could be moved down
        long top = s.floor + p_.blocks[b].size;
        earliest = infinite_offset;
        work_ -= static_cast<long>(p_.conflicts[b].size());
        for (int w : p_.conflicts[b]) {
          if (placed_[w]) continue;
          long lifter_offset = std::max(states_[w].waits ? level : states_[w].floor, states_[w].derived);
          if (lifter_offset < top) earliest = std::min(earliest, lifter_offset + p_.blocks[w].size);
        }
      }
      long max_offset = capacity_ - p_.blocks[b].size;
      if (earliest > max_offset) {
        clear(conflict_);
        explain(b, max_offset + 1, conflict_.data());
        ++failures_[b];
        return false;
      }
      if (earliest <= s.earliest) continue;
      change(b, false);
      states_[b].earliest = earliest;
      raised_.push_back(b);
      queued_[b] = 1;
    }
    for (std::size_t from = 0; from < raised_.size();) {  // checking a clique may raise further blocks
      ++clique_round_;
      std::size_t to = raised_.size();
      for (std::size_t i = from; i < to; ++i) queued_[raised_[i]] = 0;
      for (; from < to; ++from)
        for (int k : cliques_of_[raised_[from]]) {
          if (clique_mark_[k] == clique_round_) continue;
          clique_mark_[k] = clique_round_;
          if (!fits_as_stack(k)) return false;
        }
    }
    return true;
  }

  // Sets `open_` to the open blocks of clique k, sorted by (earliest, number). The clique keeps this order, so that the
  // next sort is cheap.
  void sort_open(int k) {
    open_.clear();
    placed_blocks_.clear();
    for (int b : sorted_cliques_[k]) {
      if (placed_[b]) {
        placed_blocks_.push_back(b);
        continue;
      }
      std::pair<long, int> item{states_[b].earliest, b};
      std::size_t at = open_.size();
      for (open_.push_back(item); at > 0 && item < open_[at - 1]; --at) open_[at] = open_[at - 1], --work_;
      open_[at] = item;
    }
    work_ -= static_cast<long>(sorted_cliques_[k].size());
    for (std::size_t i = 0; i < open_.size(); ++i) sorted_cliques_[k][i] = open_[i].second;
    std::copy(placed_blocks_.begin(), placed_blocks_.end(),
              sorted_cliques_[k].begin() + static_cast<long>(open_.size()));
  }

  // Returns whether the open blocks of a clique fit as a stack, each at or above its earliest offset.
  bool fits_as_stack(int k) {
    sort_open(k);
    work_ -= static_cast<long>(open_.size());
    long top = 0, total = 0;
    std::size_t from = 0;  // the stack has no gap above this place
    for (std::size_t i = 0; i < open_.size(); ++i) {
      auto [earliest, b] = open_[i];
      if (earliest > top) top = earliest, from = i;
      top += p_.blocks[b].size;
      total += p_.blocks[b].size;
      if (top <= capacity_) continue;
      clear(conflict_);
      for (std::size_t j = from; j <= i; ++j)
        explain(open_[j].second, open_[from].first - (top - capacity_) + 1, conflict_.data());
      for (std::size_t j = from; j < open_.size(); ++j) ++failures_[open_[j].second];
      return false;
    }
    apply_not_first_rule(total);
    return true;
  }

  // One of the open blocks of a clique, which have `total` bytes together, is the lowest. A block is not the lowest if
  // a stack of all others on top of it would exceed the capacity; then it is above a block that may be the lowest ("not
  // first": Baptiste, Le Pape, Nuijten, "Constraint-Based Scheduling", 2001).
  //   capacity 10; sizes 3, 3, 4 with earliest 0, 0, 1: the third is not the lowest, so its offset is at least 3
  // The same rule applies to the blocks of `open_` without the first, without the first two, and so on.
  void apply_not_first_rule(long total) {
    std::size_t first_later = 0;
    // A monotonic queue of places in `open_` from `first` to `first_later`; the front has the lowest top.
    min_top_.clear();
    std::size_t front = 0;
    auto top_of = [&](std::size_t i) { return open_[i].first + p_.blocks[open_[i].second].size; };
    for (std::size_t first = 0; first < open_.size(); ++first) {
      const long latest = capacity_ - total;
      if (open_.back().first <= latest) return;
      for (; open_[first_later].first <= latest; ++first_later) {
        while (min_top_.size() > front && top_of(min_top_.back()) >= top_of(first_later)) min_top_.pop_back();
        min_top_.push_back(first_later);
      }
      --work_;
      while (min_top_[front] < first) ++front;
      const long lowest_top = top_of(min_top_[front]);
      bool is_explained = false;  // the reasons are the same for all raised blocks
      for (std::size_t i = first_later; i < open_.size() && open_[i].first < lowest_top; ++i) {
        int b = open_[i].second;
        if (states_[b].earliest >= lowest_top) continue;
        if (!is_explained) {
          clear(reason_);
          for (std::size_t j = first; j < open_.size(); ++j)
            explain(open_[j].second, j < first_later ? lowest_top - p_.blocks[open_[j].second].size : latest + 1,
                    reason_.data());
          is_explained = true;
        }
        change(b, true);
        states_[b].earliest = states_[b].derived = lowest_top;
        copy(reason_.data(), reasons(b, derived_reason));
        if (queued_[b]) continue;
        queued_[b] = 1;
        raised_.push_back(b);
      }
      total -= p_.blocks[open_[first].second].size;
    }
  }

  const PackProblem& p_;
  const long capacity_;
  const std::vector<int>& rank_;
  long& work_;
  std::vector<long>& failures_;
  std::size_t count_, words_;
  std::vector<State> states_;
  std::vector<long> offset_;
  std::vector<char> placed_, queued_;
  std::vector<std::vector<int>> cliques_of_;  // by block: its cliques
  std::vector<long> clique_mark_;
  long clique_round_ = 0;
  std::vector<Word> reasons_, saved_, conflict_, reason_;
  // By block: the last explanation that included the block, and the explained bound.
  std::vector<std::pair<long, long>> explained_;
  long explanation_ = 0;
  std::vector<std::vector<int>> sorted_cliques_;  // the cliques, in the order of the last sort
  std::vector<std::pair<int, long>> to_explain_;
  std::vector<std::pair<long, int>> open_;
  std::vector<std::size_t> min_top_;
  std::vector<int> raised_, placed_blocks_;
  std::vector<Change> trail_;
  FailedStates failed_states_;
  ConflictComponents components_;
};
}  // namespace

Feasibility search_packing(const PackProblem& problem, long capacity, const std::vector<int>& rank, long& work,
                           std::vector<long>& offset, std::vector<long>& failures) {
  return Search(problem, capacity, rank, work, failures).run(offset);
}

}  // namespace karez::solve
