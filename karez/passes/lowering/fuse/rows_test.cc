// Tests of merging reductions of rows with pointwise calls: the programs of merged calls, and calls that must stay
// separate.
#include <gtest/gtest.h>

#include "karez/base/row_program.h"
#include "karez/base/text.h"
#include "karez/ops/norms.h"
#include "karez/passes/compile.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_interpreter.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

struct Program {
  Graph graph;
  Builder b{graph, table()};
  testing::AnyCatalog catalog;
  CompileOptions options;
  Program() { catalog.rows = true; }
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
  std::vector<LocalCall> calls() {
    std::vector<LocalCall> out;
    for (const LocalSegment& segment : compiled().local.segments)
      out.insert(out.end(), segment.calls.begin(), segment.calls.end());
    return out;
  }
  // The programs of row programs, the expressions of pointwise calls and the names of other ops, in order.
  std::string text() {
    return join(calls(), " | ", [](const LocalCall& call) {
      return call.spec.op == "pointwise"     ? call.spec.attrs.text("expr")
             : call.spec.op == "row_program" ? call.spec.attrs.text("program")
                                             : call.spec.op;
    });
  }
};

TEST(Rows, ASoftmaxIsOneCall) {
  Program p;
  p.output(build::softmax(p.b, p.input("x")));
  EXPECT_EQ(p.text(), "x1 = row_max(x0); x2 = x0 - x1; x3 = exp(x2); x4 = row_sum(x3); x5 = x3 / x4; return x5");
  const Compilation c = p.compiled();
  for (const Actor& actor : c.plan.actors)
    for (const Call& call : actor.calls)
      EXPECT_EQ(call.where.substr(0, 41), "reduce_max + sub + exp + reduce_sum + div") << call.where;
}

TEST(Rows, ALayerNormWithWeightAndBiasIsOneCall) {
  Program p;
  ValueId x = p.input("x", {2, 4, 6});
  p.output(build::layer_norm(p.b, x, 1, 1e-5, p.input("w", {6}), p.input("b", {6})));
  const std::vector<LocalCall> calls = p.calls();
  ASSERT_EQ(calls.size(), 1u) << p.text();
  EXPECT_EQ(calls[0].spec.op, "row_program");
  std::vector<View> views;  // x, 1 / 6, eps, w, b in some order
  for (const View& view : calls[0].spec.in) views.push_back(view);
  EXPECT_EQ(std::count(views.begin(), views.end(), View(DType::f32, {8, 6})), 1);
  EXPECT_EQ(std::count(views.begin(), views.end(), View(DType::f32, {1, 6})), 2);
  EXPECT_EQ(std::count(views.begin(), views.end(), View(DType::f32, {1, 1})), 2);
}

TEST(Rows, CrossEntropyAndItsGradientAreOneCallOnTheMatrix) {
  Program p;
  ValueId x = p.input("x"), loss = build::cross_entropy(p.b, x, p.input("labels", {8}, DType::i64));
  const ValueId wrt[] = {x};
  p.output(loss, "loss");
  p.output(gradient(p.b, loss, wrt)[0], "dx");
  int on_matrix = 0;
  for (const LocalCall& call : p.calls())
    for (const auto* views : {&call.spec.in, &call.spec.out})
      if (std::any_of(views->begin(), views->end(), [](const View& view) { return view.count() == 48; })) {
        ++on_matrix;
        EXPECT_NE(call.spec.attrs.text("program", "").find("one_hot"), std::string::npos);
        EXPECT_EQ(call.spec.attrs.text("of"), "cross_entropy's label");
        break;  // the next call
      }
  EXPECT_EQ(on_matrix, 1) << p.text();
}

TEST(Rows, ResultsThatOtherCallsReadAreResultsOfTheMergedCall) {
  Program p;
  ValueId x = p.input("x"), y = build::softmax(p.b, x), w = p.input("w", {6, 6});
  const ValueId wrt[] = {x};
  p.output(gradient(p.b, build::sum(p.b, build::matmul(p.b, y, w)), wrt)[0], "dx");
  const std::vector<LocalCall> calls = p.calls();
  std::size_t programs = 0;
  for (const LocalCall& call : calls) programs += call.spec.op == "row_program";
  EXPECT_GE(programs, 1u) << p.text();
  for (const LocalCall& call : calls) {
    EXPECT_NE(call.spec.op, "reduce_max") << p.text();
    if (call.spec.op == "row_program") {
      EXPECT_EQ(call.out.size(), base::parse_row_program(call.spec.attrs.text("program")).results.size());
    }
  }
}

// If another call between the members reads x - mean, it computes the difference again, as in a chain.
TEST(Rows, ACheapOperationIsRepeatedInOtherReaders) {
  Program p;
  ValueId x = p.input("x", {8, 64}), row = build::reduce_max(p.b, x, {1});
  ValueId centred = build::sub(p.b, x, build::broadcast(p.b, row, {8, 64}, {0}));
  ValueId total = build::reduce_sum(p.b, build::exp(p.b, centred), {1});
  ValueId product = build::matmul(p.b, centred, p.input("w", {64, 64}));
  p.output(build::mul(p.b, build::mul(p.b, product, centred), product), "a");
  p.output(total, "total");
  EXPECT_EQ(p.text(),
            "x1 = row_max(x0); x2 = x0 - x1; x3 = exp(x2); x4 = row_sum(x3); return x1, x4 | x0 - x1 | matmul | "
            "x0 * x1 * x0");
}

TEST(Rows, ACallThatNeedsAResultOfAnotherCallStaysOutOfTheProgram) {
  Program p;
  ValueId x = p.input("x", {6, 6}), y = build::softmax(p.b, x);
  ValueId product = build::matmul(p.b, y, p.input("w", {6, 6}));
  p.output(build::mul(p.b, y, product));
  EXPECT_EQ(p.text(),
            "x1 = row_max(x0); x2 = x0 - x1; x3 = exp(x2); x4 = row_sum(x3); x5 = x3 / x4; return x5 | matmul | "
            "x0 * x1");
}

TEST(Rows, ReductionsOfOtherDimensionsStay) {
  Program columns;
  ValueId x = columns.input("x");
  columns.output(build::softmax(columns.b, x, 0));
  EXPECT_EQ(columns.text().find("row_"), std::string::npos) << columns.text();
  Program middle;
  middle.output(build::softmax(middle.b, middle.input("x", {3, 4, 5}), 1));
  EXPECT_EQ(middle.text().find("row_"), std::string::npos) << middle.text();
  Program one;  // a row of one element needs no reduction
  one.output(build::softmax(one.b, one.input("x", {8, 1})));
  EXPECT_EQ(one.text().find("row_"), std::string::npos) << one.text();
}

TEST(Rows, ALongRowWhoseTermsATeamDividesStays) {
  Program p;
  p.options.team = 2;
  p.output(build::softmax(p.b, p.input("x", {1, 1 << 16})));
  EXPECT_EQ(p.text().find("row_"), std::string::npos) << p.text();
  p.options.team = 1;
  EXPECT_NE(p.text().find("row_"), std::string::npos) << p.text();
}

TEST(Rows, ARoundedValueIsAResultButNoStatementReadsIt) {
  Program p;
  ValueId x = p.input("x", {8, 6}, DType::bf16);
  p.output(build::exp(p.b, build::softmax(p.b, x)));
  const std::vector<LocalCall> calls = p.calls();
  ASSERT_EQ(calls.size(), 2u) << p.text();
  EXPECT_EQ(calls[0].out.size(), 1u) << p.text();
  EXPECT_EQ(calls[0].spec.op, "row_program");
  EXPECT_EQ(calls[0].spec.in[0].dtype, DType::bf16);
  EXPECT_EQ(calls[0].spec.out[0].dtype, DType::bf16);
  EXPECT_EQ(calls[1].spec.op, "pointwise");
}

TEST(Rows, ACallIsNotMovedPastAnUpdateOfItsOperand) {
  Program p;
  ValueId w = testing::parameter(p.b, "w", {DType::f32, {8, 6}}),
          m = testing::parameter(p.b, "m", {DType::f32, {8, 6}});
  ValueId largest = build::reduce_max(p.b, w, {1});
  auto next = build::sgd(p.b, w, m, p.input("g"), p.input("lr", {}), {.momentum = 0.9});
  p.graph.variables[0].updated = next.w, p.graph.variables[1].updated = next.m;
  p.output(build::sub(p.b, next.m, build::broadcast(p.b, largest, {8, 6}, {0})));
  const std::string text = p.text();
  EXPECT_NE(text.find("reduce_max"), std::string::npos) << text;
  EXPECT_EQ(text.find("row_max"), std::string::npos) << text;
}

TEST(Rows, AResultTakesTheMemoryOfAnOperand) {
  Program p;
  ValueId x = build::matmul(p.b, p.input("x", {8, 8}), p.input("w", {8, 8}));
  p.output(build::matmul(p.b, build::softmax(p.b, x), p.input("v", {8, 8})));
  const Compilation c = p.compiled();
  int programs = 0;
  for (const LocalSegment& segment : c.local.segments)
    for (const LocalCall& call : segment.calls)
      if (call.spec.op == "row_program") {
        ++programs;
        EXPECT_EQ(c.local.values[call.out[0]].root, c.local.values[call.in[0]].root);
      }
  EXPECT_EQ(programs, 1);
}

TEST(Rows, NothingIsMergedWithoutAKernelOrIfThePassIsOffOrChecksNaN) {
  Program p;
  p.output(build::softmax(p.b, p.input("x")));
  const std::string separate = "reduce_max | x0 - x1 | exp(x0) | reduce_sum | x0 / x1";
  p.options.off = {"fuse"};
  EXPECT_EQ(p.text(), separate);
  p.options.off = {}, p.options.check_nan = true;
  EXPECT_EQ(p.text(), separate);
  p.options.check_nan = false, p.catalog.rows = false;
  EXPECT_EQ(p.text(), "reduce_max | exp(x0 - x1) | reduce_sum | x0 / x1");
}

}  // namespace
}  // namespace karez::passes
