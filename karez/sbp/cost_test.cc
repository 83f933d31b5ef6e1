// Tests of the cost table: predicted times, lookup and text.
#include "karez/sbp/cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::sbp {
namespace {

CostTable table() {
  CostTable out;
  out.link = {1e-6, 2e-10};
  out.axis_links = {{"model", {3e-7, 1e-11}}};
  out.matmul_flops = 1e11;
  out.conv_flops = 5e10;
  out.memory_bytes = 1e10;
  out.call = 1e-6;
  return out;
}

TEST(CostTable, AnAxisUsesItsOwnLinkOrTheDefaultLink) {
  CostTable costs = table();
  EXPECT_EQ(costs.of_axis("model").alpha, 3e-7);
  EXPECT_EQ(costs.of_axis("data").alpha, 1e-6);
}

TEST(CostTable, ACallTakesTheMaximumOfComputeAndMemoryTimePlusItsOverhead) {
  CostTable costs = table();
  EXPECT_DOUBLE_EQ(costs.seconds({WorkClass::matmul, 1e9, 1e6}), 1e-2 + 1e-6);
  EXPECT_DOUBLE_EQ(costs.seconds({WorkClass::matmul, 1e3, 1e9}), 1e-1 + 1e-6);
  EXPECT_DOUBLE_EQ(costs.seconds({WorkClass::conv, 1e9, 1e6}), 2e-2 + 1e-6);
  EXPECT_DOUBLE_EQ(costs.seconds({WorkClass::memory, 1e12, 1e6}), 1e-4 + 1e-6);  // arithmetic is free
  EXPECT_EQ(costs.seconds({WorkClass::none, 1e12, 1e12}), 0);
}

TEST(CostTable, TextRoundTrips) {
  CostTable costs = table();
  costs.matmul_flops = 1.0 / 3.0;
  EXPECT_EQ(CostTable::parse(costs.print()), costs);
  EXPECT_EQ(CostTable::parse(""), CostTable{});
  EXPECT_EQ(CostTable::parse("memory_bytes=5 # measured\n").memory_bytes, 5);
}

TEST(CostTable, BadTextIsRejected) {
  for (auto text : {"matmul_flop=1", "matmul_flops=0.0", "matmul_flops=-1", "link alpha=1", "link alpha=-1 beta=0",
                    "call=inf", "call=nan", "link @model alpha=0 beta=0 link @model alpha=0 beta=0", "memory_bytes"})
    EXPECT_THROW(CostTable::parse(text), Error) << text;
}

// Tables that a program fills in are checked like parsed ones.
TEST(CostTable, InvalidFieldsAreRejectedByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto error_text = [](const CostTable& costs) -> std::string {
    try {
      costs.check();
      return "";
    } catch (const Error& error) { return error.what(); }
  };
  EXPECT_EQ(error_text({}), "");
  EXPECT_EQ(error_text({.link = {.alpha = nan}, .axis_links = {}}),
            "costs: alpha is nan; it must be a finite number, at least 0.0");
  EXPECT_EQ(error_text({.link = {}, .axis_links = {{"data", {}}, {"model", {.beta = -1}}}}),
            "costs: beta of @model is -1.0; it must be a finite number, at least 0.0");
  EXPECT_EQ(error_text({.link = {}, .axis_links = {{"data", {}}, {"data", {}}}}),
            "costs: the link of axis data appears twice");
  EXPECT_EQ(error_text({.link = {}, .axis_links = {}, .conv_flops = 0}),
            "costs: conv_flops is 0.0; it must be a finite number, at least 1e-300");
  EXPECT_EQ(error_text({.link = {}, .axis_links = {}, .call = -1e-6}),
            "costs: call is -1e-06; it must be a finite number, at least 0.0");
  EXPECT_EQ(error_text({.link = {}, .axis_links = {}, .call = 0}), "");
}

TEST(CostTable, NumbersThatWereNeitherMeasuredNorSuppliedAreDefaults) {
  CostTable costs;
  EXPECT_TRUE(costs.is_default());
  EXPECT_EQ(origin_text(costs),
            "defaults, not measured on any processor; `karez doctor --kernels --save` measures this one");
  EXPECT_EQ(default_costs_warning(costs),
            " with default costs (`karez doctor --kernels --save` measures this machine)");
  EXPECT_TRUE(costs.with_isa("avx2").with_threads(4, 2).is_default());
  costs.origin = cat(default_origin, "; of some machine");
  EXPECT_TRUE(costs.is_default());
  EXPECT_EQ(origin_text(costs), costs.origin);
  for (CostTable supplied : {CostTable::parse("call=2e-6"), CostTable::parse("link @shm alpha=1 beta=1"),
                             CostTable::parse("origin \"mine\""), CostTable::parse("rate functions=1e9"),
                             CostTable::parse(cat("origin \"", default_origin, "\" call=2e-6"))}) {
    EXPECT_FALSE(supplied.is_default()) << supplied.print();
    EXPECT_EQ(default_costs_warning(supplied), "");
  }
  EXPECT_EQ(origin_text(CostTable::parse("call=2e-6")), "from a table without an origin");
}

constexpr std::size_t square = 3, pointwise_l1 = 13, pointwise_l2 = 14;

CostTable measured() {
  CostTable out = table();
  out.rates[square] = 2e11;
  out.rates[pointwise_l1] = 5e10;
  out.rates[functions_rate] = 1e9;
  return out;
}

TEST(CostTable, TheRateOfTheClassIsUsedIfKnownAndOtherwiseTheCoarseRate) {
  const CostTable costs = measured();
  EXPECT_DOUBLE_EQ(costs.seconds({WorkClass::matmul, 2e9, 1e4, 64}), 1e-2 + 1e-6);
  EXPECT_DOUBLE_EQ(costs.seconds({WorkClass::matmul, 2e9, 1e4, 8}), 2e-2 + 1e-6)
      << "the rate of thin products is unknown";
  EXPECT_DOUBLE_EQ(costs.seconds({WorkClass::conv, 5e8, 1e4, 64}), 1e-2 + 1e-6);
  EXPECT_DOUBLE_EQ(costs.seconds({WorkClass::memory, 0, 2e4}), 4e-7 + 1e-6);
  EXPECT_DOUBLE_EQ(costs.seconds({WorkClass::memory, 0, 2e5}), 2e-5 + 1e-6) << "the rate of the L2 cache is unknown";
  EXPECT_DOUBLE_EQ(costs.seconds({WorkClass::memory, 1e6, 2e4}), 1e-3 + 1e-6) << "a million evaluations of e^x";
  EXPECT_DOUBLE_EQ(costs.seconds({WorkClass::matmul, 1, 2e4, 64}), 4e-7 + 1e-6)
      << "the bytes of a product take as long as those of a pointwise call";
}

TEST(CostTable, RateSetsAreChosenByInstructionSetAndThreads) {
  CostTable costs = table();
  costs.sets = {{"avx2", 1, {}}, {"avx512", 1, {}}, {"avx512", 4, {}}};
  for (std::size_t i = 0; i < 3; ++i)
    costs.sets[i].rates[square] = 1e11 * static_cast<double>(i + 1), costs.sets[i].rates[pointwise_l2] = 1e10;
  const CostTable with_avx512 = costs.with_isa("avx512");
  ASSERT_EQ(with_avx512.sets.size(), 2u);
  EXPECT_EQ(with_avx512.with_threads(1, 1).rates[square], 2e11);
  EXPECT_EQ(with_avx512.with_threads(4, 1).rates[square], 3e11);
  EXPECT_EQ(with_avx512.with_threads(64, 1).rates[square], 3e11)
      << "rates are not extrapolated beyond the measured teams";
  EXPECT_NEAR(with_avx512.with_threads(2, 1).rates[square], std::sqrt(6.0) * 1e11, 1)
      << "doubling the threads gives the geometric mean";
  EXPECT_NEAR(with_avx512.with_threads(2, 1).rates[pointwise_l2], 1e10, 1);
  EXPECT_TRUE(with_avx512.with_threads(2, 1).sets.empty());
  EXPECT_EQ(with_avx512.with_threads(1, 1).rates[0], 0) << "this rate is unknown";
  EXPECT_EQ(costs.with_isa("avx2").with_threads(4, 1).rates[square], 1e11);
  CostTable three_teams = with_avx512;
  three_teams.sets.push_back({"avx512", 16, {}});
  three_teams.sets.back().rates[square] = 9e11;
  EXPECT_NEAR(three_teams.with_threads(2, 1).rates[square], std::sqrt(6.0) * 1e11, 1)
      << "rates are interpolated between the nearest teams";
  EXPECT_NEAR(three_teams.with_threads(8, 1).rates[square], std::sqrt(27.0) * 1e11, 1);
  three_teams.sets[0].rates[square] = 0;
  EXPECT_EQ(three_teams.with_threads(2, 1).rates[square], 3e11) << "only the larger team's rate is known";
  three_teams.sets[0].rates[square] = 2e11, three_teams.sets[1].rates[square] = 0;
  EXPECT_EQ(three_teams.with_threads(2, 1).rates[square], 2e11) << "only the smaller team's rate is known";
  EXPECT_EQ(costs.with_isa("neon").with_threads(1, 1), table()) << "the table must have only coarse rates";
  EXPECT_EQ(table().with_threads(3, 1), table());
}

// One thread does 1 operation per ns, a team of two 2, and starting the team takes 2 us. For pointwise work the team is
// no faster.
CostTable with_team_costs() {
  CostTable out = table();
  out.team_call = 2e-6;
  out.sets = {{"avx512", 1, {}}, {"avx512", 2, {}}};
  for (RateSet& set : out.sets) set.rates[square] = set.team * 1e9, set.rates[pointwise_l1] = 1e9;
  return out;
}

TEST(CostTable, ATeamIsFasterIfItsRateMakesUpForItsStart) {
  const CostTable costs = with_team_costs().with_threads(2, 1);
  const auto product = [](double flops) { return Work{WorkClass::matmul, flops, 1, 64}; };
  EXPECT_EQ(costs.team_is_faster(product(3e6)), true);
  EXPECT_DOUBLE_EQ(costs.seconds(product(3e6)), 1.5e-3 + 2e-6 + 1e-6);
  const Work small{WorkClass::matmul, 3e3, 1, 64};
  EXPECT_EQ(costs.team_is_faster(small), std::nullopt) << "the rate of small products is unknown";
  EXPECT_EQ(costs.team_is_faster(product(1.1e6)), true);
  CostTable slow_start = with_team_costs();
  slow_start.team_call = 1e-3;
  EXPECT_EQ(slow_start.with_threads(2, 1).team_is_faster(product(1.1e6)), false) << "0.55 ms and 1 ms against 1.1 ms";
  const Work short_call{WorkClass::memory, 0, 3e3};
  EXPECT_EQ(costs.team_is_faster(short_call), false);
  EXPECT_DOUBLE_EQ(costs.seconds(short_call), 3e-6 + 1e-6);
  EXPECT_EQ(costs.team_is_faster({WorkClass::none, 1, 1}), std::nullopt);
  EXPECT_EQ(costs.seconds({WorkClass::none, 1, 1}), 0);
  const CostTable shared = with_team_costs().with_threads(2, 3);
  EXPECT_DOUBLE_EQ(shared.seconds(product(3e6)), 3 * costs.seconds(product(3e6)));
  EXPECT_DOUBLE_EQ(shared.seconds(short_call), 3 * costs.seconds(short_call));
}

TEST(CostTable, TheThreadsOfACallAreOnlyComparedIfTheStartOfATeamWasMeasured) {
  const Work product{WorkClass::matmul, 3e6, 1, 64};
  CostTable costs = with_team_costs();
  EXPECT_EQ(costs.team_is_faster(product), std::nullopt) << "the number of threads is not known yet";
  EXPECT_EQ(costs.with_threads(1, 1).team_is_faster(product), std::nullopt);
  EXPECT_EQ(costs.with_isa("avx2").with_threads(2, 1).team_is_faster(product), std::nullopt);
  costs.team_call = 0;
  EXPECT_EQ(costs.with_threads(2, 1).team_is_faster(product), std::nullopt);
  EXPECT_EQ(CostTable().with_threads(2, 1).team_is_faster(product), std::nullopt);
}

TEST(CostTable, TeamCostsRoundTripAndAreOnlyPrintedIfTheyAreKnown) {
  for (const CostTable& costs : {with_team_costs(), with_team_costs().with_threads(2, 1)})
    EXPECT_EQ(CostTable::parse(costs.print()), costs) << costs.print();
  EXPECT_EQ(with_team_costs().with_threads(2, 1).with_threads(2, 1), with_team_costs().with_threads(2, 1));
  EXPECT_EQ(CostTable().print().find("team_call"), std::string::npos);
  EXPECT_THROW(CostTable::parse("team_call=-1"), Error);
  EXPECT_THROW(CostTable::parse("rate one_thread matmul.square=-1"), Error);
  EXPECT_THROW(CostTable::parse("rate one_thread matmul.square=1\nrate one_thread matmul.square=1"), Error);
}

TEST(CostTable, DevicesThatShareAWorkerSlowDownCallsAndLinksOfTheirProcess) {
  CostTable costs = measured();
  costs.axis_links.emplace_back("local", LinkCost{1e-6, 1e-10});
  const CostTable three_devices = costs.with_threads(1, 3);
  for (const Work& work :
       {Work{WorkClass::matmul, 2e9, 1e4, 64}, Work{WorkClass::conv, 1e9, 1e4, 1}, Work{WorkClass::memory, 0, 2e4},
        Work{WorkClass::memory, 1e6, 2e4}, Work{WorkClass::reduce, 0, 1e9}})
    EXPECT_DOUBLE_EQ(three_devices.seconds(work), 3 * costs.seconds(work));
  EXPECT_EQ(three_devices.of_axis("local"), (LinkCost{1e-6, 3 * 1e-10}))
      << "a device that waits for a message leaves the worker to others";
  EXPECT_EQ(three_devices.of_axis("model"), costs.of_axis("model")) << "a network link is not slowed down";
  EXPECT_EQ(three_devices.link, costs.link);
  EXPECT_DOUBLE_EQ(three_devices.memory_bytes, costs.memory_bytes / 3);
  EXPECT_EQ(table().with_threads(1, 3), table()) << "coarse rates do not depend on devices per worker";
}

TEST(CostTable, RatesSetsAndOriginRoundTrip) {
  CostTable costs = measured();
  costs.origin = "measured on \"this\", 2026-11-23";
  costs.sets = {{"avx512", 1, {}}, {"avx512", 2, {}}, {"avx2", 1, {}}};
  for (std::size_t i = 0; i < rate_count; ++i)
    for (RateSet& set : costs.sets) set.rates[i] = 1e9 / static_cast<double>(i + 3) * set.team;
  EXPECT_EQ(CostTable::parse(costs.print()), costs);
  EXPECT_EQ(CostTable::parse("rate avx512 team 2 matmul.square=1e11\nrate matmul.thin=2").sets[0].rates[square], 1e11);
  EXPECT_NE(costs.print(), measured().print()) << "the text is part of the program hash";
}

TEST(CostTable, BadRatesAreRejected) {
  for (auto text : {"rate matmul.cube=1", "rate matmul.square=0", "rate matmul.square=-1", "rate matmul.square=inf",
                    "rate avx2 team 0 matmul.thin=1", "rate avx2 team 1025 matmul.thin=1",
                    "rate avx2 team 4294967297 matmul.thin=1", "rate matmul.thin=1 rate matmul.thin=1",
                    "rate avx2 team 1", "origin here", "rate a team 1 matmul.thin=1 rate a team 1 matmul.thin=2"})
    EXPECT_THROW(CostTable::parse(text), Error) << text;
  CostTable bad_sets = table();
  bad_sets.sets = {{"avx2", 1, {}}, {"avx2", 1, {}}};
  EXPECT_THROW(bad_sets.check(), Error);
  for (int team : {0, 1025}) {
    bad_sets.sets = {{"avx2", team, {}}};
    EXPECT_THROW(bad_sets.check(), Error);
  }
  bad_sets.sets = {{"avx2", 1, {}}};
  bad_sets.check();
  bad_sets.sets[0].rates[2] = -1;
  EXPECT_THROW(bad_sets.check(), Error);
  CostTable bad_rates = table();
  bad_rates.rates[2] = -1;
  EXPECT_THROW(bad_rates.check(), Error);
}

}  // namespace
}  // namespace karez::sbp
