// Tests of the rules that merge successive ops: when they apply, that they apply until nothing changes, and what stays.
#include <gtest/gtest.h>

#include "karez/passes/logical/algebra/rules.h"
#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

struct Program {
  Graph graph;
  Builder b{graph, testing::table()};
  ValueId x, y;
  Program() {
    graph.meshes = {Mesh::parse("data=2")};
    x = build::input(b, "x", {DType::f64, {6, 8}}), y = build::input(b, "y", {DType::f64, {6, 8}});
  }
  void output(ValueId value) { graph.outputs.push_back({cat("out", graph.outputs.size()), value}); }
  CanonicalGraph canonical() const { return canonicalise(graph, {&testing::table(), {}}); }
};

// first -> second -> third, and whether the middle cast can be left out. The numbers of first must be numbers of
// second.
TEST(MergedOps, OnlyACastThatKeepsEveryNumberIsLeftOut) {
  const auto is_merged = [](DType first, DType second, DType third) {
    Program p;
    const ValueId x = build::input(p.b, "n", {first, {4}});
    p.output(build::cast(p.b, build::cast(p.b, x, second), third));
    return p.canonical().rule_counts["cast_of_cast"] > 0;
  };
  EXPECT_FALSE(is_merged(DType::f32, DType::bf16, DType::f32)) << "it rounds";
  EXPECT_FALSE(is_merged(DType::f64, DType::f32, DType::f64));
  EXPECT_FALSE(is_merged(DType::bf16, DType::f16, DType::f32)) << "f16 has fewer exponents";
  EXPECT_FALSE(is_merged(DType::f16, DType::bf16, DType::f32)) << "bf16 has fewer digits";
  EXPECT_FALSE(is_merged(DType::i32, DType::f32, DType::f64)) << "f32 has 24 digits";
  EXPECT_FALSE(is_merged(DType::i64, DType::f64, DType::i64));
  EXPECT_FALSE(is_merged(DType::i64, DType::i32, DType::i64)) << "it drops digits";
  EXPECT_FALSE(is_merged(DType::i32, DType::b8, DType::f32)) << "all numbers except 0 become 1";
  EXPECT_FALSE(is_merged(DType::f32, DType::i64, DType::f32)) << "it drops the fraction";
  EXPECT_FALSE(is_merged(DType::i32, DType::f64, DType::u8)) << "256 becomes 255 from f64, and 0 from i32";
  EXPECT_TRUE(is_merged(DType::i32, DType::i64, DType::u8)) << "256 becomes 0 in both ways";
  EXPECT_TRUE(is_merged(DType::i32, DType::f64, DType::f32));
  EXPECT_TRUE(is_merged(DType::i32, DType::f64, DType::i32));
  EXPECT_TRUE(is_merged(DType::u8, DType::bf16, DType::f64));
  EXPECT_TRUE(is_merged(DType::b8, DType::i32, DType::f32));
  EXPECT_TRUE(is_merged(DType::bf16, DType::f32, DType::i32)) << "both casts saturate";
  EXPECT_TRUE(is_merged(DType::f32, DType::f64, DType::f16)) << "only the second cast rounds";
}

TEST(MergedOps, OneHotIsComputedInTheDtypeOfItsCast) {
  for (const DType dtype : {DType::b8, DType::u8, DType::i32, DType::f16, DType::bf16, DType::f32, DType::f64}) {
    Program p;
    const ValueId index = build::input(p.b, "index", {DType::i32, {4}});
    const ValueId ones =
        p.b.one("one_hot", {index},
                {{"depth", std::int64_t{3}}, {"dtype", std::string("i64")}, {"of", std::string("a label")}});
    p.output(build::cast(p.b, ones, dtype)), p.output(ones);
    const Graph graph = p.canonical().graph;
    EXPECT_EQ(testing::count_op(graph, "cast"), 0);
    const Node& node = graph.node(graph.value(graph.outputs[0].value).producer);
    EXPECT_EQ(node.op->name, "one_hot");
    EXPECT_EQ(node.attrs.text("of"), "a label") << "an index out of range is the same error";
    EXPECT_EQ(graph.type(graph.outputs[0].value), (TensorType{dtype, {4, 3}}));
    EXPECT_EQ(graph.type(graph.outputs[1].value), (TensorType{DType::i64, {4, 3}}));
  }
}

// The inner reshape would otherwise be copied twice if x has strides that require a copy.
TEST(MergedOps, AReshapeWithAnotherUseStays) {
  Program p;
  const ValueId inner = build::reshape(p.b, p.x, {2, 24});
  p.output(build::exp(p.b, inner)), p.output(build::reshape(p.b, inner, {3, 16}));
  EXPECT_EQ(p.canonical().rule_counts["reshape_of_reshape"], 0);
  Program result;
  const ValueId reshaped = build::reshape(result.b, result.x, {2, 24});
  result.output(reshaped), result.output(build::reshape(result.b, reshaped, {3, 16}));
  EXPECT_EQ(result.canonical().rule_counts["reshape_of_reshape"], 0) << "the program returns it";
}

TEST(MergedOps, ReshapesOfTwoModulesStay) {
  Program p;
  const ValueId inner = build::reshape(p.b, p.x, {2, 24});
  p.graph.node(p.graph.value(inner).producer).path = "block0";
  p.output(build::reshape(p.b, inner, {3, 16}));
  EXPECT_EQ(p.canonical().rule_counts["reshape_of_reshape"], 0);
}

TEST(MergedOps, RulesApplyUntilNothingChanges) {
  Program p;
  ValueId x = p.x;
  for (int i = 0; i < 6; ++i)
    x = build::transpose(p.b, build::reshape(p.b, build::reshape(p.b, x, {48}), {6, 8}), {0, 1});
  for (int i = 0; i < 6; ++i) x = build::transpose(p.b, x, {1, 0});
  p.output(build::matmul(p.b, build::transpose(p.b, x, {1, 0}), build::transpose(p.b, p.y, {0, 1})));
  const ValueId both = build::concat(p.b, std::vector{p.x, p.y}, 0);
  p.output(build::slice(p.b, build::slice(p.b, both, {6, 0}, {6, 8}), {0, 0}, {6, 8}));
  EXPECT_EQ(print(p.canonical().graph), R"(graph main mesh(data=2) {
  %0 = input() {dtype="f64", name="x", shape=[6, 8]} : f64[6, 8]
  %1 = input() {dtype="f64", name="y", shape=[6, 8]} : f64[6, 8]
  %2 = matmul(%0, %1) {transpose_a=true} : f64[8, 8]
  output "out0" %2
  output "out1" %1
}
)");
}

// The transfer between the placements would otherwise move to the other side of the inner op.
TEST(MergedOps, NoRuleBypassesAnOpOnAnotherPlacement) {
  Program p;
  p.graph.meshes.push_back(Mesh::parse("model=2"));
  const ValueId inner = build::transpose(p.b, p.x, {1, 0});
  p.graph.value(inner).mesh = 1;
  p.output(build::transpose(p.b, inner, {1, 0}));
  RuleCounts counts;
  simplify_algebra(p.graph, counts);
  EXPECT_EQ(counts["transpose_of_transpose"], 0);
}

}  // namespace
}  // namespace karez::passes
