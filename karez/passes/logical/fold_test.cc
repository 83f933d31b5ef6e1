// Tests of constant folding, a step of canonicalise: what is folded, the size limit, and exact integers.
#include "karez/passes/logical/canonicalise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "karez/passes/logical/test_canonicalise.h"

namespace karez::passes {
namespace {

using testing::count_op;
using testing::table;
using Program = testing::CanonicaliseProgram;

TEST(Canonicalise, OpsOnConstantsAreFoldedAndSplatsOfAnySizeStaySplats) {
  Program p;
  ValueId x = p.input("x", {DType::f64, {100, 100}});
  ValueId two = build::full(p.b, DType::f64, {100, 100}, 2), three = build::full(p.b, DType::f64, {100, 100}, 3);
  p.output(build::mul(p.b, x, build::exp(p.b, build::mul(p.b, two, three))));
  Graph g = p.canonical();
  EXPECT_EQ(count_op(g, "exp"), 0);
  EXPECT_EQ(count_op(g, "mul"), 1);
  EXPECT_EQ(count_op(g, "constant"), 1);
  for (const Node& node : g.nodes) {
    if (node.op->name == "constant") { EXPECT_EQ(node.attrs.real("value"), std::exp(6.0)); }
  }
}

TEST(Canonicalise, DataIsFoldedOnlyUpToTheSizeLimit) {
  for (std::int64_t size : {512, 513}) {  // 4096 and 4104 bytes
    Program p;
    TensorType type{DType::f64, {size}};
    std::vector<double> numbers;
    for (std::int64_t i = 0; i < size; ++i) numbers.push_back(static_cast<double>(i) / 7);
    ValueId data = build::constant(p.b, type, std::as_bytes(std::span(numbers)));
    p.output(build::add(p.b, build::sqrt(p.b, data), p.input("x", type)));
    auto expected = testing::evaluate_graph(p.graph);
    Graph g = p.canonical();
    EXPECT_EQ(count_op(g, "sqrt"), size == 512 ? 0 : 1);
    EXPECT_EQ(testing::max_relative_difference(expected, testing::evaluate_graph(g)), 0);
  }
}

// Evaluates exact sums of i64.
std::vector<HostBytes> add_i64(const CallSpec& call, const std::vector<HostBytes>& in) {
  require(call.op == "pointwise" && call.attrs.text("expr") == "x0 + x1" && call.out[0].dtype == DType::i64, "not ",
          print(call));
  HostBytes out(in[0].size());
  for (std::size_t i = 0; i < out.size(); i += 8) {
    std::int64_t a, b;
    std::memcpy(&a, &in[0][i], 8), std::memcpy(&b, &in[1][i], 8);
    a += b;
    std::memcpy(&out[i], &a, 8);
  }
  return {out};
}

TEST(Canonicalise, FoldingKeepsIntegersThatNoDoubleRepresents) {
  const std::int64_t large = std::int64_t{1} << 53;  // no double represents large + 1
  for (std::int64_t count : {1, 2}) {
    for (std::int64_t sum : {large + 1, -large - 1, std::int64_t{41}}) {
      Graph graph;
      Builder b(graph, table());
      TensorType type{DType::i64, {count}};
      std::vector<std::int64_t> sum_minus_one(static_cast<std::size_t>(count), sum - 1);
      ValueId folded = build::add(b, build::constant(b, type, std::as_bytes(std::span(sum_minus_one))),
                                  build::full(b, DType::i64, {count}, 1));
      graph.outputs.push_back({"y", build::add(b, folded, build::input(b, "x", type))});
      Graph g = canonicalise(graph, {&table(), add_i64}).graph;
      ASSERT_EQ(count_op(g, "constant"), 1) << print(g);
      const Attrs& attrs =
          std::find_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op->name == "constant"; })->attrs;
      std::int64_t result = 0;
      if (attrs.has("value")) {
        result = static_cast<std::int64_t>(attrs.real("value"));
      } else {
        std::uint64_t bits = 0;
        for (std::size_t byte = 0; byte < 8; ++byte)
          bits |= std::stoull(attrs.text("data").substr(2 * byte, 2), nullptr, 16) << (8 * byte);
        result = static_cast<std::int64_t>(bits);
      }
      EXPECT_EQ(result, sum) << attrs.print();
    }
  }
  Graph graph;  // if no double represents the sum of two large splats, the sum is not folded
  Builder b(graph, table());
  TensorType type{DType::i64, {1000}};
  ValueId sum = build::add(b, build::full(b, DType::i64, type.shape, static_cast<double>(large)),
                           build::full(b, DType::i64, type.shape, 1));
  graph.outputs.push_back({"y", build::add(b, sum, build::input(b, "x", type))});
  EXPECT_EQ(count_op(canonicalise(graph, {&table(), add_i64}).graph, "add"), 2);
}

TEST(Canonicalise, TheEvaluatorReceivesExactlyTheBytesOfEachOperand) {
  Graph graph;
  Builder b(graph, table());
  const std::vector<std::int64_t> numbers{5, 6, 7};
  const ValueId data = build::constant(b, {DType::i64, {3}}, std::as_bytes(std::span(numbers)));
  graph.outputs.push_back({"sum", build::add(b, data, build::full(b, DType::i64, {3}, 1))});
  graph.outputs.push_back(
      {"splat", build::add(b, build::full(b, DType::i64, {4}, 2), build::full(b, DType::i64, {4}, 1))});
  int calls = 0;
  canonicalise(graph, {&table(), [&](const CallSpec& call, const std::vector<HostBytes>& in) {
                         ++calls;
                         for (std::size_t i = 0; i < in.size(); ++i)
                           EXPECT_EQ(static_cast<std::int64_t>(in[i].size()), call.in[i].bytes()) << print(call);
                         return add_i64(call, in);
                       }});
  EXPECT_EQ(calls, 2);
}

TEST(Canonicalise, SmallDataThatWouldExceedTheLimitIsNotFolded) {
  Program p;
  std::vector<double> numbers(500, 0.25);
  ValueId data = build::constant(p.b, {DType::f64, {500}}, std::as_bytes(std::span(numbers)));
  p.output(build::add(p.b, build::pad(p.b, data, {0}, {100}), p.input("x", {DType::f64, {600}})));
  EXPECT_EQ(count_op(p.canonical(), "pad"), 1);
}

TEST(Canonicalise, WithoutAnEvaluatorOnlyWindowsOnSplatsAreFolded) {
  Program p;
  ValueId two = build::full(p.b, DType::f64, {4}, 2);
  p.output(build::add(p.b, p.input("x"), build::exp(p.b, two)));
  Graph g = canonicalise(p.graph, {&table(), {}}).graph;
  EXPECT_EQ(count_op(g, "exp"), 1);
  EXPECT_EQ(count_op(g, "broadcast"), 0);
}

}  // namespace
}  // namespace karez::passes
