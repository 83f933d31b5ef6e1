// The cheapest slots for an interval, and the best interval under a cap.
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
constexpr double step = 3e-9;  // relative difference below which intervals count as equal
constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<int> max_slots(const SlotProblem& p) {
  std::vector<int> most;
  for (const auto& reg : p.registers) most.push_back(reg.most);
  return most;
}

std::vector<int> min_slots(const SlotProblem& p) {
  std::vector<int> least;
  for (const auto& reg : p.registers) least.push_back(std::max(reg.least, reg.filled));
  return least;
}

std::int64_t bytes_of(const SlotProblem& p, std::span<const int> slots) {
  std::int64_t bytes = 0;
  for (std::size_t r = 0; r < slots.size(); ++r) bytes += p.registers[r].bytes * slots[r];
  return bytes;
}

// Removes slots while the interval stays, from the most expensive registers to those of 0 bytes.
void trim(const SlotProblem& p, const ActGraph& graph, std::vector<int>& slots, double interval) {
  std::vector<int> order(slots.size()), least = min_slots(p);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return p.registers[a].bytes > p.registers[b].bytes; });
  lower_each(order, least, slots, [&] { return meets_interval(graph.critical_cycle(slots), interval); });
}

void require_live(const SlotCycle& cycle) {
  require(ErrorKind::hang, !cycle.is_deadlock(), "slots: the program is not live with the most slots: ", print(cycle));
}

SlotPlan plan_of(const SlotProblem& p, const ActGraph& graph, const SlotSearch::Result& answer, double interval,
                 double min_interval) {
  SlotPlan plan;
  plan.slots = answer.slots;
  trim(p, graph, plan.slots, interval);
  plan.critical = graph.critical_cycle(plan.slots);
  plan.interval = plan.critical.interval;
  plan.bytes = bytes_of(p, plan.slots);
  plan.bound = answer.bound;
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
  require(slots.size() == problem.registers.size(), "slots: ", slots.size(), " slot counts for ",
          problem.registers.size(), " registers");
  for (int r = 0; r < static_cast<int>(slots.size()); ++r) {
    const auto& reg = problem.registers[r];
    require(slots[r] >= std::max(1, reg.filled) && slots[r] <= 32767, "slots: register ", r, " has ", slots[r],
            " slots, of which ", reg.filled, " are full before the first launch");
  }
  return graph.critical_cycle(slots);
}

SlotPlan cheapest_slots(const SlotProblem& problem, double interval, const SlotLimits& limits) {
  require(interval >= 0, "slots: the interval must be at least 0, got ", interval, " seconds");
  ActGraph graph(problem, limits);
  SlotCycle fastest = graph.critical_cycle(max_slots(problem));
  require_live(fastest);
  require(meets_interval(fastest, interval), "slots: no slots reach an interval of ", interval,
          " seconds: ", print(fastest));
  SlotSearch search(problem, graph, min_slots(problem), max_slots(problem));
  auto answer = search.run(interval, std::numeric_limits<std::int64_t>::max(), false, limits.steps);
  return plan_of(problem, graph, answer, interval, fastest.interval);
}

SlotPlan best_slots(const SlotProblem& problem, std::int64_t cap, const SlotLimits& limits) {
  ActGraph graph(problem, limits);
  SlotCycle fastest = graph.critical_cycle(max_slots(problem));
  require_live(fastest);
  SlotSearch search(problem, graph, min_slots(problem), max_slots(problem));
  constexpr auto any_bytes = std::numeric_limits<std::int64_t>::max();
  const std::int64_t below = cap + (cap < any_bytes ? 1 : 0);

  // Bisects between an interval that was not reached and one that was; after a success it tries an interval just below
  // the one reached.
  double refused = fastest.interval, reached = fastest.interval, proven = refused;
  auto held = search.run(refused, below, true, limits.steps);
  if (!held.found) {
    held = search.run(infinity, below, true, limits.steps);
    if (!held.found) {
      auto live = search.run(infinity, any_bytes, false, limits.steps);
      fail("slots: the program is not live within ", cap, " bytes: it takes ", live.bytes,
           live.finished ? "" : ", or at least ", live.finished ? "" : cat(live.bound));
    }
    reached = graph.critical_cycle(held.slots).interval;
  }
  bool halve = true;
  while (reached > refused * (1 + step)) {
    double want = halve ? refused + (reached - refused) / 2 : std::max(refused, reached * (1 - step));
    auto answer = search.run(want, below, true, limits.steps);
    if (!answer.found) {
      refused = want;
      if (answer.finished) proven = want;
      halve = true;
    } else {
      held = std::move(answer);
      reached = graph.critical_cycle(held.slots).interval;
      halve = !halve;
    }
  }
  auto answer = search.run(reached, below, false, limits.steps);
  if (!answer.found) answer.slots = held.slots;
  SlotPlan plan = plan_of(problem, graph, answer, reached, proven);
  bool fastest_possible = reached <= proven * (1 + 2 * step);
  if (fastest_possible) plan.min_interval = plan.interval;
  plan.optimal &= fastest_possible;
  return plan;
}

}  // namespace karez::solve
