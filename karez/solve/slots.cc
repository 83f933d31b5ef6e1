// Finds the cheapest slots for an interval, and the shortest interval within a limit on bytes.
#include "karez/solve/slots.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "karez/base/error.h"
#include "karez/solve/act_graph.h"
#include "karez/solve/slot_search.h"

namespace karez::solve {
namespace {
using WaitKind = SlotCycle::WaitKind;
constexpr double tolerance = 3e-9;  // relative difference below which intervals count as equal
constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<int> max_slots(const SlotProblem& p) {
  std::vector<int> max_counts;
  for (const auto& reg : p.registers) max_counts.push_back(reg.max_slots);
  return max_counts;
}

std::vector<int> min_slots(const SlotProblem& p) {
  std::vector<int> min_counts;
  for (const auto& reg : p.registers) min_counts.push_back(std::max(reg.min_slots, reg.filled));
  return min_counts;
}

std::int64_t bytes_of(const SlotProblem& p, std::span<const int> slots) {
  std::int64_t bytes = 0;
  for (std::size_t r = 0; r < slots.size(); ++r) bytes += p.registers[r].bytes * slots[r];
  return bytes;
}

// Removes slots, the most expensive registers first, as long as the program still reaches the interval.
void trim(const SlotProblem& p, const ActGraph& graph, std::vector<int>& slots, double interval) {
  std::vector<int> order(slots.size()), min_counts = min_slots(p);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return p.registers[a].bytes > p.registers[b].bytes; });
  lower_each(order, min_counts, slots, [&] { return meets_interval(graph.critical_cycle(slots), interval); });
}

void require_live(const SlotCycle& cycle) {
  if (cycle.is_deadlock()) fail(ErrorKind::hang, "slots: the program is not live even with max_slots: ", print(cycle));
}

SlotPlan plan_of(const SlotProblem& p, const ActGraph& graph, const SlotSearch::Result& result, double interval,
                 double min_interval) {
  SlotPlan plan;
  plan.slots = result.slots;
  trim(p, graph, plan.slots, interval);
  plan.critical = graph.critical_cycle(plan.slots);
  plan.interval = plan.critical.interval;
  plan.bytes = bytes_of(p, plan.slots);
  plan.bound = result.bound;
  plan.min_interval = min_interval;
  plan.optimal = plan.bytes == plan.bound;
  return plan;
}
}  // namespace

std::string print(const SlotCycle& cycle) {
  if (cycle.steps.empty()) return "no cycle";
  std::string out;
  for (const auto& step : cycle.steps) {
    out += cat("actor ", step.actor);
    if (step.act > 0) out += cat(" act ", step.act);
    switch (step.kind) {
      case WaitKind::data: out += cat(" -register ", step.index, "-> "); break;
      case WaitKind::slot: out += cat(" -slots of register ", step.index, "-> "); break;
      case WaitKind::actor: out += " -next act-> "; break;
      case WaitKind::stream: out += cat(" -stream ", step.index, "-> "); break;
    }
  }
  out += cat("actor ", cycle.steps[0].actor);
  if (cycle.steps[0].act > 0) out += cat(" act ", cycle.steps[0].act);
  return cat(out, ": ", cycle.seconds, " seconds over ", cycle.tokens, cycle.tokens == 1 ? " token" : " tokens");
}

std::int64_t acts_of(const SlotProblem& problem) {
  std::int64_t acts = 0;
  for (const auto& actor : problem.actors) acts += actor.acts;
  return acts;
}

SlotCycle interval_of(const SlotProblem& problem, std::span<const int> slots, const SlotLimits& limits) {
  ActGraph graph(problem, limits);
  require(slots.size() == problem.registers.size(), "slots: expected a slot count for each register, ",
          problem.registers.size(), " in total, got ", slots.size());
  for (int r = 0; r < static_cast<int>(slots.size()); ++r) {
    const auto& reg = problem.registers[r];
    require(slots[r] >= std::max(1, reg.filled) && slots[r] <= 32767, "slots: register ", r, " must have ",
            std::max(1, reg.filled), " to 32767 slots, got ", slots[r], "; ", reg.filled,
            " are filled before the first launch");
  }
  return graph.critical_cycle(slots);
}

SlotPlan cheapest_slots(const SlotProblem& problem, double interval, const SlotLimits& limits) {
  require(interval >= 0, "slots: the interval must be at least 0, got ", interval, " seconds");
  ActGraph graph(problem, limits);
  SlotCycle fastest = graph.critical_cycle(max_slots(problem));
  require_live(fastest);
  if (!meets_interval(fastest, interval))
    fail("slots: no slots reach an interval of ", interval, " seconds: ", print(fastest));
  SlotSearch search(problem, graph, min_slots(problem), max_slots(problem));
  auto result = search.run(interval, std::numeric_limits<std::int64_t>::max(), false, limits.steps);
  return plan_of(problem, graph, result, interval, fastest.interval);
}

SlotPlan best_slots(const SlotProblem& problem, std::int64_t cap, const SlotLimits& limits) {
  ActGraph graph(problem, limits);
  SlotCycle fastest = graph.critical_cycle(max_slots(problem));
  require_live(fastest);
  SlotSearch search(problem, graph, min_slots(problem), max_slots(problem));
  constexpr auto any_bytes = std::numeric_limits<std::int64_t>::max();
  const std::int64_t below = cap + (cap < any_bytes ? 1 : 0);

  // Bisects between an interval that was not reached and one that was reached. After each success by bisection, tries
  // an interval just below the one reached.
  double unreached = fastest.interval, reached = fastest.interval, proven = unreached;
  auto best_found = search.run(unreached, below, true, limits.steps);
  if (!best_found.found) {
    best_found = search.run(infinity, below, true, limits.steps);
    if (!best_found.found) {
      auto live = search.run(infinity, any_bytes, false, limits.steps);
      fail("slots: the program is not live within ", cap, " bytes: it needs ", live.bytes,
           live.finished ? "" : ", or at least ", live.finished ? "" : cat(live.bound));
    }
    reached = graph.critical_cycle(best_found.slots).interval;
  }
  bool bisect = true;
  while (reached > unreached * (1 + tolerance)) {
    double candidate = bisect ? unreached + (reached - unreached) / 2 : std::max(unreached, reached * (1 - tolerance));
    auto result = search.run(candidate, below, true, limits.steps);
    if (!result.found) {
      unreached = candidate;
      if (result.finished) proven = candidate;
      bisect = true;
    } else {
      best_found = std::move(result);
      reached = graph.critical_cycle(best_found.slots).interval;
      bisect = !bisect;
    }
  }
  auto result = search.run(reached, below, false, limits.steps);
  if (!result.found) result.slots = best_found.slots;
  SlotPlan plan = plan_of(problem, graph, result, reached, proven);
  bool fastest_possible = reached <= proven * (1 + 2 * tolerance);
  if (fastest_possible) plan.min_interval = plan.interval;
  plan.optimal &= fastest_possible;
  return plan;
}

}  // namespace karez::solve
