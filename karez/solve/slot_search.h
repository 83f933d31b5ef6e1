// Finds the cheapest slots that reach an interval, by branch and bound over a covering program. Each row of the program
// is derived from a cycle that is too slow.
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

// A cycle that was too slow with some slot vector, and the condition that it implies for every fast enough vector. Let
// g_1, g_2, ... be the pieces per launch of the cycle's registers, and G their greatest common divisor. The cycle
// repeats when it is shifted by 1 / G of a launch. So slots_r slots of register r add
//   u_r / G tokens, where u_r = ceil((slots_r - slow_slots_r) / (g_r / G)) is a number of steps,
// each time the cycle passes the register. The tokens of the cycle must reach seconds / interval.
struct SlowCycle {
  struct Part {
    int variable;
    int slow_slots;               // slots with which the cycle was too slow
    std::int64_t passes;          // number of times that the cycle passes the register's slots
    std::int64_t slots_per_step;  // slots per step
  };
  double seconds = 0;
  std::int64_t tokens = 0, symmetry = 1;
  std::vector<Part> parts;
};

// Returns whether the program is live and reaches the interval, to one part in 10^9.
bool meets_interval(const SlotCycle& cycle, double interval);

// Returns the smallest count from `min_slots` to `max_slots` that is enough. `is_enough` must be monotonic and true for
// `max_slots`. Small counts are tried first, because they are often enough.
template <class Enough> int fewest(int min_slots, int max_slots, Enough is_enough) {
  int too_few = min_slots - 1;
  for (int middle = min_slots; too_few + 1 < max_slots; middle = too_few + (max_slots - too_few) / 2)
    (is_enough(middle) ? max_slots : too_few) = middle;
  return max_slots;
}

// Lowers each of `registers` in turn to the smallest number of slots that is enough while the later registers keep
// their slots, but not below `min_slots`. `is_enough` reads `slots`. It must be monotonic, so that one test is
// sufficient for a range of registers that can all have their minimum.
template <class Enough>
void lower_each(std::span<const int> registers, std::span<const int> min_slots, std::vector<int>& slots,
                Enough is_enough) {
  if (std::all_of(registers.begin(), registers.end(), [&](int r) { return slots[r] <= min_slots[r]; })) return;
  if (registers.size() == 1) {
    int& slot_count = slots[registers[0]];
    auto is_enough_with = [&](int count) {
      slot_count = count;
      return is_enough();
    };
    slot_count = fewest(min_slots[registers[0]], slot_count, is_enough_with);
    return;
  }
  const std::vector<int> old_slots = slots;
  for (int r : registers) slots[r] = min_slots[r];
  if (is_enough()) return;
  slots = old_slots;
  lower_each(registers.first(registers.size() / 2), min_slots, slots, is_enough);
  lower_each(registers.subspan(registers.size() / 2), min_slots, slots, is_enough);
}

class SlotSearch {
 public:
  // `min_slots` and `max_slots` are given by register. Registers of 0 bytes always have `max_slots`.
  SlotSearch(const SlotProblem& problem, const ActGraph& graph, std::vector<int> min_slots, std::vector<int> max_slots);

  struct Result {
    bool found = false;      // whether slots of less than `byte_limit` bytes were found
    std::vector<int> slots;  // by register
    std::int64_t bytes = 0;
    std::int64_t bound = 0;  // a lower bound on bytes; `byte_limit` if no slots below the limit exist
    bool finished = false;   // true if bytes == bound, or if it is proven that no slots below the limit exist
  };
  // Finds slots with an interval of at most `interval`; `max_slots` must reach this interval. With `any_solution`,
  // returns the first slots found below `byte_limit` bytes. The slow cycles are kept for the next call.
  Result run(double interval, std::int64_t byte_limit, bool any_solution, std::int64_t steps);

 private:
  using Slots = std::vector<int>;  // by variable; the variables are the registers with bytes > 0 and more than one
                                   // allowed number of slots
  struct Node {
    Slots low, high;
    CoverProgram program;
    double bound;  // a lower bound on the price of all x in this node

    std::int64_t min_price() const;
  };
  struct SlotLowerBound {
    int variable, slots;  // the variable needs more slots than this number
  };

  Slots all_slots(const Slots& x) const;  // by register
  std::int64_t price_of(const Slots& x) const;
  SlotCycle measure(const Slots& x);
  bool is_slow(const Slots& x);
  void raise_low();
  void raise(std::span<const int> variables, const Slots& from, const Slots& to, Slots& x);
  SlowCycle slow_cycle(const SlotCycle& cycle, const Slots& x) const;
  CoverRow row_of(const SlowCycle& cycle) const;
  void tighten(CoverRow& row) const;
  bool add_row(const SlotCycle& slow, const Slots& x, std::span<const double> point);
  std::vector<SlotLowerBound> alternatives(const SlotCycle& slow, const Slots& x);
  void accept(Slots x);
  void explore(Node node);
  void split_range(Node node, int variable);
  void split(const Node& node, std::span<const SlotLowerBound> lower_bounds);
  bool is_done() const { return steps_ <= 0 || (any_solution_ && found_); }

  const SlotProblem& problem_;
  const ActGraph& graph_;
  std::vector<int> max_, register_of_, variable_of_;
  Slots min_, high_;
  std::vector<std::int64_t> price_;  // by variable: the bytes of a slot, in units of `unit_`
  std::int64_t unit_ = 1, fixed_bytes_ = 0;
  std::vector<SlowCycle> cycles_;   // all slow cycles found so far, at any interval
  std::map<double, Slots> raised_;  // low_ by interval

  // State of one call.
  double interval_ = 0;
  Slots low_;  // by variable: the fewest slots that reach the interval if all others have their maximum
  std::vector<CoverRow> rows_;
  std::int64_t steps_ = 0, best_ = 0;  // the search looks only for prices below best_
  bool any_solution_ = false, found_ = false;
  Slots best_slots_;
  std::vector<Node> open_nodes_;
};

}  // namespace karez::solve
