// Tests of the rules that decide which sums a product may pass.
#include "karez/passes/sharding/sum_rules.h"

#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <vector>

#include "karez/ops/build.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;
constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

// True if the op may combine gathered rows of a split table with these numbers before the rows are reduced.
template <class T> bool may_pass(const char* op, const std::vector<T>& numbers) {
  const DType dtype = sizeof(T) == 4 ? DType::f32 : DType::f64;
  const Shape shape = {static_cast<std::int64_t>(numbers.size())};
  Graph graph;
  graph.meshes = {Mesh::parse("a=2")};
  Builder b(graph, table());
  const ValueId rows =
      build::gather(b, build::input(b, "t", {dtype, {4, shape[0]}}), build::input(b, "i", {DType::i64, {}}));
  const ValueId factor = build::constant(b, {dtype, shape}, std::as_bytes(std::span(numbers)));
  const NodeId product = graph.value(build::binary(b, op, rows, factor)).producer;
  const Layout ins[] = {{P()}, {B()}}, outs[] = {{P()}};
  return SumRules(graph).in(product, ins, outs).has_value();
}

TEST(SumRules, MaskedSumsMayMeetOnlyNumbersThatAreKnownToBeFinite) {
  EXPECT_TRUE(may_pass<double>("mul", {1, 0, -3.5}));
  EXPECT_TRUE(may_pass<float>("mul", {1, 0, -3.5f}));
  for (const double number : {inf, -inf, nan}) {
    EXPECT_FALSE(may_pass<double>("mul", {1, 2, number})) << number;
    EXPECT_FALSE(may_pass<float>("mul", {static_cast<float>(number), 1, 2})) << number;
    EXPECT_FALSE(may_pass<double>("div", {number, 1})) << number;
  }
  EXPECT_TRUE(may_pass<double>("div", {2, -0.5}));
  EXPECT_FALSE(may_pass<double>("div", {2, 0})) << "0 / 0 is NaN";
  EXPECT_FALSE(may_pass<float>("div", {-0.0f, 2})) << "0 / 0 is NaN";
}

}  // namespace
}  // namespace karez::passes
