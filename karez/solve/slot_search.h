// The cheapest slots that reach an interval, by branch and bound over a covering program whose rows come from slow
// cycles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "karez/solve/act_graph.h"
#include "karez/solve/cover.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// A cycle that was too slow with some slot vector, and the condition that it implies for every fast enough vector. A
// cycle through registers of g_1, g_2, ... pieces per launch repeats when shifted by 1 / G of a launch, G = gcd(g). So
// u_r = ceil((slots_r - had_r) / (g_r / G)) additional steps of register r add u_r / G tokens each time the cycle
// passes it, and the cycle's tokens must reach seconds / interval.
struct SlowCycle {
  struct Part {
    int variable;
    int had;             // slots with which it was too slow
    std::int64_t times;  // number of times that the cycle passes the register's slots
    std::int64_t unit;   // slots per step
  };
  double seconds = 0;
  std::int64_t tokens = 0, symmetry = 1;
  std::vector<Part> parts;
};

// True if the program is live and reaches the interval, to one part in 10^9.
bool meets_interval(const SlotCycle& cycle, double interval);

// The smallest count from `least` to `most` that is enough. `enough` must be monotonic and true for `most`. Small
// counts are tried first, since they often suffice.
template <class Enough> int fewest(int least, int most, Enough enough) {
  int too_few = least - 1;
  for (int at = least; too_few + 1 < most; at = too_few + (most - too_few) / 2) (enough(at) ? most : too_few) = at;
  return most;
}

// Lowers each of `which` in turn to the fewest slots, at least `least`, that are enough while the registers after it
// keep theirs. `enough` reads `slots` and must be monotonic, so that a range of registers that can all have their least
// is found with one test.
template <class Enough>
void lower_each(std::span<const int> which, std::span<const int> least, std::vector<int>& slots, Enough enough) {
  if (std::all_of(which.begin(), which.end(), [&](int r) { return slots[r] <= least[r]; })) return;
  if (which.size() == 1) {
    int& mine = slots[which[0]];
    auto with = [&](int count) {
      mine = count;
      return enough();
    };
    mine = fewest(least[which[0]], mine, with);
    return;
  }
  const std::vector<int> before = slots;
  for (int r : which) slots[r] = least[r];
  if (enough()) return;
  slots = before;
  lower_each(which.first(which.size() / 2), least, slots, enough);
  lower_each(which.subspan(which.size() / 2), least, slots, enough);
}

class SlotSearch {
 public:
  // `least` and `most` slots of each register; registers of 0 bytes always have `most`.
  SlotSearch(const SlotProblem& problem, const ActGraph& graph, std::vector<int> least, std::vector<int> most);

  struct Result {
    bool found = false;      // whether slots of less than `below` bytes were found
    std::vector<int> slots;  // by register
    std::int64_t bytes = 0;
    std::int64_t bound = 0;  // lower bound on bytes; `below` if none were found and none exist
    bool finished = false;   // bytes == bound, or none were found and none exist
  };
  // Finds slots with an interval of at most `interval`, which the `most` slots must reach. With `any`, returns the
  // first slots found below `below` bytes. The slow cycles found are kept for the next call.
  Result run(double interval, std::int64_t below, bool any, std::int64_t steps);

 private:
  using Slots = std::vector<int>;  // by variable: the registers that cost bytes and have a choice
  struct Node {
    Slots low, high;
    CoverProgram program;
    double bound;  // a lower bound on the price of all x in this node

    std::int64_t min_price() const;
  };
  struct SlotLowerBound {
    int variable, slots;  // the variable needs more than this
  };

  Slots all_slots(const Slots& x) const;  // by register
  std::int64_t price_of(const Slots& x) const;
  SlotCycle measure(const Slots& x);
  bool is_slow(const Slots& x);
  void raise_least();
  void raise(std::span<const int> which, const Slots& from, const Slots& to, Slots& x);
  SlowCycle slow_cycle(const SlotCycle& cycle, const Slots& x) const;
  CoverRow row_of(const SlowCycle& cycle) const;
  void tighten(CoverRow& row) const;
  bool learn(const SlotCycle& why, const Slots& x, std::span<const double> point);
  std::vector<SlotLowerBound> alternatives(const SlotCycle& why, const Slots& x);
  void offer(Slots x);
  void explore(Node node);
  void halve(Node node, int variable);
  void split(const Node& node, std::span<const SlotLowerBound> lower_bounds);
  bool stops() const { return steps_ <= 0 || (any_ && found_); }

  const SlotProblem& problem_;
  const ActGraph& graph_;
  std::vector<int> max_, register_of_, variable_of_;
  Slots min_, high_;
  std::vector<std::int64_t> price_;  // by variable: bytes of a slot, in units of `unit_`
  std::int64_t unit_ = 1, fixed_bytes_ = 0;
  std::vector<SlowCycle> cycles_;   // found so far, at any interval
  std::map<double, Slots> raised_;  // low_ by interval

  // State of one call.
  double interval_ = 0;
  Slots low_;  // by variable: the fewest slots if all others have their most
  std::vector<CoverRow> rows_;
  std::int64_t steps_ = 0, best_ = 0;  // best_: only lower prices are sought
  bool any_ = false, found_ = false;
  Slots best_slots_;
  std::vector<Node> open_;
};

}  // namespace karez::solve
