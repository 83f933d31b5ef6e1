// Tests of the cheapest slots against all slot vectors, each simulated token by token.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "karez/base/error.h"
#include "karez/base/test_golden.h"
#include "karez/solve/slots.h"
#include "karez/solve/test_tokens.h"

namespace karez::solve {
namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

struct RandomSource {
  std::mt19937 random;
  int below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
  bool chance(int percent) { return below(100) < percent; }
};

SlotProblem::Consumer reader(int actor, int acts, int pieces, RandomSource& draw) {
  SlotProblem::Consumer out{actor, acts / pieces};
  if (draw.chance(15)) out.arrives = draw.below(4);
  if (draw.chance(15)) out.returns = draw.below(4);
  return out;
}

// Acts of some actors, shuffled; some actors begin some acts late.
std::vector<SlotProblem::Act> order_of(const SlotProblem& p, const std::vector<int>& members, RandomSource& draw) {
  std::vector<int> row;
  for (int a : members) row.insert(row.end(), p.actors[a].acts, a);
  if (draw.chance(60)) std::shuffle(row.begin(), row.end(), draw.random);
  std::vector<long> next(p.actors.size(), 0);
  for (int a : members)
    if (draw.chance(25)) next[a] = draw.below(4) - 3;
  std::vector<SlotProblem::Act> order;
  for (int a : row) order.push_back({a, next[a]++});
  return order;
}

SlotProblem random_problem(int seed) {
  RandomSource draw{std::mt19937(static_cast<unsigned>(seed))};
  SlotProblem p;
  int actors = 2 + draw.below(4);
  bool rates = seed % 2 == 1;
  for (int a = 0; a < actors; ++a)
    p.actors.push_back(
        {static_cast<double>(a == 0 || !draw.chance(10) ? 1 + draw.below(9) : 0), rates ? 1 + draw.below(3) : 1});
  int registers = actors - 1 + draw.below(3);
  long vectors = 1;
  for (int r = 0; r < registers; ++r) {
    int to = r + 1 < actors ? r + 1 : draw.below(actors), at = draw.below(r + 1 < actors ? to : actors);
    int common = std::gcd(p.actors[at].acts, p.actors[to].acts);
    SlotProblem::Register reg;
    reg.producer = at;
    reg.bytes = draw.chance(10) ? 0 : 1 + draw.below(12);
    reg.period = p.actors[at].acts / common;
    reg.consumers.push_back(reader(to, p.actors[to].acts, common, draw));
    for (int c = 0; c < actors; ++c)
      if (c != to && c > at && draw.chance(15) && p.actors[c].acts % common == 0)
        reg.consumers.push_back(reader(c, p.actors[c].acts, common, draw));
    reg.filled = at >= to ? 1 + draw.below(3) : draw.chance(10) ? 1 : 0;
    reg.least = 1 + (draw.chance(10) ? 1 : 0);
    reg.most = std::max(reg.filled, reg.least) + draw.below(5);
    while (reg.most > std::max(reg.filled, reg.least) &&
           vectors * (reg.most - std::max(reg.filled, reg.least) + 1) > 150)
      --reg.most;
    vectors *= reg.most - std::max(reg.filled, reg.least) + 1;
    p.registers.push_back(std::move(reg));
  }
  if (draw.chance(35)) {
    std::vector<int> members(actors);
    std::iota(members.begin(), members.end(), 0);
    if (draw.chance(50)) std::shuffle(members.begin(), members.end(), draw.random);
    members.resize(2 + draw.below(actors - 1));
    if (draw.chance(70)) std::sort(members.begin(), members.end());
    p.streams.push_back({{}, order_of(p, members, draw)});
  }
  return p;
}

// Three registers in a row, and a slow path parallel to each two neighbours: slots can be added to either register, at
// different prices.
SlotProblem problem_with_a_choice(int seed) {
  RandomSource draw{std::mt19937(static_cast<unsigned>(seed))};
  const int rates[] = {1, 2, 3, 4, 6}, common = rates[draw.below(4)];
  SlotProblem p;
  for (int a = 0; a < 6; ++a) {
    int acts = seed % 2 == 0 ? common : rates[draw.below(5)];
    p.actors.push_back({static_cast<double>(a < 4 ? draw.below(4) : 2 + draw.below(12)), acts});
  }
  for (auto [from, to] : {std::pair(0, 1), {1, 2}, {2, 3}, {0, 4}, {4, 2}, {1, 5}, {5, 3}}) {
    bool in_a_row = p.registers.size() < 3;
    SlotProblem::Register reg;
    reg.producer = from;
    int pieces = std::gcd(p.actors[from].acts, p.actors[to].acts);
    reg.period = p.actors[from].acts / pieces;
    reg.consumers.push_back({to, p.actors[to].acts / pieces});
    reg.bytes = in_a_row ? 8 + draw.below(8) : 1;
    reg.least = in_a_row ? 1 : 3;
    reg.most = in_a_row ? 4 : 3;
    p.registers.push_back(std::move(reg));
  }
  if (seed % 3 > 0) {
    std::vector<int> members{0, 1, 2, 3};
    members.erase(members.begin() + draw.below(4));
    p.streams.push_back({{}, order_of(p, members, draw)});
  }
  return p;
}

struct SlotTrial {
  std::vector<int> slots;
  long bytes = 0;
  double interval = 0;
};

std::vector<SlotTrial> try_all(const SlotProblem& p) {
  std::vector<SlotTrial> all;
  std::vector<int> slots;
  for (const auto& reg : p.registers) slots.push_back(std::max(reg.least, reg.filled));
  for (;;) {
    SlotTrial trial{slots};
    for (std::size_t r = 0; r < slots.size(); ++r) trial.bytes += slots[r] * p.registers[r].bytes;
    trial.interval = TokenGame(p, slots).interval();
    all.push_back(std::move(trial));
    std::size_t r = 0;
    for (; r < slots.size() && slots[r] == p.registers[r].most; ++r)
      slots[r] = std::max(p.registers[r].least, p.registers[r].filled);
    if (r == slots.size()) return all;
    ++slots[r];
  }
}

// The least interval of at most `cap` bytes, and the least bytes of at most `interval`.
double best_interval(const std::vector<SlotTrial>& all, long cap) {
  double best = infinity;
  for (const auto& t : all)
    if (t.bytes <= cap) best = std::min(best, t.interval);
  return best;
}
long min_bytes(const std::vector<SlotTrial>& all, double interval) {
  long best = std::numeric_limits<long>::max();
  for (const auto& t : all)
    if (t.interval <= interval * (1 + 1e-9) && t.interval < infinity) best = std::min(best, t.bytes);
  return best;
}

void expect_plan(const SlotProblem& p, const std::vector<SlotTrial>& all, const SlotPlan& plan) {
  auto at = std::find_if(all.begin(), all.end(), [&](const auto& t) { return t.slots == plan.slots; });
  ASSERT_NE(at, all.end());
  ASSERT_EQ(at->bytes, plan.bytes);
  ASSERT_NEAR(at->interval, plan.interval, 1e-9);
  ASSERT_TRUE(plan.optimal) << plan.bytes << " bound " << plan.bound << " interval " << plan.interval << " least "
                            << plan.min_interval;
  ASSERT_EQ(plan.bound, plan.bytes);
  for (std::size_t r = 0; r < plan.slots.size(); ++r) {  // no slot can be removed, not even from registers of 0 bytes
    auto fewer = plan.slots;
    if (fewer[r]-- == std::max(p.registers[r].least, p.registers[r].filled)) continue;
    auto less = std::find_if(all.begin(), all.end(), [&](const auto& t) { return t.slots == fewer; });
    ASSERT_GT(less->interval, plan.interval);
  }
}

std::string failure_of(auto act) {
  try {
    act();
  } catch (const Error& error) { return cat(name_of(error.kind), ": ", error.what()); }
  return "";
}

TEST(Slots, PlansEqualTheBestOfAllSlotVectorsSimulatedTokenByToken) {
  int dead = 0, moving = 0, several = 0, rates = 0;
  std::vector<int> seeds(1000);
  std::iota(seeds.begin(), seeds.end(), 0);
  seeds.insert(seeds.end(),
               {1707, 2336});  // a slow cycle that passes a register twice; one through an order with several acts
  for (int seed : seeds) {
    SCOPED_TRACE(cat("seed ", seed));
    SlotProblem p = seed < 800 ? random_problem(seed) : problem_with_a_choice(seed);
    auto all = try_all(p);
    for (const auto& t : all) {
      SlotCycle cycle = interval_of(p, t.slots);
      ASSERT_EQ(cycle.is_deadlock(), t.interval == infinity) << print(cycle);
      if (!cycle.is_deadlock()) { ASSERT_NEAR(cycle.interval, t.interval, 1e-9) << print(cycle); }
    }
    if (all.back().interval == infinity) {
      EXPECT_NE(failure_of([&] {
                  cheapest_slots(p, 1000);
                }).find("hang: slots: the program is not live with the most slots: actor "),
                std::string::npos);
      ++dead;
      continue;
    }
    RandomSource draw{std::mt19937(static_cast<unsigned>(seed))};
    const auto& some = all[draw.below(static_cast<int>(all.size()))];
    for (double interval : {all.back().interval, some.interval, some.interval * 1.2, infinity}) {
      SlotPlan plan = cheapest_slots(p, interval);
      ASSERT_EQ(plan.bytes, min_bytes(all, interval));
      ASSERT_LE(plan.interval, interval * (1 + 1e-9));
      expect_plan(p, all, plan);
      if (HasFatalFailure()) return;
    }
    long live = min_bytes(all, infinity);
    for (long cap : {live, some.bytes, all.back().bytes}) {
      if (cap < live) continue;
      SlotPlan plan = best_slots(p, cap);
      double interval = best_interval(all, cap);
      ASSERT_NEAR(plan.interval, interval, 1e-7 * interval);
      ASSERT_NEAR(plan.min_interval, interval, 1e-7 * interval);
      ASSERT_EQ(plan.bytes, min_bytes(all, interval));
      expect_plan(p, all, plan);
      if (HasFatalFailure()) return;
    }
    ASSERT_EQ(failure_of([&] { best_slots(p, live - 1); }),
              cat("user: slots: the program is not live within ", live - 1, " bytes: it takes ", live));
    double fastest = best_interval(all, all.back().bytes);
    ASSERT_NE(failure_of([&] { cheapest_slots(p, fastest * 0.99); }).find("slots: no slots reach an interval of "),
              std::string::npos);
    ++moving;
    several += best_interval(all, live) > fastest;
    rates += std::any_of(p.actors.begin(), p.actors.end(), [](const auto& a) { return a.acts > 1; });
  }
  EXPECT_GT(dead, 30);
  EXPECT_GT(moving, 600);
  EXPECT_GT(several, 150);
  EXPECT_GT(rates, 150);
}

// With few steps, slots suffice, bounds are valid, and only optimal plans are called optimal. Sums of the results are
// pinned.
TEST(Slots, PlansOfFewStepsAreValidAndMeetThePinnedNumbers) {
  long bytes = 0, bounds = 0, best = 0;
  int proven = 0, fastest = 0;
  for (int seed = 0; seed < 240; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    const SlotProblem p = seed % 2 ? random_problem(seed / 2) : problem_with_a_choice(3 * seed);
    const auto all = try_all(p);
    if (all.back().interval == infinity) continue;
    const long live = min_bytes(all, infinity), middle = (live + all.back().bytes) / 2;
    for (std::int64_t steps : {0, 2, 5, 10, 20, 40}) {
      const double interval = all.back().interval;
      const SlotPlan plan = cheapest_slots(p, interval, {.steps = steps});
      ASSERT_LE(plan.interval, interval * (1 + 1e-9));
      ASSERT_GE(plan.bytes, min_bytes(all, interval));
      ASSERT_LE(plan.bound, min_bytes(all, interval));
      ASSERT_NEAR(plan.min_interval, interval, 1e-9 * interval);
      if (plan.optimal) { ASSERT_EQ(plan.bytes, plan.bound); }
      bytes += plan.bytes, bounds += plan.bound, proven += plan.optimal;
      if (steps == 0) continue;
      std::string failed;
      try {
        const SlotPlan under = best_slots(p, middle, {.steps = steps});
        const double least = best_interval(all, middle);
        ASSERT_LE(under.bytes, middle);
        ASSERT_NEAR(under.interval, interval_of(p, under.slots).interval, 1e-12);
        ASSERT_LE(under.min_interval, least * (1 + 1e-8));
        ASSERT_GE(under.min_interval, interval * (1 - 1e-8));
        ASSERT_GE(under.interval, least * (1 - 1e-8));
        if (under.optimal) {
          ASSERT_NEAR(under.interval, least, 1e-7 * least);
          ASSERT_EQ(under.bytes, min_bytes(all, under.interval));
        }
        best += under.bytes, fastest += under.optimal;
      } catch (const Error& error) { failed = error.what(); }
      if (steps >= 20) { ASSERT_EQ(failed, ""); }
    }
  }
  EXPECT_TRUE(pinned_at_most(bytes, 49'152));
  EXPECT_TRUE(pinned_at_least(bounds, 48'864));
  EXPECT_TRUE(pinned_at_least(proven, 1152));
  EXPECT_TRUE(pinned_at_most(best, 40'770));
  EXPECT_TRUE(pinned_at_least(fastest, 957));
}

// An interval of ten million and one seconds differs from one of ten million seconds.
TEST(Slots, IntervalsThatHardlyDifferAreDistinguished) {
  int near = 0;
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    SlotProblem p = problem_with_a_choice(2 * seed);
    for (auto& actor : p.actors) actor.seconds += 10'000'000, actor.acts = 1;
    for (auto& reg : p.registers) reg.period = reg.consumers[0].period = 1;
    p.streams.clear();
    std::vector<SlotTrial> all;
    for (int v = 0; v < 64; ++v) {
      SlotTrial trial{{1 + v % 4, 1 + v / 4 % 4, 1 + v / 16, 3, 3, 3, 3}};
      for (std::size_t r = 0; r < 7; ++r) trial.bytes += trial.slots[r] * p.registers[r].bytes;
      trial.interval = interval_of(p, trial.slots).interval;
      all.push_back(std::move(trial));
    }
    for (const SlotTrial& some : all) {
      if (some.slots[0] + some.slots[1] + some.slots[2] > 6) continue;
      const double least = best_interval(all, some.bytes);
      const SlotPlan plan = best_slots(p, some.bytes);
      ASSERT_NEAR(plan.interval, least, 1e-8 * least);
      near += std::any_of(all.begin(), all.end(), [&](const SlotTrial& t) {
        return t.interval != least && std::abs(t.interval - least) < 1e-6 * least;
      });
    }
  }
  EXPECT_GT(near, 50);
}

}  // namespace
}  // namespace karez::solve
