// Tests of the rules of vmap: which ops have one, and the nodes that they add.
#include "karez/ops/vmap.h"

#include <gmock/gmock.h>

#include <set>

#include "karez/base/test_error.h"
#include "karez/ops/build.h"
#include "karez/ops/test_node.h"
#include "karez/ops/vmap_rules.h"

namespace karez::ops {
namespace {

// The graph of one node as a body, mapped over a batch of 5; `is_mapped` has a letter m for each mapped operand.
std::string mapped_text(std::string_view op, std::string_view types, std::string_view attrs,
                        const std::string& is_mapped, Randomness randomness = Randomness::error) {
  const OpTable ops = all_ops();
  SingleNodeGraph body = single_node_graph(ops, op, types, attrs);
  body.graph.nodes[body.id].where = "user.cc:7";
  for (std::size_t i = 0; i < body.view().out_count(); ++i)
    body.graph.outputs.push_back({cat("out", i), body.view().out(i), {}});
  Graph program;
  Builder b(program, ops);
  std::vector<MappedValue> arguments;
  for (std::size_t i = 0; i < body.graph.arguments.size(); ++i) {
    TensorType type = body.graph.type(body.graph.arguments[i]);
    if (is_mapped[i] == 'm') type.shape.insert(type.shape.begin(), 5);
    arguments.push_back({build::input(b, cat("x", i), type), is_mapped[i] == 'm'});
  }
  const std::size_t inputs = program.nodes.size();
  const auto results = vmap(b, body.graph, arguments, {5, 0, 5, randomness});
  std::string out;
  for (std::size_t n = inputs; n < program.nodes.size(); ++n) {
    const NodeView view{&program, NodeId(n)};
    out += cat(view.node().op->name, " ", view.node().attrs.print(), "\n");
  }
  for (const MappedValue& result : results) out += cat(result.is_mapped ? "mapped " : "", b.type(result.id), "\n");
  return out;
}

TEST(Vmap, EveryOpHasARuleOrIsListed) {
  // Ops without operands that depend on a batch, updates of variables, and nodes that only passes insert.
  const std::set<std::string> without = {"input",    "variable",   "constant",   "iota",       "random_uniform", "scan",
                                         "sgd",      "adam",       "sgd_if",     "adam_if",    "assign",         "box",
                                         "transfer", "accumulate", "micro_join", "micro_slice"};
  std::set<std::string> found;
  for (const OpDef& op : all_op_rows())
    if (vmap_rule(op) == nullptr) found.insert(op.name);
  EXPECT_EQ(found, without) << "a new op needs a row in karez/ops/vmap_rules.cc";
}

TEST(Vmap, AnOpWithoutARuleIsNamedWithTheLineOfTheUser) {
  EXPECT_THAT(base::error_of([] { mapped_text("assign", "f32[3], f32[3]", "", "mm"); }),
              testing::AllOf(testing::HasSubstr("op assign has no rule"), testing::HasSubstr("user.cc:7")));
}

TEST(Vmap, AProductWithOneMappedOperandHasMoreRowsOrColumns) {
  EXPECT_EQ(mapped_text("matmul", "f32[2, 3], f32[3, 4]", "", "m-"),
            "reshape {shape=[10, 3]}\nmatmul {}\nreshape {shape=[5, 2, 4]}\nmapped f32[5, 2, 4]\n");
  EXPECT_EQ(mapped_text("matmul", "f32[2, 3], f32[3, 4]", "", "mm"), "matmul {}\nmapped f32[5, 2, 4]\n");
  EXPECT_THAT(
      mapped_text("matmul", "f32[2, 3], f32[4, 3]", "{transpose_b=true}", "-m"),
      testing::AllOf(testing::HasSubstr("reshape {shape=[20, 3]}\n"), testing::HasSubstr("mapped f32[5, 2, 4]")));
}

TEST(Vmap, AttributesThatCountDimensionsAreShifted) {
  EXPECT_EQ(mapped_text("reduce_sum", "f32[2, 3]", "{axes=[1]}", "m"), "reduce_sum {axes=[2]}\nmapped f32[5, 2]\n");
  EXPECT_EQ(mapped_text("slice", "f32[4]", "{begin=[1], size=[2]}", "m"),
            "slice {begin=[0, 1], size=[5, 2]}\nmapped f32[5, 2]\n");
  EXPECT_EQ(mapped_text("resize", "f32[4]", "{axis=0, size=2}", "m"), "resize {axis=1, size=2}\nmapped f32[5, 2]\n");
}

TEST(Vmap, NodesWithoutAMappedOperandStay) { EXPECT_EQ(mapped_text("relu", "f32[3]", "", "-"), "relu {}\nf32[3]\n"); }

TEST(Vmap, RandomNumbersNeedAChoice) {
  const std::string attrs = "{dtype=\"f32\", shape=[3], site=3}";
  EXPECT_THAT(base::error_of([&] { mapped_text("random_uniform", "i64[2]", attrs, "-"); }),
              testing::HasSubstr("randomness='same'"));
  EXPECT_THAT(mapped_text("random_uniform", "i64[2]", attrs, "-", Randomness::same), testing::EndsWith("\nf32[3]\n"));
  EXPECT_THAT(mapped_text("random_uniform", "i64[2]", attrs, "-", Randomness::different),
              testing::EndsWith("\nmapped f32[5, 3]\n"));
}

}  // namespace
}  // namespace karez::ops
