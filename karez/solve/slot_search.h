// The cheapest slots that reach an interval, by branch and bound over a covering program whose rows are cycles that
// were too slow.
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

// A slot vector that is too slow, and why: what holds for every vector that is not. With G launches' worth of the
// cycle's own symmetry (a cycle through registers of g_1, g_2, … pieces a launch looks the same shifted by 1 / gcd(g)
// of a launch), u_r = ceil((slots_r - had_r) / (g_r / G)) more steps of register r move the cycle's tokens by u_r / G
// each time it passes, and they must come to seconds / interval.
struct SlowCycle {
  struct Part {
    int variable;
    int had;             // slots
    std::int64_t times;  // the cycle passes the register's slots
    std::int64_t unit;   // slots in a step
  };
  double seconds = 0;
  std::int64_t tokens = 0, symmetry = 1;
  std::vector<Part> parts;
};

// Whether the program is live and the interval is reached, to one part in 10^9.
bool meets_interval(const SlotCycle& cycle, double interval);

// The fewest of `least` to `most` that are enough; more than enough is enough, and `most` is. Few are tried first: they
// often are.
template <class Enough> int fewest(int least, int most, Enough enough) {
  int too_few = least - 1;
  for (int at = least; too_few + 1 < most; at = too_few + (most - too_few) / 2) (enough(at) ? most : too_few) = at;
  return most;
}

// Each of `which` in turn: the fewest slots, from `least` on, that are enough while those behind it have what they
// have. `enough` looks at `slots`. What is enough stays so with more, so stretches that may all have their least are
// found at once.
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
  // `least` and `most` slots of each register; what costs no bytes stays at most.
  SlotSearch(const SlotProblem& problem, const ActGraph& graph, std::vector<int> least, std::vector<int> most);

  struct Result {
    bool found = false;      // slots of less than `below` bytes
    std::vector<int> slots;  // of each register
    std::int64_t bytes = 0;
    std::int64_t bound = 0;  // no slots that reach the interval take fewer; `below` if none was found and there is none
    bool finished = false;   // bytes == bound; if none was found: there is none
  };
  // Slots with an interval of at most `interval`, which the most slots must reach. `any`: the first that are found
  // below `below` bytes. What it learns of cycles it keeps for the next call.
  Result run(double interval, std::int64_t below, bool any, std::int64_t steps);

 private:
  using Slots = std::vector<int>;  // of variables: registers that cost bytes and have a choice
  struct Node {
    Slots low, high;
    CoverProgram program;
    double bound;  // no x here costs less

    std::int64_t least_price() const;
  };
  struct SlotLowerBound {
    int variable, slots;  // more are needed
  };

  Slots all_slots(const Slots& x) const;  // of registers
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
  std::vector<int> most_, register_of_, variable_of_;
  Slots least_, high_;
  std::vector<std::int64_t> price_;  // of a slot, in units of `unit_` bytes
  std::int64_t unit_ = 1, fixed_bytes_ = 0;
  std::vector<SlowCycle> cycles_;   // learnt, at whatever interval
  std::map<double, Slots> raised_;  // low_ by interval

  // Of one call.
  double interval_ = 0;
  Slots low_;  // each register's fewest where all others have their most
  std::vector<CoverRow> rows_;
  std::int64_t steps_ = 0, best_ = 0;  // best_: a price; only what is below it is sought
  bool any_ = false, found_ = false;
  Slots best_slots_;
  std::vector<Node> open_;
};

}  // namespace karez::solve
