// What the planner pays for programs whose best layouts are known by name is the closed form of their communication
// (test_forms.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "karez/passes/test_forms.h"

namespace karez::passes {
namespace {

using testing::Form;
namespace forms = testing::forms;

Compilation planned(const Form& form) {
  Compilation c = testing::compilation(form.graph);
  c.options.costs = form.costs;
  run_passes(c, {"canonicalise", "shard"});
  return c;
}

Compilation expect_closed_form(const Form& form) {
  Compilation c = planned(form);
  EXPECT_TRUE(c.optimal) << form.name << ": " << c.shard_report;
  // Rewrites may share products, so that these are counted as planned.
  const double products = forms::flops_of(c.graph) / forms::rate / (form.name == "tiny" ? 1 : c.graph.meshes[0].size());
  const double paid = (c.cost - products) / form.byte;
  EXPECT_GE(paid, form.bytes * (1 - 1e-6) - 1e-3) << form.name << "\n" << print(c.graph);
  EXPECT_LE(paid, form.bytes * (1 + 1e-6) + form.few) << form.name << "\n" << print(c.graph);
  return c;
}

TEST(ShardForms, ManyTokensAndNarrowLayersAreDataParallel) { expect_closed_form(forms::data_parallel()); }
TEST(ShardForms, FewTokensAndWideLayersAlternateColumnsAndRows) { expect_closed_form(forms::columns_and_rows()); }
TEST(ShardForms, ABlockOfTwoLayersIsMegatrons) { expect_closed_form(forms::megatron_mlp()); }
TEST(ShardForms, AttentionIsSplitByHeadsAndItsMlpByColumnsAndRows) {
  expect_closed_form(forms::attention_and_mlp(false));
}

TEST(ShardForms, SequenceParallelismSendsAsManyBytes) {
  const Compilation whole = expect_closed_form(forms::attention_and_mlp(false)),
                    split = expect_closed_form(forms::attention_and_mlp(true));
  EXPECT_NEAR(split.cost, whole.cost, 64 * forms::beta);
}

TEST(ShardForms, AWideClassifierIsSplitByClassesAndANarrowOneByRows) {
  expect_closed_form(forms::wide_classifier());
  expect_closed_form(forms::narrow_classifier());
}

TEST(ShardForms, AnEmbeddingIsSplitByColumnsWhichTakesAnNthOfRows) {
  for (const bool by_rows : {false, true}) expect_closed_form(forms::embedding(by_rows));
}

TEST(ShardForms, TinyTensorsAreReplicated) {
  const Compilation c = expect_closed_form(forms::tiny());
  for (const Node& node : c.graph.nodes)
    if (node.op->name == "matmul") {
      EXPECT_EQ(*c.graph.value(node.outputs[0]).layout, broadcast_layout(c.graph.meshes[0]));
    }
}

TEST(ShardForms, BatchesAreSplitOnTheSlowAxisAndLayersOnTheFastOne) {
  for (const bool slow_first : {true, false}) {
    const Compilation c = expect_closed_form(forms::slow_and_fast(slow_first));
    for (const Node& node : c.graph.nodes) {
      if (node.op->name != "tanh") continue;
      EXPECT_EQ((*c.graph.value(node.outputs[0]).layout)[slow_first ? 0 : 1], S(0))
          << print(*c.graph.value(node.outputs[0]).layout);
    }
  }
}

// bench/plans holds them as text.
TEST(ShardForms, ReadBackFromTheirText) {
  for (const Form& form : forms::all()) {
    Form read = form;
    read.graph = parse_graph(print(form.graph), testing::table());
    EXPECT_EQ(print(read.graph), print(form.graph)) << form.name;
    EXPECT_EQ(planned(read).cost, planned(form).cost) << form.name;
  }
}

}  // namespace
}  // namespace karez::passes
