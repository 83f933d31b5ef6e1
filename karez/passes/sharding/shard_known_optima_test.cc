// Tests of programs whose optimal layouts are well known: the planner's cost must equal the closed form of their
// communication (test_known_optima.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "karez/passes/sharding/test_known_optima.h"

namespace karez::passes {
namespace {

using testing::KnownOptimum;
namespace known_optima = testing::known_optima;

Compilation plan(const KnownOptimum& optimum) {
  Compilation c = testing::compilation(optimum.graph);
  c.options.costs = optimum.costs;
  run_passes(c, {"canonicalise", "shard"});
  return c;
}

Compilation expect_closed_form(const KnownOptimum& optimum) {
  Compilation c = plan(optimum);
  EXPECT_TRUE(c.optimal) << optimum.name << ": " << c.shard_report;
  // Rewrites may merge products, so the products of the planned graph are counted.
  const double products =
      known_optima::flops_of(c.graph) / known_optima::rate / (optimum.name == "tiny" ? 1 : c.graph.meshes[0].size());
  const double sent_bytes = (c.cost - products) / optimum.byte;
  EXPECT_GE(sent_bytes, optimum.bytes * (1 - 1e-6) - 1e-3) << optimum.name << "\n" << print(c.graph);
  EXPECT_LE(sent_bytes, optimum.bytes * (1 + 1e-6) + optimum.tolerated_bytes) << optimum.name << "\n" << print(c.graph);
  return c;
}

TEST(ShardKnownOptima, ManyTokensAndNarrowLayersAreDataParallel) { expect_closed_form(known_optima::data_parallel()); }
TEST(ShardKnownOptima, FewTokensAndWideLayersAlternateColumnsAndRows) {
  expect_closed_form(known_optima::columns_and_rows());
}
TEST(ShardKnownOptima, ABlockOfTwoLayersIsSplitAsInMegatron) { expect_closed_form(known_optima::megatron_mlp()); }
TEST(ShardKnownOptima, AttentionIsSplitByHeadsAndItsMlpByColumnsAndRows) {
  expect_closed_form(known_optima::attention_and_mlp(false));
}

TEST(ShardKnownOptima, SequenceParallelismSendsTheSameBytes) {
  const Compilation replicated = expect_closed_form(known_optima::attention_and_mlp(false)),
                    split = expect_closed_form(known_optima::attention_and_mlp(true));
  EXPECT_NEAR(split.cost, replicated.cost, 64 * known_optima::beta);
}

TEST(ShardKnownOptima, AWideClassifierIsSplitByClassesAndANarrowOneByRows) {
  expect_closed_form(known_optima::wide_classifier());
  expect_closed_form(known_optima::narrow_classifier());
}

TEST(ShardKnownOptima, AnEmbeddingSplitByColumnsSendsAnNthOfTheBytesOfOneSplitByRows) {
  for (const bool by_rows : {false, true}) expect_closed_form(known_optima::embedding(by_rows));
}

TEST(ShardKnownOptima, TinyTensorsAreReplicated) {
  const Compilation c = expect_closed_form(known_optima::tiny());
  for (const Node& node : c.graph.nodes)
    if (node.op->name == "matmul") {
      EXPECT_EQ(*c.graph.value(node.outputs[0]).layout, broadcast_layout(c.graph.meshes[0]));
    }
}

TEST(ShardKnownOptima, BatchesAreSplitOnTheSlowAxisAndLayersOnTheFastOne) {
  for (const bool slow_first : {true, false}) {
    const Compilation c = expect_closed_form(known_optima::slow_and_fast(slow_first));
    for (const Node& node : c.graph.nodes) {
      if (node.op->name != "tanh") continue;
      EXPECT_EQ((*c.graph.value(node.outputs[0]).layout)[slow_first ? 0 : 1], S(0))
          << print(*c.graph.value(node.outputs[0]).layout);
    }
  }
}

// bench/plans has these programs as text.
TEST(ShardKnownOptima, CostsAreEqualAfterPrintAndParse) {
  for (const KnownOptimum& optimum : known_optima::all()) {
    KnownOptimum parsed = optimum;
    parsed.graph = parse_graph(print(optimum.graph), testing::table());
    EXPECT_EQ(print(parsed.graph), print(optimum.graph)) << optimum.name;
    EXPECT_EQ(plan(parsed).cost, plan(optimum).cost) << optimum.name;
  }
}

}  // namespace
}  // namespace karez::passes
