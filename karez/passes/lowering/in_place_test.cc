// Tests of the in_place pass: results reuse the memory of operands, plans become smaller, and results do not change.
#include "karez/passes/lowering/in_place.h"

#include <gtest/gtest.h>

#include "karez/passes/compile.h"
#include "karez/passes/test_interpreter.h"
#include "karez/passes/test_programs.h"
#include "karez/plan/live_bytes.h"

namespace karez::passes {
namespace {

using testing::table;

const TensorType vec{DType::f64, {64}};

struct Program {
  Graph graph;
  Builder b{graph, table()};
  // Adds an input that is read ahead, so that no other value shares its memory.
  ValueId input(const std::string& name, const TensorType& type = vec) {
    return build::prefetched_input(b, name, type);
  }
  void output(ValueId value) { graph.outputs.push_back({cat("y", graph.outputs.size()), value}); }
  Compilation compiled(bool on) const {
    Compilation c = testing::compilation(graph);
    c.options.off = {"canonicalise"};
    if (!on) c.options.off.push_back("in_place");
    compile(c);
    return c;
  }
};

// Formats the calls of the only device in order: "exp, neg!", where ! marks calls that overwrite an operand.
std::string calls_of(const Compilation& c) {
  std::string text;
  for (const Actor& actor : c.plan.actors)
    for (const Call& call : actor.calls) {
      bool is_in_place = false;
      for (const Operand& in : call.in)
        for (const Operand& out : call.out)
          is_in_place |= in.block.valid() && in.block == out.block && in.offset == out.offset;
      std::string name = call.attrs.has("expr") ? call.attrs.text("expr") : call.kernel;
      text += cat(text.empty() ? "" : ", ", name, is_in_place ? "!" : "");
    }
  return text;
}

std::map<std::string, testing::Array> run(const Program& p, const Compilation& c) {
  testing::Interpreter interpreter(c.plan, 1);
  std::map<std::string, testing::Array> inputs;
  for (const Node& node : p.graph.nodes)
    if (node.op->name == "input")
      inputs[node.attrs.text("name")] =
          testing::random_array(node.attrs.text("name"), p.graph.type(node.outputs[0]).shape);
  interpreter.launch(inputs);
  return interpreter.outputs;
}

std::int64_t arena(const Compilation& c) { return plan::arena_bytes(c.plan)[DeviceId(0)]; }

// Returns the calls with the pass, and checks that its results are bit for bit the same as those without the pass.
std::string checked(const Program& p) {
  Compilation with_pass = p.compiled(true), without_pass = p.compiled(false);
  EXPECT_EQ(calls_of(without_pass).find('!'), std::string::npos) << calls_of(without_pass);
  EXPECT_LE(arena(with_pass), arena(without_pass));
  auto results = run(p, with_pass), expected = run(p, without_pass);
  for (const auto& [name, array] : expected) EXPECT_EQ(results.at(name).data, array.data) << name;
  return calls_of(with_pass);
}

TEST(InPlace, AChainInsideAnActorUsesOneBufferAndSavesBytes) {
  Program p;
  ValueId a = build::exp(p.b, p.input("x"));
  p.output(build::reduce_sum(p.b, build::tanh(p.b, build::neg(p.b, build::sqrt(p.b, a))), {0}));
  EXPECT_EQ(checked(p), "exp(x0), sqrt(x0)!, -x0!, tanh(x0)!, any.reduce_sum");
  EXPECT_GE(arena(p.compiled(false)) - arena(p.compiled(true)), 512 - 64)
      << "the pass saves one buffer of 512 bytes, except for the result";
}

TEST(InPlace, AnOperandThatIsReadLaterIsNotOverwritten) {
  Program p;
  ValueId a = build::exp(p.b, p.input("x")), b = build::neg(p.b, a);
  p.output(build::reduce_sum(p.b, build::mul(p.b, b, a), {0}));
  EXPECT_EQ(checked(p), "exp(x0), -x0, x0 * x1!, any.reduce_sum");
}

TEST(InPlace, AnOperandThatIsReadLaterThroughAWindowIsNotOverwritten) {
  Program p;
  ValueId a = build::exp(p.b, p.input("x", {DType::f64, {8, 8}})), turned = build::transpose(p.b, a, {1, 0}),
          b = build::neg(p.b, a);
  p.output(build::reduce_sum(p.b, build::mul(p.b, b, turned), {0, 1}));
  EXPECT_EQ(checked(p), "exp(x0), -x0, x0 * x1!, any.reduce_sum");
}

TEST(InPlace, AnOperandThatTheCallReadsThroughTwoViewsIsNotOverwritten) {
  Program p;
  ValueId a = build::exp(p.b, p.input("x", {DType::f64, {8, 8}}));
  p.output(build::reduce_sum(p.b, build::mul(p.b, a, build::transpose(p.b, a, {1, 0})), {0, 1}));
  EXPECT_EQ(checked(p), "exp(x0), x0 * x1, any.reduce_sum")
      << "element (i, j) would be overwritten before (j, i) reads it";
  Program square;
  a = build::exp(square.b, square.input("x"));
  square.output(build::reduce_sum(square.b, build::mul(square.b, a, a), {0}));
  EXPECT_EQ(checked(square), "exp(x0), x0 * x1!, any.reduce_sum");
}

TEST(InPlace, AnOperandWithADifferentSizeOrStridesIsNotOverwritten) {
  Program slice;
  ValueId a = build::exp(slice.b, slice.input("x"));
  slice.output(build::reduce_sum(slice.b, build::neg(slice.b, build::slice(slice.b, a, {0}, {32})), {0}));
  EXPECT_EQ(checked(slice), "exp(x0), -x0, any.reduce_sum");
  Program transposed;
  a = build::exp(transposed.b, transposed.input("x", {DType::f64, {8, 8}}));
  transposed.output(
      build::reduce_sum(transposed.b, build::neg(transposed.b, build::transpose(transposed.b, a, {1, 0})), {0, 1}));
  EXPECT_EQ(checked(transposed), "exp(x0), -x0, any.reduce_sum");
  Program broadcast;
  a = build::exp(broadcast.b, broadcast.input("x", {DType::f64, {8}}));
  broadcast.output(
      build::reduce_sum(broadcast.b, build::neg(broadcast.b, build::broadcast(broadcast.b, a, {8, 8}, {1})), {0, 1}));
  EXPECT_EQ(checked(broadcast), "exp(x0), -x0, any.reduce_sum");
}

TEST(InPlace, InputsVariablesConstantsAndOutputsAreNotOverwritten) {
  Program p;
  ValueId w = testing::parameter(p.b, "w", vec);
  p.output(build::reduce_sum(
      p.b, build::mul(p.b, build::neg(p.b, p.input("x")), build::neg(p.b, build::iota(p.b, vec, 0))), {0}));
  p.output(build::reduce_sum(p.b, build::exp(p.b, w), {0}));
  ValueId shown = build::exp(p.b, p.input("z"));
  p.output(shown);
  p.output(build::reduce_sum(p.b, build::neg(p.b, shown), {0}));
  std::string calls = calls_of(p.compiled(true));
  EXPECT_EQ(std::count(calls.begin(), calls.end(), '!'), 1) << calls << ": expected only the product to be in place";
}

TEST(InPlace, AnOperandIsOverwrittenOnlyIfTheOpAllowsIt) {
  Program p;
  ValueId a = build::exp(p.b, p.input("x", {DType::f64, {8, 8}}));
  p.output(build::reduce_sum(p.b, build::matmul(p.b, a, p.input("w", {DType::f64, {8, 8}})), {0, 1}));
  EXPECT_EQ(checked(p).find('!'), std::string::npos);
  Program compare;  // a bool has a different size from the compared operands
  a = build::exp(compare.b, compare.input("x"));
  compare.output(
      build::select(compare.b, build::gt(compare.b, a, compare.input("y")), compare.input("y"), compare.input("z")));
  EXPECT_EQ(calls_of(compare.compiled(true)).find('!'), std::string::npos) << calls_of(compare.compiled(true));
}

}  // namespace
}  // namespace karez::passes
