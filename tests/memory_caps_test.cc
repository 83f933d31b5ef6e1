// Tests of memory limits. The chosen plan stays below the limit, a smaller limit never gives a shorter predicted time,
// and training gives the same losses.
#include <gtest/gtest.h>

#include <cstdlib>

#include "bench/cap_sweep.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

using bench::CapCase;
using bench::CapResult;
using CapFunction = CapResult (*)(const CapCase&, std::int64_t);

// Reduces the limit from the memory of the unlimited plan in steps of `step` percent, until no plan fits or the limit
// is `min_percent` percent.
std::vector<CapResult> sweep(const CapCase& c, CapFunction run_under_cap, int step, int min_percent) {
  std::vector<CapResult> out = {run_under_cap(c, 0)};
  for (int percent = 100 - step; percent >= min_percent; percent -= step) {
    out.push_back(run_under_cap(c, out[0].planned * percent / 100));
    if (!out.back().error.empty()) break;
  }
  return out;
}

void expect_order(const std::vector<CapResult>& points) {
  for (std::size_t i = 1; i < points.size(); ++i) {
    const CapResult& point = points[i];
    if (!point.error.empty()) {
      EXPECT_NE(point.error.find("this is the smallest of "), std::string::npos) << point.error;
      continue;
    }
    EXPECT_LE(point.planned, point.cap);
    EXPECT_LE(point.measured, point.cap) << "the launch that initialises variables must not exceed the limit either";
    EXPECT_GE(point.predicted, points[i - 1].predicted);
    EXPECT_GE(point.predicted, point.predicted_uncapped * (1 - 1e-9))
        << "a plan with a limit must not be faster than the plan without a limit";
    EXPECT_LE(bench::max_relative_difference(points[0].losses, point.losses), 1e-10);
  }
}

CostTable expensive_messages() {
  CostTable costs;
  costs.link = {.alpha = 1e-4, .beta = 1e-12};
  return costs;
}

// With expensive messages all state is Broadcast; with less memory the optimiser's state is split, then the parameters.
TEST(MemoryCaps, StateIsSplitBeforeTheLimitIsTooSmall) {
  const auto points = sweep({"mlp", "data=4", expensive_messages(), true}, bench::mlp_under_cap, 6, 30);
  expect_order(points);
  EXPECT_EQ(points[0].state, 1);
  EXPECT_EQ(points[0].parameters, 1);
  double state = 1, parameters = 1;
  bool state_first = false;
  for (const CapResult& p : points) {
    if (!p.error.empty()) break;
    state = std::min(state, p.state), parameters = std::min(parameters, p.parameters);
    if (p.state < 0.9) { EXPECT_TRUE(p.reduce_scatters) << "gradients for split state must be reduce-scattered"; }
    state_first = state_first || p.state < 0.7 * p.parameters;
  }
  EXPECT_TRUE(state_first) << "under some limit, the optimiser's state must be split more than the parameters";
  EXPECT_LT(state, 0.3);
  EXPECT_LT(parameters, 0.3);
}

// Compares the chosen plan with ZeRO by layout rules: nothing split, the optimiser's state split, or parameters split
// too. With the same memory, the chosen plan is not slower.
TEST(MemoryCaps, ZeroByRulesIsNotFasterInTheSameMemory) {
  CostTable wire;
  wire.link = {.alpha = 2e-5, .beta = 1e-9};
  bool state_alone = false;
  for (const CostTable& costs : {CostTable(), wire, expensive_messages()})
    for (const std::int64_t batch : {64, 512})
      for (const auto& [parameters, state] : {std::pair(false, false), {false, true}, {true, true}}) {
        CapCase c{"mlp", "data=4", costs, true, 1, batch, bench::zero_rules(parameters, state)};
        const CapResult by_rules = bench::mlp_under_cap(c, 0);
        EXPECT_NEAR(by_rules.state, state ? 0.25 : 1, 0.01);
        c.rules.clear();
        const CapResult chosen = bench::mlp_under_cap(c, by_rules.planned);
        ASSERT_EQ(chosen.error, "") << batch << " rows, " << by_rules.planned << " bytes";
        EXPECT_LE(chosen.planned, by_rules.planned);
        EXPECT_LE(chosen.seconds, by_rules.seconds * (1 + 1e-9)) << batch << " rows, " << by_rules.planned << " bytes";
        state_alone = state_alone || (chosen.state < 0.3 && chosen.parameters > 0.9 && chosen.reduce_scatters);
      }
  EXPECT_TRUE(state_alone) << "some plan must split the state but not the parameters";
}

// With less memory a transformer's parameters are gathered late, and then its blocks are recomputed.
TEST(MemoryCaps, BlocksOfATransformerAreRecomputedUnderALimit) {
  const auto points = sweep({"gpt", "data=4"}, bench::gpt_under_cap, std::getenv("KAREZ_ALL") != nullptr ? 10 : 20, 80);
  expect_order(points);
  EXPECT_TRUE(std::any_of(points.begin(), points.end(), [](const CapResult& p) { return !p.recomputed.empty(); }));
}

TEST(MemoryCaps, PlansStayBelowTheLimitOnTwoAxes) {
  const bool run_all = std::getenv("KAREZ_ALL") != nullptr;
  expect_order(sweep({"mlp", "data=2,model=2", expensive_messages(), true}, bench::mlp_under_cap, 20, 30));
  if (run_all) expect_order(sweep({"gpt", "data=2,model=2"}, bench::gpt_under_cap, 10, 30));
}

}  // namespace
}  // namespace karez::tests
