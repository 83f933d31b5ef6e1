// Programs whose best layouts are known by name: what the planner pays is the closed form of their communication. r = (n - 1) / n, s bytes an
// element, B tokens, H width, L layers; a byte costs `beta`, a message nothing, only matrix products take time, and all devices share them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::parameter;
constexpr double beta = 1e-10, rate = 1e9, s = 4;

CostTable bytes_alone() {
  CostTable costs;
  costs.link = {0, beta};
  costs.matmul_flops = rate;
  costs.memory_bytes = 1e30;
  costs.call = 0;
  return costs;
}

struct Program {
  Graph graph;
  Builder b;
  std::vector<ValueId> weights;
  ValueId lr;
  double flops = 0;  // of all products together
  explicit Program(const char* mesh) : b(graph, testing::table()) {
    graph.meshes = {Mesh::parse(mesh)};
    b.where = "net.cc:7";
    lr = build::input(b, "lr", {DType::f32, {}});
  }
  Program(const Program&) = delete;
  ValueId dense(ValueId x, std::int64_t out) {
    const Shape shape = graph.type(x).shape;
    weights.push_back(parameter(b, cat("w", weights.size()), {DType::f32, {out, shape[1]}}));
    return build::matmul(b, x, weights.back(), {.transpose_b = true});
  }
  // Every weight makes a step against the loss; `more` are gradients that somebody outside wants, whole.
  void train(ValueId loss, const std::vector<ValueId>& more = {}) {
    graph.outputs.push_back({"loss", loss});
    std::vector<ValueId> of = weights;
    of.insert(of.end(), more.begin(), more.end());
    const auto gradients = gradient(b, loss, of);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      ValueId m = parameter(b, cat("m", i), graph.type(weights[i]));
      auto updated = build::sgd(b, weights[i], m, gradients[i], lr, {.momentum = 0.9});
      graph.variables[i].updated = updated.w;
      graph.variables.back().updated = updated.m;
    }
    for (std::size_t i = weights.size(); i < of.size(); ++i) graph.outputs.push_back({cat("d", i), gradients[i]});
  }
  Compilation planned(const CostTable& costs = bytes_alone()) const {
    Compilation c = testing::compilation(graph);
    c.options.costs = costs;
    run_passes(c, {"canonicalise", "shard"});
    return c;
  }
};

// 2 m n k for each product.
double flops_of(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes) {
    if (node.op->name != "matmul") continue;
    double cells = 1;
    for (auto d : graph.type(node.outputs[0]).shape) cells *= static_cast<double>(d);
    const Shape& a = graph.type(node.inputs[0]).shape;
    const bool turned = node.attrs.has("transpose_a") && node.attrs.flag("transpose_a");
    flops += 2 * cells * static_cast<double>(turned ? a[a.size() - 2] : a.back());
  }
  return flops;
}

// What is paid beside the products is `bytes` of each device. Scalars (the loss) may add a few.
void expect_bytes(const Compilation& c, double bytes, double few = 64) {
  EXPECT_TRUE(c.optimal) << c.shard_report;
  const double paid = (c.cost - flops_of(c.graph) / rate / c.graph.meshes[0].size()) / beta;
  EXPECT_GE(paid, bytes * (1 - 1e-6)) << print(c.graph);
  EXPECT_LE(paid, bytes * (1 + 1e-6) + few) << print(c.graph);
}

ValueId stack(Program& p, std::int64_t tokens, std::int64_t width, int layers) {
  ValueId h = build::input(p.b, "x", {DType::f32, {tokens, width}});
  for (int l = 0; l < layers; ++l) h = build::tanh(p.b, p.dense(h, width));
  return build::mean(p.b, h);
}

TEST(ShardForms, ManyTokensAndNarrowLayersAreDataParallel) {
  constexpr int n = 4, L = 3, H = 64, B = 4096;
  Program p("data=4");
  p.train(stack(p, B, H, L));
  const double r = (n - 1.0) / n;
  expect_bytes(p.planned(), 2 * r * L * H * H * s);
}

TEST(ShardForms, FewTokensAndWideLayersAlternateColumnsAndRows) {
  constexpr int n = 4, L = 4, H = 512, B = 16;
  Program p("model=4");
  p.train(stack(p, B, H, L));
  const double r = (n - 1.0) / n;
  expect_bytes(p.planned(), 2 * r * (L - 1) * B * H * s);
}

TEST(ShardForms, ABlockOfTwoLayersIsMegatrons) {
  constexpr int n = 4, H = 128, B = 16;
  Program p("model=4");
  ValueId x = build::input(p.b, "x", {DType::f32, {B, H}});
  p.graph.value(x).layout = broadcast_layout(p.graph.meshes[0]);
  ValueId y = p.dense(build::relu(p.b, p.dense(x, 4 * H)), H);
  p.train(build::mean(p.b, build::tanh(p.b, y)), {x});
  const double r = (n - 1.0) / n;
  expect_bytes(p.planned(), 4 * r * B * H * s);
}

// Heads are split among devices; what comes in and goes out is whole.
TEST(ShardForms, AttentionIsSplitByHeadsAndItsMlpByColumnsAndRows) {
  constexpr int n = 4, H = 64, sequences = 2, length = 8, heads = 4, B = sequences * length;
  Program p("model=4");
  Builder& b = p.b;
  ValueId x = build::input(b, "x", {DType::f32, {B, H}});
  p.graph.value(x).layout = broadcast_layout(p.graph.meshes[0]);
  auto split = [&](ValueId v) { return build::transpose(b, build::reshape(b, v, {sequences, length, heads, H / heads}), {0, 2, 1, 3}); };
  ValueId q = split(p.dense(x, H)), k = split(p.dense(x, H)), v = split(p.dense(x, H));
  ValueId weights = build::softmax(b, build::matmul(b, q, k, {.transpose_b = true}));
  ValueId mixed = build::reshape(b, build::transpose(b, build::matmul(b, weights, v), {0, 2, 1, 3}), {B, H});
  ValueId h = build::tanh(b, p.dense(mixed, H));
  ValueId y = p.dense(build::relu(b, p.dense(h, 4 * H)), H);
  p.train(build::mean(b, build::tanh(b, y)), {x});
  const double r = (n - 1.0) / n;
  expect_bytes(p.planned(), 8 * r * B * H * s);
}

// Many classes and few rows: each device has its part of the classes; all know of a row its largest logit and the sum of its exponentials. The
// logits of labels, 8 r B more where each is known to all, are summed into the loss by whoever has them. Where rows are many and classes few, the
// weights are whole and their gradients summed.
TEST(ShardForms, AWideClassifierIsSplitByClassesAndANarrowOneByRows) {
  constexpr int n = 4, d = 64;
  const double r = (n - 1.0) / n;
  {
    constexpr int B = 16, classes = 4096;
    Program p("model=4");
    ValueId x = build::input(p.b, "x", {DType::f32, {B, d}});
    p.graph.value(x).layout = broadcast_layout(p.graph.meshes[0]);
    p.train(build::cross_entropy(p.b, p.dense(x, classes), build::input(p.b, "labels", {DType::i32, {B}})), {x});
    expect_bytes(p.planned(), 2 * r * B * d * s + 4 * r * B * s);
  }
  {
    constexpr int B = 4096, classes = 16;
    Program p("model=4");
    ValueId x = build::input(p.b, "x", {DType::f32, {B, d}});
    p.train(build::cross_entropy(p.b, p.dense(x, classes), build::input(p.b, "labels", {DType::i32, {B}})));
    expect_bytes(p.planned(), 2 * r * classes * d * s);
  }
}

// Rows of a large table go to batches that are split. By columns each device sends of its column what others' batches have; by rows all of a
// batch is summed.
TEST(ShardForms, AnEmbeddingIsSplitByColumnsWhichTakesAnNthOfRows) {
  constexpr int n = 4, d = 64, B = 256, words = 16384;
  const double r = (n - 1.0) / n;
  for (const bool by_rows : {false, true}) {
    Program p("data=4");
    p.weights.push_back(parameter(p.b, "table", {DType::f32, {words, d}}));
    if (by_rows) p.graph.variables[0].stored = {S(0)};
    ValueId h = build::gather(p.b, p.weights[0], build::input(p.b, "x", {DType::i32, {B}}));
    ValueId split = build::tanh(p.b, h);
    p.graph.value(split).layout = {S(0)};
    p.train(build::mean(p.b, build::tanh(p.b, split)));
    expect_bytes(p.planned(), 2 * r * B * d * s / (by_rows ? 1 : n));
  }
}

// What a message costs is more than all there is to compute.
TEST(ShardForms, TinyTensorsAreReplicated) {
  Program p("data=2,model=2");
  p.train(stack(p, 4, 4, 2));
  CostTable costs = bytes_alone();
  costs.link.alpha = 1;
  const Compilation c = p.planned(costs);
  EXPECT_TRUE(c.optimal) << c.shard_report;
  EXPECT_NEAR(c.cost, flops_of(c.graph) / rate, 1e-12);
  for (const Node& node : c.graph.nodes)
    if (node.op->name == "matmul") { EXPECT_EQ(*c.graph.value(node.outputs[0]).layout, broadcast_layout(c.graph.meshes[0])); }
}

// Gradients cross the slow axis once a step, activations of every layer the fast one.
TEST(ShardForms, BatchesAreSplitOnTheSlowAxisAndLayersOnTheFastOne) {
  for (const bool slow_first : {true, false}) {
    constexpr int H = 64, L = 2, tokens = 512;
    Program p(slow_first ? "slow=2,fast=2" : "fast=2,slow=2");
    p.train(stack(p, tokens, H, L));
    CostTable costs = bytes_alone();
    costs.axis_links = {{"slow", {0, 1e-8}}, {"fast", {0, 1e-12}}};
    const Compilation c = p.planned(costs);
    EXPECT_TRUE(c.optimal) << c.shard_report;
    // On the slow axis: each gradient's part of the fast one, reduced.
    const double r = 0.5, slow = 2 * r * L * H * H * s / 2 * 1e-8;
    const double paid = c.cost - flops_of(c.graph) / rate / 4;
    EXPECT_GE(paid, slow * (1 - 1e-6));
    EXPECT_LE(paid, slow * 1.05);
    for (const Node& node : c.graph.nodes) {
      if (node.op->name != "tanh") continue;
      EXPECT_EQ((*c.graph.value(node.outputs[0]).layout)[slow_first ? 0 : 1], S(0)) << print(*c.graph.value(node.outputs[0]).layout);
    }
  }
}

}  // namespace
}  // namespace karez::passes
