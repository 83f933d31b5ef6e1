// Tests of the prices of values that fuse, and of the layouts that follow from them.
#include "karez/passes/sharding/value_price.h"

#include <gtest/gtest.h>

#include <numeric>

#include "karez/passes/sharding/explain.h"
#include "karez/passes/sharding/test_shard.h"

namespace karez::passes {
namespace {

using Program = testing::ShardProgram;

Compilation planned(const Program& p, const CostTable& costs, bool fuses = true) {
  Compilation c = testing::compilation(p.graph);
  c.options.costs = costs;
  if (!fuses) c.options.off = {"fuse"};
  run_passes(c, {"shard"});
  return c;
}

// A chain of `length` calls on a matrix of rows that repeat one number. Its operand is split by rows, its result is
// needed on every device: either the numbers are gathered and each device computes the matrix, or the matrix is.
struct Chain {
  Program p;
  ValueId inside, last;
  Chain(const char* mesh, std::int64_t rows, int length) : p(mesh) {
    const ValueId x = p.input("x", {rows}), w = p.input("w", {rows, 1024});
    p.fix(x, {S(0)});
    p.fix(w, {B()});
    inside = last = build::add(p.b, build::broadcast(p.b, x, {rows, 1024}, {0}), w);
    for (int i = 1; i < length; ++i) last = build::tanh(p.b, last);
    p.graph.outputs.push_back({"y", last});
  }
};

TEST(ValuePrice, AChainIsGatheredWhereItIsSmallBecauseValuesInsideAreFree) {
  CostTable costs;
  costs.link = {.alpha = 1e-9, .beta = 5e-10};
  costs.call = 1e-9;
  for (const auto& [mesh, rows] : {std::pair("d=2", 8), std::pair("d=3", 7)}) {
    const Chain chain(mesh, rows, 5);
    const Compilation fused = planned(chain.p, costs), separate = planned(chain.p, costs, false);
    EXPECT_TRUE(fused.optimal && separate.optimal);
    EXPECT_EQ(print(*fused.graph.value(chain.inside).layout), "(B)") << mesh;
    EXPECT_EQ(print(*fused.graph.value(chain.last).layout), "(B)") << mesh;
    EXPECT_TRUE((*separate.graph.value(chain.inside).layout)[0].is_split()) << mesh;
    EXPECT_TRUE((*separate.graph.value(chain.last).layout)[0].is_split()) << mesh;
    EXPECT_LT(fused.cost, separate.cost);
  }
}

TEST(ValuePrice, TheCostOfAChainIsThatOfItsOperandsAndItsResult) {
  CostTable costs;
  costs.memory_bytes = 1e9, costs.call = 1e-5;
  for (const int length : {1, 2, 5}) {
    Chain chain("d=1", 8, length);
    const double bytes = 8 * 1024 * 4;
    EXPECT_NEAR(planned(chain.p, costs).cost, 3 * bytes / 1e9 + 1e-5, 1e-12) << length;
    EXPECT_NEAR(planned(chain.p, costs, false).cost, (1 + 2 * length) * bytes / 1e9 + length * 1e-5, 1e-12) << length;
  }
}

// The parts of the cost add up to it, in `shard` and in the report on other layouts.
TEST(ValuePrice, AValueThatATransitionSeparatesFromItsConsumerIsStored) {
  CostTable costs;
  costs.memory_bytes = 1e9, costs.call = 1e-5;
  Program p("d=2");
  const ValueId x = p.input("x", {8, 1024});
  p.fix(x, {S(0)});
  const ValueId first = build::tanh(p.b, x), second = build::exp(p.b, first);
  p.fix(second, {S(1)});
  p.graph.outputs.push_back({"y", second, Layout{S(1)}});
  const double part = 4 * 1024 * 4;
  const Compilation c = planned(p, costs);
  const FusedValues fused = fused_values(p.graph, testing::catalog());
  for (const char* at : {"(S(0))", "(S(1))"}) {  // the transition is after or before the first call
    Program fixed("d=2");
    fixed.graph = p.graph;
    fixed.fix(first, at == std::string("(S(0))") ? Layout{S(0)} : Layout{S(1)});
    const Compilation one = planned(fixed, costs);
    const double move =
        seconds({DType::f32, {8, 1024}}, one.graph.meshes[0], {0, Move::all_to_all, {S(0)}, {S(1)}}, costs);
    const bool is_stored = at == std::string("(S(0))");
    EXPECT_NEAR(one.cost, move + (is_stored ? 4 : 2) * part / 1e9 + (is_stored ? 2 : 1) * 1e-5, 1e-12) << at;
    const CostBreakdown parts = cost_breakdown(one.graph, one.operand_layouts, costs, fused);
    EXPECT_NEAR(std::accumulate(parts.calls.begin(), parts.calls.end(), 0.0) +
                    std::accumulate(parts.moves.begin(), parts.moves.end(), 0.0),
                one.cost, 1e-12);
  }
  EXPECT_EQ(print(*c.graph.value(first).layout), "(S(1))") << "the transition comes first";
}

TEST(ValuePrice, ReportsOnOtherLayoutsUseTheSamePrices) {
  CostTable costs;
  costs.link = {.alpha = 1e-9, .beta = 5e-10};
  costs.call = 1e-9;
  const Chain chain("d=2", 8, 5);
  Compilation c = testing::compilation(chain.p.graph);
  c.options.costs = costs;
  const LayoutExplanation report = explain_layout(c, "y");
  EXPECT_NEAR(report.alternatives[0].seconds, planned(chain.p, costs).cost, 1e-12);
  for (const LayoutAlternative& alternative : report.alternatives)
    EXPECT_GE(alternative.seconds, report.alternatives[0].seconds * (1 - 1e-12));
}

TEST(ValuePrice, MorePreciseValuesDoNotFuseAndAreChargedAsSeparateCalls) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Program p("d=2");
    const ValueId x = build::input(p.b, "x", {dtype, {8, 1024}});
    p.graph.outputs.push_back({"y", build::exp(p.b, build::tanh(p.b, x))});
    const double fused = planned(p, {}).cost, separate = planned(p, {}, false).cost;
    if (dtype == DType::f32) EXPECT_LT(fused, separate);
    else EXPECT_EQ(fused, separate);
  }
}

}  // namespace
}  // namespace karez::passes
