// Tests of merging chains of pointwise calls: the expressions of merged calls, and calls that must stay separate.
#include <gtest/gtest.h>

#include "karez/base/text.h"
#include "karez/passes/compile.h"
#include "karez/passes/lowering/fuse/fuse.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

// A catalog with a limit of operands, and one op whose kernel is slow.
class OperandCatalog : public testing::AnyCatalog {
 public:
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    if (call.in.size() > most_operands) return std::nullopt;
    std::optional<KernelChoice> choice = AnyCatalog::find(call);
    if (choice) choice->rate = rate;
    return choice;
  }
  std::size_t most_operands = 10;
  double rate = 1;
};

struct Program {
  Graph graph;
  Builder b{graph, table()};
  OperandCatalog catalog;
  CompileOptions options;
  ValueId input(const std::string& name, Shape shape = {8, 6}, DType dtype = DType::f32) {
    return build::input(b, name, {dtype, std::move(shape)});
  }
  void output(ValueId value, const std::string& name = "out") { graph.outputs.push_back({name, value}); }
  Compilation compiled() {
    Compilation c = testing::compilation(graph);
    c.catalog = &catalog;
    c.options = options;
    compile(c);
    return c;
  }
  // The expressions of pointwise calls and the names of other ops, in order: "exp(x0 - x1); matmul".
  std::string calls() {
    std::vector<std::string> out;
    const Compilation c = compiled();
    for (const LocalSegment& segment : c.local.segments)
      for (const LocalCall& call : segment.calls)
        out.push_back(call.spec.op == "pointwise" ? call.spec.attrs.text("expr") : call.spec.op);
    return join(out, "; ");
  }
};

TEST(Chains, ACallIsMergedIntoTheOnlyReaderOfItsResult) {
  Program p;
  ValueId x = p.input("x"), y = p.input("y");
  p.output(build::mul(p.b, build::exp(p.b, build::sub(p.b, x, y)), p.input("z")));
  EXPECT_EQ(p.calls(), "exp(x1 - x2) * x0");
  const Compilation c = p.compiled();
  for (const Actor& actor : c.plan.actors)
    for (const Call& call : actor.calls) EXPECT_EQ(call.where.substr(0, 15), "sub + exp + mul") << call.where;
}

TEST(Chains, EqualOperandsAreOneVariable) {
  Program p;
  ValueId x = p.input("x"), y = p.input("y"), sum = build::add(p.b, x, y);
  p.output(build::mul(p.b, build::mul(p.b, sum, sum), x));
  EXPECT_EQ(p.calls(), "(x0 + x1) * (x0 + x1) * x0");
}

TEST(Chains, AnOutputAndAValueOfAnotherActorStay) {
  Program p;
  ValueId sum = build::add(p.b, p.input("x"), p.input("y"));
  p.output(build::exp(p.b, sum));
  p.output(sum, "sum");
  EXPECT_EQ(p.calls(), "x0 + x1; exp(x0)");
}

TEST(Chains, ACheapCallOfOneOperandIsRepeatedInEachReader) {
  Program p;
  ValueId x = p.input("x", {8, 64}), m = build::broadcast(p.b, p.input("m", {8}), {8, 64}, {0});
  ValueId d = build::sub(p.b, x, m);
  p.output(build::reduce_sum(p.b, build::mul(p.b, d, d), {1}), "square");
  p.output(build::exp(p.b, d), "e");
  const std::string calls = p.calls();
  EXPECT_NE(calls.find("(x0 - x1) * (x0 - x1)"), std::string::npos) << calls;
  EXPECT_NE(calls.find("exp(x0 - x1)"), std::string::npos) << calls;
}

TEST(Chains, ACallThatReadsMoreThanItWritesOrIsNotCheapIsNotRepeated) {
  Program two_operands;
  ValueId sum = build::add(two_operands.b, two_operands.input("x"), two_operands.input("y"));
  two_operands.output(build::exp(two_operands.b, sum), "a");
  two_operands.output(build::tanh(two_operands.b, sum), "b");
  EXPECT_EQ(two_operands.calls(), "x0 + x1; exp(x0); tanh(x0)");
  Program expensive;
  ValueId e = build::exp(expensive.b, expensive.input("x"));
  expensive.output(build::tanh(expensive.b, e), "a");
  expensive.output(build::mul(expensive.b, e, expensive.input("y")), "b");
  EXPECT_EQ(expensive.calls(), "exp(x0); tanh(x0); x0 * x1");
}

TEST(Chains, AReaderOfOtherStridesOrShapesStaysSeparate) {
  Program transposed;
  ValueId e = build::exp(transposed.b, transposed.input("x"));
  transposed.output(build::add(transposed.b, build::transpose(transposed.b, e, {1, 0}), transposed.input("y", {6, 8})));
  transposed.options.off = {"layout"};
  EXPECT_EQ(transposed.calls(), "exp(x0); x0 + x1");
  Program repeated;
  ValueId row = build::exp(repeated.b, repeated.input("row", {6}));
  repeated.output(build::add(repeated.b, repeated.input("x"), build::broadcast(repeated.b, row, {8, 6}, {1})));
  EXPECT_EQ(repeated.calls(), "exp(x0); x0 + x1");
}

TEST(Chains, ARoundedResultStaysRounded) {
  Program p;
  p.output(build::exp(p.b, build::add(p.b, p.input("x", {8}, DType::bf16), p.input("y", {8}, DType::bf16))));
  const std::string calls = p.calls();
  EXPECT_NE(calls.find("x0 + x1; "), std::string::npos) << calls;
  EXPECT_NE(calls.find("; exp(x0)"), std::string::npos) << calls;
}

TEST(Chains, AConditionIsMerged) {
  Program p;
  ValueId x = p.input("x"), y = p.input("y");
  p.output(build::select(p.b, build::lt(p.b, x, y), x, p.input("z")));
  EXPECT_EQ(p.calls(), "select(x0 < x2, x0, x1)");
}

TEST(Chains, TheCatalogLimitsOperandsAndSlowKernelsDoNotMerge) {
  Program p;
  ValueId sum = p.input("x0");
  for (int i = 1; i < 6; ++i) sum = build::add(p.b, sum, p.input(cat("x", i)));
  p.output(sum);
  p.options.off = {"canonicalise"};
  p.catalog.most_operands = 3;
  EXPECT_EQ(p.calls(), "x1 + x2 + x0; x1 + x2 + x0; x0 + x1");
  p.catalog.most_operands = 10, p.catalog.rate = 0.05;
  EXPECT_EQ(p.calls(), "x0 + x1; x0 + x1; x0 + x1; x0 + x1; x0 + x1");
}

TEST(Chains, ExpressionsDoNotGrowWithoutBound) {
  Program p;
  ValueId x = p.input("x");
  for (int i = 0; i < 40; ++i) x = build::mul(p.b, x, x);
  p.output(x);
  const Compilation c = p.compiled();
  std::size_t calls = 0;
  for (const LocalSegment& segment : c.local.segments)
    for (const LocalCall& call : segment.calls) {
      ++calls;
      EXPECT_LE(call.spec.attrs.text("expr").size(), 1000u);
    }
  EXPECT_GT(calls, 4u);
  EXPECT_LT(calls, 20u);
}

TEST(Chains, AValueWithSeveralReadersIsNotRepeatedIfItTakesThreeOperations) {
  Program p;
  ValueId x = p.input("x"), negated = build::neg(p.b, build::relu(p.b, build::neg(p.b, x)));
  p.output(build::exp(p.b, negated), "a");
  p.output(build::tanh(p.b, negated), "b");
  EXPECT_EQ(p.calls(), "-max(-x0, 0); exp(x0); tanh(x0)");
}

TEST(Chains, ACallIsNotMovedPastAnUpdateOfItsOperand) {
  Program p;
  ValueId w = testing::parameter(p.b, "w", {DType::f32, {8, 6}}),
          m = testing::parameter(p.b, "m", {DType::f32, {8, 6}});
  auto next = build::sgd(p.b, w, m, p.input("g"), p.input("lr", {}), {.momentum = 0.9});
  p.graph.variables[0].updated = next.w, p.graph.variables[1].updated = next.m;
  p.output(build::mul(p.b, build::exp(p.b, w), next.m));  // exp reads the weight before sgd overwrites it
  const std::string calls = p.calls();
  EXPECT_NE(calls.find("exp(x0)"), std::string::npos) << calls;
  EXPECT_EQ(calls.find("exp(x0) * "), std::string::npos) << calls;
}

// If the sum were merged with its reader after the products, both of its operands would be alive during the products,
// instead of the sum.
TEST(Chains, NoMoreMemoryIsAliveBetweenACallAndItsReader) {
  const auto calls = [](bool keeps_operand) {
    Program p;
    ValueId w = p.input("w", {8, 8}), a = build::matmul(p.b, p.input("x", {8, 8}), w), b = build::matmul(p.b, a, w);
    ValueId sum = build::add(p.b, a, b), product = build::matmul(p.b, w, b);
    p.output(build::matmul(p.b, build::mul(p.b, sum, product), keeps_operand ? a : w));
    return p.calls();
  };
  EXPECT_EQ(calls(false), "matmul; matmul; x0 + x1; matmul; x0 * x1; matmul");
  EXPECT_EQ(calls(true), "matmul; matmul; matmul; (x1 + x2) * x0; matmul");
}

TEST(Chains, AResultTakesTheMemoryOfAnOperand) {
  Program p;
  ValueId x = build::matmul(p.b, p.input("x", {8, 8}), p.input("w", {8, 8}));
  p.output(build::matmul(p.b, build::exp(p.b, build::add(p.b, p.input("y", {8, 8}), x)), p.input("v", {8, 8})));
  const Compilation c = p.compiled();
  for (const LocalSegment& segment : c.local.segments)
    for (const LocalCall& call : segment.calls)
      if (call.spec.op == "pointwise") {
        ASSERT_EQ(call.merged.size(), 1u);
        const LocalId root = c.local.values[call.out[0]].root;
        EXPECT_TRUE(root == c.local.values[call.in[0]].root || root == c.local.values[call.in[1]].root);
      }
}

TEST(Chains, NothingIsMergedIfThePassIsOff) {
  Program p;
  p.output(build::exp(p.b, build::neg(p.b, p.input("x"))));
  EXPECT_EQ(p.calls(), "exp(-x0)");
  p.options.off = {"fuse"};
  EXPECT_EQ(p.calls(), "-x0; exp(x0)");
}

}  // namespace
}  // namespace karez::passes
