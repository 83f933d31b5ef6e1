// The cost table: prices, lookup and text.
#include "sbp/cost.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

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

TEST(CostTable, AnAxisHasItsOwnLinkOrTheCommonOne) {
  CostTable costs = table();
  EXPECT_EQ(costs.of_axis("model").alpha, 3e-7);
  EXPECT_EQ(costs.of_axis("data").alpha, 1e-6);
}

TEST(CostTable, ACallCostsTheLargerOfWorkAndMemoryAndItsOverhead) {
  CostTable costs = table();
  EXPECT_DOUBLE_EQ(costs.seconds(WorkClass::matmul, 1e9, 1e6), 1e-2 + 1e-6);
  EXPECT_DOUBLE_EQ(costs.seconds(WorkClass::matmul, 1e3, 1e9), 1e-1 + 1e-6);
  EXPECT_DOUBLE_EQ(costs.seconds(WorkClass::conv, 1e9, 1e6), 2e-2 + 1e-6);
  EXPECT_DOUBLE_EQ(costs.seconds(WorkClass::memory, 1e12, 1e6), 1e-4 + 1e-6);  // its arithmetic is free
  EXPECT_EQ(costs.seconds(WorkClass::none, 1e12, 1e12), 0);
}

TEST(CostTable, ItsTextReadsBack) {
  CostTable costs = table();
  costs.matmul_flops = 1.0 / 3.0;
  EXPECT_EQ(CostTable::parse(costs.print()), costs);
  EXPECT_EQ(CostTable::parse(""), CostTable{});
  EXPECT_EQ(CostTable::parse("memory_bytes=5 # measured\n").memory_bytes, 5);
}

TEST(CostTable, BadTextIsRefused) {
  for (auto text : {"matmul_flop=1", "matmul_flops=0.0", "matmul_flops=-1", "link alpha=1", "link alpha=-1 beta=0", "call=inf", "call=nan",
                    "link @model alpha=0 beta=0 link @model alpha=0 beta=0", "memory_bytes"})
    EXPECT_THROW(CostTable::parse(text), Error) << text;
}

// Tables that a program fills in are held to the same.
TEST(CostTable, FieldsThatPriceNothingAreRefusedByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto fault = [](const CostTable& costs) -> std::string {
    try {
      costs.check();
      return "";
    } catch (const Error& error) { return error.what(); }
  };
  EXPECT_EQ(fault({}), "");
  EXPECT_EQ(fault({.link = {.alpha = nan}, .axis_links = {}}), "costs: alpha is nan; it must be a finite number, at least 0.0");
  EXPECT_EQ(fault({.link = {}, .axis_links = {{"data", {}}, {"model", {.beta = -1}}}}),
            "costs: beta of @model is -1.0; it must be a finite number, at least 0.0");
  EXPECT_EQ(fault({.link = {}, .axis_links = {{"data", {}}, {"data", {}}}}), "costs: the link of axis data appears twice");
  EXPECT_EQ(fault({.link = {}, .axis_links = {}, .conv_flops = 0}), "costs: conv_flops is 0.0; it must be a finite number, at least 1e-300");
  EXPECT_EQ(fault({.link = {}, .axis_links = {}, .call = -1e-6}), "costs: call is -1e-06; it must be a finite number, at least 0.0");
  EXPECT_EQ(fault({.link = {}, .axis_links = {}, .call = 0}), "");
}

}  // namespace
}  // namespace karez::sbp
