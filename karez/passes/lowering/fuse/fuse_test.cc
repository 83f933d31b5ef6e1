// Tests of the fuse pass: calls that are fused into a library call or into one update, and calls that must stay
// separate.
#include "karez/passes/lowering/fuse/fuse.h"

#include <gtest/gtest.h>

#include "karez/base/text.h"

#include "karez/passes/compile.h"
#include "karez/passes/lowering/memory.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

// A catalog that supports every call except the fused calls that `unsupported` names; for "bias" it has a slow kernel.
class LimitedCatalog : public testing::AnyCatalog {
 public:
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    if (call.attrs.flag("relu", false) && unsupported == "relu") return std::nullopt;
    if (call.attrs.flag("bias", false) && unsupported == "bias") return KernelChoice{"slow." + call.op, 0};
    if (call.op == "sgd" && call.in.size() > 4 && unsupported == "many") return std::nullopt;
    return AnyCatalog::find(call);
  }
  std::string unsupported;
};

struct Program {
  Graph graph;
  Builder b{graph, table()};
  LimitedCatalog catalog;
  CompileOptions options;
  ValueId input(const std::string& name, Shape shape) { return build::input(b, name, {DType::f32, std::move(shape)}); }
  Compilation compiled() {
    Compilation c = testing::compilation(graph);
    c.catalog = &catalog;
    c.options = options;
    compile(c);
    return c;
  }
  // Formats the calls of the first device in order: "matmul{bias relu} add".
  std::string calls() {
    std::string text;
    Compilation c = compiled();
    for (const LocalSegment& segment : c.local.segments)
      for (const LocalCall& call : segment.calls) {
        if (segment.device > 0) continue;
        std::string name = call.spec.op == "pointwise" ? c.graph.node(call.node).op->name : call.spec.op;
        std::string fused =
            cat(call.spec.attrs.flag("bias", false) ? "bias" : "", call.spec.attrs.flag("relu", false) ? " relu" : "");
        text += cat(text.empty() ? "" : " ", name, fused.empty() ? "" : "{" + fused + "}");
      }
    return text;
  }
  void output(ValueId value, const std::string& name = "y") { graph.outputs.push_back({name, value}); }
};

struct Linear : Program {
  ValueId product, sum, activation;
  explicit Linear(bool swapped = false) {
    product = build::matmul(b, input("x", {8, 4}), input("w", {4, 6}));
    ValueId broadcast_bias = build::broadcast(b, input("bias", {6}), {8, 6}, {1});
    sum = swapped ? build::add(b, broadcast_bias, product) : build::add(b, product, broadcast_bias);
    activation = build::relu(b, sum);
  }
};

TEST(Fuse, BiasAndReluAreFusedIntoAMatmul) {
  for (bool swapped : {false, true}) {
    Linear p(swapped);
    p.output(p.activation);
    EXPECT_EQ(p.calls(), "matmul{bias relu}");
    Compilation c = p.compiled();
    for (const LocalSegment& segment : c.local.segments)
      for (const LocalCall& call : segment.calls) {
        ASSERT_EQ(call.in.size(), 3u);
        EXPECT_EQ(print(call.spec.in[2]), "f32[6]") << "the call must read the bias itself, not its broadcast";
      }
  }
}

TEST(Fuse, BiasAndReluAreFusedIntoAConvolution) {
  Program p;
  ValueId y = build::conv2d_bias(p.b, p.input("x", {2, 3, 8, 8}), p.input("w", {4, 3, 3, 3}), p.input("bias", {4}));
  p.output(build::relu(p.b, y));
  EXPECT_EQ(p.calls(), "conv2d{bias relu}");
}

TEST(Fuse, AReluWithoutABiasIsFused) {
  Program p;
  p.output(build::relu(p.b, build::matmul(p.b, p.input("x", {8, 4}), p.input("w", {4, 6}))));
  EXPECT_EQ(p.calls(), "matmul{ relu}");
}

TEST(Fuse, AProductOrSumWithAnotherReaderIsNotFused) {
  Linear product_read;
  product_read.output(product_read.activation);
  product_read.output(build::exp(product_read.b, product_read.product), "z");
  EXPECT_EQ(product_read.calls(), "matmul relu exp") << "the sum is merged into the ReLU";
  Linear sum_read;
  sum_read.output(sum_read.activation);
  sum_read.output(build::exp(sum_read.b, sum_read.sum), "z");
  EXPECT_EQ(sum_read.calls(), "matmul{bias} relu exp");
  Linear product_output;
  product_output.output(product_output.activation);
  product_output.output(product_output.product, "z");
  EXPECT_EQ(product_output.calls(), "matmul relu");
  Linear window_read;
  window_read.output(window_read.activation);
  window_read.output(build::exp(window_read.b, build::transpose(window_read.b, window_read.product, {1, 0})), "z");
  EXPECT_EQ(window_read.calls(), "matmul relu exp") << "a window is a reader";
}

// The second product also reads the first one. When its bias is fused, it moves to the position of the sum.
TEST(Fuse, AReluIsNotFusedIntoAProductThatAFusedProductReads) {
  Program p;
  ValueId product = build::matmul(p.b, p.input("x", {8, 4}), p.input("w", {4, 6}));
  ValueId second = build::matmul(p.b, product, p.input("v", {6, 6}));
  p.output(build::add(p.b, second, build::broadcast(p.b, p.input("bias", {6}), {8, 6}, {1})));
  p.output(build::relu(p.b, product), "z");
  EXPECT_EQ(p.calls(), "matmul matmul{bias} relu");
}

TEST(Fuse, SummandsThatAreNotABiasAreNotFused) {
  Program full_sum;
  full_sum.output(build::add(full_sum.b,
                             build::matmul(full_sum.b, full_sum.input("x", {8, 4}), full_sum.input("w", {4, 6})),
                             full_sum.input("bias", {8, 6})));
  EXPECT_EQ(full_sum.calls(), "matmul add");
  Program row_sum;
  ValueId column = build::broadcast(row_sum.b, row_sum.input("bias", {8}), {8, 6}, {0});
  row_sum.output(
      build::add(row_sum.b, build::matmul(row_sum.b, row_sum.input("x", {8, 4}), row_sum.input("w", {4, 6})), column));
  EXPECT_EQ(row_sum.calls(), "matmul add");
  Program doubled;
  ValueId product = build::matmul(doubled.b, doubled.input("x", {8, 4}), doubled.input("w", {4, 6}));
  doubled.output(build::add(doubled.b, product, product));
  EXPECT_EQ(doubled.calls(), "matmul add");
}

TEST(Fuse, CallsOfDifferentActorsAreNotFused) {  // the product is Partial: it is reduced before the bias is added
  Program p;
  p.graph.meshes = {Mesh::parse("model=2")};
  ValueId x = p.input("x", {8, 4}), w = testing::parameter(p.b, "w", {DType::f32, {4, 6}});
  p.graph.variables[0].stored = Layout{S(0)};
  ValueId product = build::matmul(p.b, x, w);
  p.graph.value(product).layout = Layout{P()};
  ValueId sum = build::add(p.b, product, build::broadcast(p.b, p.input("bias", {6}), {8, 6}, {1}));
  p.graph.value(sum).layout = Layout{B()};
  p.output(build::relu(p.b, sum));
  EXPECT_EQ(p.calls(), "matmul relu");
}

TEST(Fuse, CallsStaySeparateIfNoKernelSupportsTheFusedCall) {
  Linear no_relu;
  no_relu.output(no_relu.activation);
  no_relu.catalog.unsupported = "relu";
  EXPECT_EQ(no_relu.calls(), "matmul{bias} relu");
  Linear slow_bias;  // only a slower kernel supports a bias
  slow_bias.output(slow_bias.activation);
  slow_bias.catalog.unsupported = "bias";
  EXPECT_EQ(slow_bias.calls(), "matmul relu");
}

TEST(Fuse, ACallIsNotMovedPastAnUpdateOfItsOperand) {
  Program p;
  ValueId w = testing::parameter(p.b, "w", {DType::f32, {4, 6}}),
          m = testing::parameter(p.b, "m", {DType::f32, {4, 6}});
  ValueId lr = p.input("lr", {});
  auto next = build::sgd(p.b, w, m, p.input("g", {4, 6}), lr, {.momentum = 0.9});
  p.graph.variables[0].updated = next.w, p.graph.variables[1].updated = next.m;
  ValueId bias = build::reduce_sum(p.b, next.m, {0});  // depends on the new momentum, which the update computes
  p.output(build::add(p.b, build::matmul(p.b, p.input("x", {8, 4}), w), build::broadcast(p.b, bias, {8, 6}, {1})));
  EXPECT_EQ(p.calls(), "matmul sgd reduce_sum add copy") << "the product reads the weight before sgd overwrites it";
}

TEST(Fuse, ACastFromHalfIsFusedIntoItsReadersOnlyIfAllOfThemArePointwise) {
  for (const bool has_sum : {false, true}) {
    Program p;
    const ValueId x = build::input(p.b, "x", {DType::bf16, {8, 4}});
    const ValueId wide = build::cast(p.b, x, DType::f32);
    p.output(build::exp(p.b, wide));
    if (has_sum) p.output(build::reduce_sum(p.b, wide, {0}), "sum");
    EXPECT_EQ(p.calls(), has_sum ? "cast exp reduce_sum" : "exp");
  }
}

struct Updates : Program {
  ValueId lr;
  Updates() { lr = input("lr", {}); }
  ValueId sgd(const std::string& name, ValueId g, double momentum = 0.9) {
    ValueId w = testing::parameter(b, name, {DType::f32, {4}}),
            m = testing::parameter(b, "m." + name, {DType::f32, {4}});
    auto next = build::sgd(b, w, m, g, lr, {.momentum = momentum});
    std::size_t last = graph.variables.size();
    graph.variables[last - 2].updated = next.w, graph.variables[last - 1].updated = next.m;
    return next.w;
  }
};

TEST(Fuse, UpdatesWithEqualAttributesAreMerged) {
  Updates p;
  for (const char* name : {"a", "b", "c"}) p.sgd(name, p.input(cat("g", name), {4}));
  p.sgd("d", p.input("gd", {4}), 0.5);  // different attributes: not merged
  EXPECT_EQ(p.calls(), "sgd sgd");
  Compilation c = p.compiled();
  const LocalCall* merged = nullptr;
  for (const LocalSegment& segment : c.local.segments)
    for (const LocalCall& call : segment.calls)
      if (call.in.size() > 4) merged = &call;
  ASSERT_NE(merged, nullptr);
  EXPECT_EQ(merged->in.size(), 10u);
  EXPECT_EQ(merged->out.size(), 6u);
  auto name = [&](LocalId v) {
    const LocalValue& root = c.local.values[c.local.values[v].root];
    return root.variable >= 0 ? c.graph.variables[static_cast<std::size_t>(root.variable)].name
                              : c.graph.node(c.graph.value(root.value).producer).attrs.text("name");
  };
  EXPECT_EQ(join(merged->in, " ", name), "a m.a ga b m.b gb c m.c gc lr");
  EXPECT_EQ(join(merged->out, " ", name), "a m.a b m.b c m.c");
}

TEST(Fuse, AdamUpdatesAreMergedToo) {
  Program p;
  ValueId lr = p.input("lr", {}), step = build::input(p.b, "step", {DType::i64, {}});
  for (const char* name : {"a", "b"}) {
    ValueId state[3];
    for (int k = 0; k < 3; ++k) state[k] = testing::parameter(p.b, cat(name, k), {DType::f32, {4}});
    auto next = build::adam(p.b, state[0], state[1], state[2], p.input(cat("g", name), {4}), lr, step);
    std::size_t last = p.graph.variables.size();
    p.graph.variables[last - 3].updated = next.w, p.graph.variables[last - 2].updated = next.m,
                             p.graph.variables[last - 1].updated = next.v;
  }
  EXPECT_EQ(p.calls(), "adam");
}

TEST(Fuse, UpdatesAreNotMergedIfACallBetweenThemReadsTheResultOfTheFirst) {
  Updates p;
  ValueId new_a = p.sgd("a", p.input("ga", {4}));
  p.sgd("b", build::exp(p.b, new_a));  // the second gradient needs the first update
  EXPECT_EQ(p.calls(), "sgd exp sgd copy");
}

TEST(Fuse, UpdatesAreNotMergedIfTheKernelSupportsOnlyOneUpdate) {
  Updates p;
  for (const char* name : {"a", "b", "c"}) p.sgd(name, p.input(cat("g", name), {4}));
  p.catalog.unsupported = "many";
  EXPECT_EQ(p.calls(), "sgd sgd sgd");
}

TEST(Fuse, NothingIsFusedIfThePassIsOff) {
  Linear p;
  p.output(p.activation);
  p.options.off = {"fuse"};
  EXPECT_EQ(p.calls(), "matmul add relu");
}

}  // namespace
}  // namespace karez::passes
