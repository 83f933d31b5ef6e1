// Tests of signatures and of the shardings that are derived from them.
#include "karez/base/text.h"
#include "karez/graph/test_ops.h"
#include "karez/graph/test_shardings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace karez::graph {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A graph with one node of an op on operands of the given types.
struct SingleNodeGraph {
  OpTable ops;
  Graph graph;
  NodeId id;

  SingleNodeGraph(std::string_view op, std::vector<TensorType> operands, Attrs attrs = {}, OpTable table = test_ops())
      : ops(std::move(table)) {
    Builder builder(graph, ops);
    std::vector<ValueId> inputs;
    for (const auto& type : operands)
      inputs.push_back(
          builder.one("variable", {}, {{"shape", type.shape}, {"dtype", std::string(name_of(type.dtype))}}));
    builder.where = "net.cc:7";
    builder.add(op, inputs, std::move(attrs));
    id = NodeId(graph.nodes.size() - 1);
  }
  SingleNodeGraph(const SingleNodeGraph&) = delete;
  NodeView view() const { return {&graph, id}; }
};

std::vector<std::string> texts(const std::vector<Sharding>& shardings) {
  std::vector<std::string> out;
  for (const auto& s : shardings) out.push_back(print(s));
  return out;
}
std::vector<std::string> texts_of(std::string_view op, std::vector<TensorType> operands, int size, Attrs attrs = {}) {
  SingleNodeGraph node(op, std::move(operands), std::move(attrs));
  return texts(shardings(node.view(), size));
}
std::vector<std::string> mesh_texts(std::string_view op, std::vector<TensorType> operands, std::string_view mesh) {
  SingleNodeGraph node(op, std::move(operands));
  std::vector<std::string> out;
  for (const auto& combination : mesh_shardings(node.view(), Mesh::parse(mesh)))
    out.push_back(join(combination, "; ", [](const Sharding& s) { return print(s); }));
  return out;
}

const TensorType a{DType::f32, {64, 10}}, b{DType::f32, {10, 50}};

TEST(Signature, ParsingAndPrintingGiveTheSameText) {
  for (const char* text :
       {"m k, k n -> m n | linear {0} {1}", "i j -> i | j by max", "n c _ _, o c _ _ -> n o _ _ | linear {0} {1}",
        "i j -> j i | moves", "a b -> a | a divides 12", "a _, () -> a, () | linear {0, 1}", "-> n _", "() -> a",
        "i j -> ()", "v d, i -> i d | v masked | linear {0}",
        "i, i, i -> i | linear {0} | outside 1 divisor, 2 condition"}) {
    EXPECT_EQ(print(parse_signature(text)), text);
  }
  EXPECT_EQ(print(parse_signature("a,->")), "a, () -> ()");
}

TEST(Signature, InvalidTextIsRejectedWithItsPosition) {
  auto error = [](std::string_view text) { return error_of([&] { parse_signature(text); }); };
  EXPECT_EQ(error("a b c"), "signature: line 1, column 6: expected '->' at the end");
  EXPECT_EQ(error("a -> a | b by max"), "signature: line 1, column 10: no operand has the letter 'b' at 'b by max'");
  EXPECT_EQ(error("a b -> a | b by mean"), "signature: line 1, column 17: expected sum, max or min at 'mean'");
  EXPECT_EQ(error("a -> a | linear {1}"), "signature: line 1, column 18: there is no operand 1 at '1}'");
  EXPECT_EQ(error("a _ -> a | _ by max"),
            "signature: line 1, column 12: a dimension that is never split has no letter at '_ by max'");
  EXPECT_EQ(error("a -> a | fixed a"), "signature: line 1, column 10: no operand has the letter 'fixed' at 'fixed a'");
  EXPECT_EQ(error("a -> a; moves"), "signature: line 1, column 7: unexpected text after the signature at '; moves'");
}

TEST(Shardings, AMatmulHasExactlySixShardings) {
  EXPECT_THAT(texts_of("matmul", {a, b}, 2), ElementsAre("B, B -> B",             //
                                                         "S(0), B -> S(0)",       // rows
                                                         "S(1), S(0) -> P(sum)",  // inner
                                                         "B, S(1) -> S(1)",       // columns
                                                         "P(sum), B -> P(sum)", "B, P(sum) -> P(sum)"));
}

TEST(Shardings, OneDeviceHasNothingToSplit) { EXPECT_THAT(texts_of("matmul", {a, b}, 1), ElementsAre("B, B -> B")); }

TEST(Shardings, ADimensionOfSizeOneIsNotSplit) {
  EXPECT_THAT(
      texts_of("matmul", {{DType::f32, {64, 1}}, {DType::f32, {1, 50}}}, 2),
      ElementsAre("B, B -> B", "S(0), B -> S(0)", "B, S(1) -> S(1)", "P(sum), B -> P(sum)", "B, P(sum) -> P(sum)"));
}

TEST(Shardings, OperandsOfALinearGroupArePartialTogether) {
  EXPECT_THAT(texts_of("add", {a, a}, 2),
              ElementsAre("B, B -> B", "S(0), S(0) -> S(0)", "S(1), S(1) -> S(1)", "P(sum), P(sum) -> P(sum)"));
}

TEST(Shardings, ANonlinearOpAcceptsNoPartial) {
  EXPECT_THAT(texts_of("relu", {a}, 2), ElementsAre("B -> B", "S(0) -> S(0)", "S(1) -> S(1)"));
}

TEST(Shardings, SplittingAReducedLetterGivesPartialOfItsKind) {
  EXPECT_THAT(texts_of("reduce_max", {a}, 2), ElementsAre("B -> B", "S(0) -> S(0)", "S(1) -> P(max)"));
  EXPECT_THAT(texts_of("reduce_sum", {a}, 2),
              ElementsAre("B -> B", "S(0) -> S(0)", "S(1) -> P(sum)", "P(sum) -> P(sum)"));
  EXPECT_THAT(texts_of("total", {a}, 2), ElementsAre("B -> B", "S(0) -> P(sum)", "S(1) -> P(sum)"));
}

TEST(Shardings, BoolsHaveNoPartialSums) {
  EXPECT_THAT(texts_of("any_zero", {a}, 2), ElementsAre("B -> B", "S(0) -> S(0)"));
  EXPECT_THAT(texts_of("add", {{DType::b8, {4, 4}}, {DType::b8, {4, 4}}}, 2),
              ElementsAre("B, B -> B", "S(0), S(0) -> S(0)", "S(1), S(1) -> S(1)"));
  EXPECT_THAT(texts_of("transpose", {{DType::b8, {4, 4}}}, 2),
              ElementsAre("B -> B", "S(0) -> S(1)", "S(1) -> S(0)", "P(max) -> P(max)", "P(min) -> P(min)"));
  EXPECT_THAT(texts_of("add", {{DType::i32, {4, 4}}, {DType::i32, {4, 4}}}, 2), Contains("P(sum), P(sum) -> P(sum)"));
}

TEST(Shardings, AnOpThatMovesElementsAcceptsPartialOfAnyKind) {
  EXPECT_THAT(texts_of("transpose", {a}, 2), ElementsAre("B -> B", "S(0) -> S(1)", "S(1) -> S(0)", "P(sum) -> P(sum)",
                                                         "P(max) -> P(max)", "P(min) -> P(min)"));
}

TEST(Shardings, ADimensionWithoutALetterIsNeverSplitAndMayChangeItsSize) {
  EXPECT_THAT(texts_of("crop", {a}, 2), ElementsAre("B -> B", "S(0) -> S(0)"));
}

TEST(Shardings, AMergedDimensionIsSplitOnlyIfTheMeshDividesItsMajorFactor) {
  TensorType merged{DType::f32, {12, 4}};
  EXPECT_THAT(texts_of("flatten", {merged}, 4), Contains("S(0) -> S(0)"));
  EXPECT_THAT(texts_of("flatten", {merged}, 5), Not(Contains("S(0) -> S(0)")));
  EXPECT_THAT(mesh_texts("flatten", {merged}, "a=2,b=3"), Contains("S(0) -> S(0); S(0) -> S(0)"));
  auto on_4_by_2 = mesh_texts("flatten", {merged}, "a=4,b=2");
  EXPECT_THAT(on_4_by_2, Contains("S(0) -> S(0); B -> B"));
  EXPECT_THAT(on_4_by_2, Contains("B -> B; S(0) -> S(0)"));
  EXPECT_THAT(on_4_by_2, Not(Contains("S(0) -> S(0); S(0) -> S(0)"))) << "8 does not divide 12";
}

TEST(Shardings, ALetterThatOnlyResultsHaveIsNotReduced) {
  OpDef op;
  op.name = "spread";
  op.inputs = 1;
  op.index = "i -> i, i j";
  op.infer = [](std::span<const TensorType> in, const Attrs&) {
    return std::vector<TensorType>{in[0], {in[0].dtype, {in[0].shape[0], 3}}};
  };
  OpTable ops({op});
  Graph graph;
  graph.values.push_back({.producer = {}, .output = 0, .type = {DType::f32, {4}}, .mesh = 0, .layout = {}});
  graph.arguments = {ValueId(0)};
  Builder(graph, ops).add("spread", graph.arguments);
  EXPECT_THAT(texts(shardings({&graph, NodeId(0)}, 2)), ElementsAre("B -> B, B", "S(0) -> S(0), S(0)", "B -> B, S(1)"));
}

TEST(Shardings, SourcesAndScalarsHaveShardings) {
  EXPECT_THAT(texts_of("input", {}, 2, {{"shape", Ints{8, 4}}}), ElementsAre("-> B", "-> S(0)"));
  EXPECT_THAT(texts_of("fill", {{DType::f32, {}}}, 2, {{"shape", Ints{8}}}), ElementsAre("B -> B", "B -> S(0)"))
      << "the signature omits a single scalar operand";
}

TEST(Shardings, ShardingsOfAMeshAreTheProductOverItsAxes) {
  auto all = mesh_texts("matmul", {a, b}, "data=2,model=2");
  EXPECT_EQ(all.size(), 36u);
  EXPECT_EQ(all[0], "B, B -> B; B, B -> B");
  EXPECT_EQ(all[1], "B, B -> B; S(0), B -> S(0)") << "the last axis varies fastest";
  EXPECT_THAT(all, Contains("S(0), B -> S(0); S(0), B -> S(0)"));
  EXPECT_THAT(all, Contains("P(sum), B -> P(sum); B, P(sum) -> P(sum)")) << "products of sums are sums of products";
  EXPECT_EQ(mesh_texts("matmul", {a, b}, "data=2,model=1").size(), 6u);
  EXPECT_EQ(mesh_texts("matmul", {a, b}, "").size(), 1u) << "a mesh without axes has one sharding";
}

TEST(Shardings, AValueHasOneKindOfPartial) {
  auto all = mesh_texts("transpose", {a}, "data=2,model=2");
  EXPECT_THAT(all, Contains("P(max) -> P(max); P(max) -> P(max)"));
  EXPECT_THAT(all, Contains("P(max) -> P(max); S(0) -> S(1)"));
  EXPECT_THAT(all, Not(Contains("P(sum) -> P(sum); P(max) -> P(max)")));
  EXPECT_EQ(all.size(), 36u - 6u);
}

TEST(Signature, AMismatchBetweenSignatureAndNodeIsReported) {
  EXPECT_EQ(error_of([] {
              texts_of("wrong", {{DType::f32, {3, 3}}}, 2);
            }),
            "wrong at net.cc:7: its signature a a -> a has 'a' twice in operand 0");
  EXPECT_EQ(error_of([] {
              texts_of("uneven", {{DType::f32, {3, 4}}}, 2);
            }),
            "uneven at net.cc:7: sizes of 'b' differ: 4 in operand 0 f32[3, 4] and 5 in result 0 f32[3, 5]");
  EXPECT_EQ(error_of([] {
              texts_of("relu", {{DType::f32, {3}}}, 2);
            }),
            "relu at net.cc:7: its signature a b -> a b gives operand 0 2 dimensions, but its type is f32[3]");
  EXPECT_EQ(error_of([] { texts_of("scan", {a}, 2); }),
            "scan at net.cc:7: signature: line 1, column 1: expected '->' at the end");
  EXPECT_THAT(error_of([] {
                texts_of("flatten", {{DType::f32, {9, 4}}}, 2);
              }),
              HasSubstr("limits splits of 'a' to divisors of 12, which does not divide size 9 of operand 0 f32[9, 4]"));
  EXPECT_THAT(error_of([] { texts_of("top", {{DType::f32, {9, 4}}}, 2); }), "no error");
}

TEST(Signature, OperandAndResultCountsMatchTheNode) {
  auto error = [](std::string_view index) {
    OpDef op{.name = "counted", .inputs = 2, .infer = infer_first};
    op.index = [index](const NodeView&) { return parse_signature(index); };
    SingleNodeGraph node("counted", {a, a}, {}, OpTable({test_ops().at("variable"), op}));
    return error_of([&] { shardings(node.view(), 2); });
  };
  EXPECT_EQ(error("i j, i j -> i j"), "no error");
  EXPECT_EQ(error("i j -> i j"), "counted at net.cc:7: its signature i j -> i j has 1 operands; the node has 2");
  EXPECT_EQ(error("i j, i j, i j -> i j"),
            "counted at net.cc:7: its signature i j, i j, i j -> i j has 3 operands; the node has 2");
  EXPECT_EQ(error("i j, i j -> i j, i"),
            "counted at net.cc:7: its signature i j, i j -> i j, i has 2 results; the node has 1");
}

TEST(Signature, AnEmptyLetterIsAnError) {
  OpDef unnamed{.name = "unnamed", .inputs = 1, .infer = infer_first};
  unnamed.index = [](const NodeView&) {
    Signature s;
    s.in = {{"a", ""}};
    s.out = s.in;
    return s;
  };
  SingleNodeGraph node("unnamed", {a}, {}, OpTable({test_ops().at("variable"), unnamed}));
  EXPECT_EQ(error_of([&] { shardings(node.view(), 2); }),
            "unnamed at net.cc:7: its signature gives operand 0 no letter in dimension 1; a dimension that is never "
            "split has '_'");
}

// A letter that no operand has is not reduced: a result without the letter is Broadcast, for every dtype.
TEST(Signature, SplittingALetterOfOneResultLeavesOtherResultsBroadcast) {
  OpDef source;
  source.name = "made";
  source.inputs = 0;
  source.index = "-> a, ()";
  source.infer = [](auto, const Attrs&) { return std::vector<TensorType>{{DType::f32, {8}}, {DType::b8, {}}}; };
  SingleNodeGraph node("made", {}, {}, OpTable({source}));
  EXPECT_THAT(texts(shardings(node.view(), 2)), Contains(HasSubstr("S(0), B")));
}

}  // namespace
}  // namespace karez::graph
