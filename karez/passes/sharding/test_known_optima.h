// For tests: programs with well-known optimal layouts, and the closed form of their cost, with n devices,
// r = (n - 1) / n, s bytes per element, B tokens, width H and L layers. A byte costs `beta`, a message costs nothing,
// only matrix products take time, and all devices share the products.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/test_programs.h"

namespace karez::passes::testing {

struct KnownOptimum {
  std::string name;
  Graph graph;
  CostTable costs;
  double bytes = 0;             // bytes sent by each device, without scalars such as the loss
  double byte = 1e-10;          // seconds per byte
  double tolerated_bytes = 64;  // bytes that may be sent in addition, for scalars
  double seconds() const;       // seconds of products and bytes
};

namespace known_optima {

constexpr double beta = 1e-10, rate = 1e9, s = 4;

inline CostTable byte_costs() {
  CostTable costs;
  costs.link = {0, beta};
  costs.matmul_flops = rate;
  costs.memory_bytes = 1e30;
  costs.call = 0;
  return costs;
}

// Counts 2 m n k for each product.
inline double flops_of(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes) {
    if (node.op->name != "matmul") continue;
    double cells = 1;
    for (auto d : graph.type(node.outputs[0]).shape) cells *= static_cast<double>(d);
    const Shape& a = graph.type(node.inputs[0]).shape;
    const bool transposed = node.attrs.has("transpose_a") && node.attrs.flag("transpose_a");
    flops += 2 * cells * static_cast<double>(transposed ? a[a.size() - 2] : a.back());
  }
  return flops;
}

struct Program {
  Graph graph;
  Builder b;
  std::vector<ValueId> weights;
  ValueId lr;
  explicit Program(const char* mesh) : b(graph, table()) {
    graph.name = "step";
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
  ValueId replicated_input(const char* name, const Shape& shape) {
    ValueId x = build::input(b, name, {DType::f32, shape});
    graph.value(x).layout = broadcast_layout(graph.meshes[0]);
    return x;
  }
  // Updates every weight by SGD on the loss. Gradients of `more` become outputs, in the layouts of these values.
  void train(ValueId loss, const std::vector<ValueId>& more = {}) {
    graph.outputs.push_back({"loss", loss});
    std::vector<ValueId> gradient_targets = weights;
    gradient_targets.insert(gradient_targets.end(), more.begin(), more.end());
    const auto gradients = gradient(b, loss, gradient_targets);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      ValueId m = parameter(b, cat("m", i), graph.type(weights[i]));
      auto updated = build::sgd(b, weights[i], m, gradients[i], lr, {.momentum = 0.9});
      graph.variables[i].updated = updated.w;
      graph.variables.back().updated = updated.m;
    }
    for (std::size_t i = weights.size(); i < gradient_targets.size(); ++i) {
      graph.outputs.push_back({cat("d", i), gradients[i]});
      graph.outputs.back().layout = graph.value(gradient_targets[i]).layout;
    }
  }
  KnownOptimum known_optimum(std::string name, double bytes) && {
    KnownOptimum out;
    out.name = std::move(name), out.graph = std::move(graph), out.costs = byte_costs(), out.bytes = bytes;
    return out;
  }
};

inline ValueId layer_stack(Program& p, std::int64_t tokens, std::int64_t width, int layers) {
  ValueId h = build::input(p.b, "x", {DType::f32, {tokens, width}});
  for (int l = 0; l < layers; ++l) h = build::tanh(p.b, p.dense(h, width));
  return build::mean(p.b, h);
}

inline double ratio(int n) { return (n - 1.0) / n; }

inline KnownOptimum data_parallel() {
  constexpr int n = 4, L = 3, H = 64, B = 4096;
  Program p("data=4");
  p.train(layer_stack(p, B, H, L));
  return std::move(p).known_optimum("data", 2 * ratio(n) * L * H * H * s);
}

inline KnownOptimum columns_and_rows() {
  constexpr int n = 4, L = 4, H = 512, B = 16;
  Program p("model=4");
  p.train(layer_stack(p, B, H, L));
  return std::move(p).known_optimum("columns_rows", 2 * ratio(n) * (L - 1) * B * H * s);
}

inline KnownOptimum megatron_mlp() {
  constexpr int n = 4, H = 128, B = 16;
  Program p("model=4");
  ValueId x = p.replicated_input("x", {B, H});
  ValueId y = p.dense(build::relu(p.b, p.dense(x, 4 * H)), H);
  p.train(build::mean(p.b, build::tanh(p.b, y)), {x});
  return std::move(p).known_optimum("mlp", 4 * ratio(n) * B * H * s);
}

// Attention with heads split among devices, followed by an MLP. Without `tokens_split`, the input, the value between
// the two blocks and the output are Broadcast, which takes two all_reduces in the forward and two in the backward pass.
// With `tokens_split` they are split by tokens; each block then has an all_gather before it and a reduce_scatter after
// it, in the forward and in the backward pass. Either way, each device sends 8 r B H s bytes.
inline KnownOptimum attention_and_mlp(bool tokens_split) {
  constexpr int n = 4, H = 64, sequences = 2, length = 8, heads = 4, B = sequences * length;
  Program p("model=4");
  Builder& b = p.b;
  ValueId x = build::input(b, "x", {DType::f32, {B, H}});
  auto set_layout = [&](ValueId value) {
    p.graph.value(value).layout = tokens_split ? Layout{S(0)} : broadcast_layout(p.graph.meshes[0]);
  };
  set_layout(x);
  auto split = [&](ValueId v) {
    return build::transpose(b, build::reshape(b, v, {sequences, length, heads, H / heads}), {0, 2, 1, 3});
  };
  ValueId q = split(p.dense(x, H)), k = split(p.dense(x, H)), v = split(p.dense(x, H));
  ValueId weights = build::softmax(b, build::matmul(b, q, k, {.transpose_b = true}));
  ValueId mixed = build::reshape(b, build::transpose(b, build::matmul(b, weights, v), {0, 2, 1, 3}), {B, H});
  ValueId h = build::tanh(b, p.dense(mixed, H));
  if (tokens_split) set_layout(h);
  ValueId y = build::tanh(b, p.dense(build::relu(b, p.dense(h, 4 * H)), H));
  if (tokens_split) set_layout(y);
  p.train(build::mean(b, y), {x});
  return std::move(p).known_optimum(tokens_split ? "sequence" : "attention", 8 * ratio(n) * B * H * s);
}

// With many classes and few rows, each device has a part of the classes; all devices receive the largest logit of each
// row and the sum of its exponentials. The logits of labels, which would take 8 r B more bytes if all devices received
// them, are summed into the loss on the device that has them.
inline KnownOptimum wide_classifier() {
  constexpr int n = 4, d = 64, B = 16, classes = 4096;
  Program p("model=4");
  ValueId x = p.replicated_input("x", {B, d});
  p.train(build::cross_entropy(p.b, p.dense(x, classes), build::input(p.b, "labels", {DType::i32, {B}})), {x});
  return std::move(p).known_optimum("classes", 2 * ratio(n) * B * d * s + 4 * ratio(n) * B * s);
}
// With many rows and few classes, the weights are Broadcast and their gradients are summed.
inline KnownOptimum narrow_classifier() {
  constexpr int n = 4, d = 64, B = 4096, classes = 16;
  Program p("model=4");
  ValueId x = build::input(p.b, "x", {DType::f32, {B, d}});
  p.train(build::cross_entropy(p.b, p.dense(x, classes), build::input(p.b, "labels", {DType::i32, {B}})));
  return std::move(p).known_optimum("classes_flip", 2 * ratio(n) * classes * d * s);
}

// Rows of a large table are gathered for a split batch. If the table is split by columns, each device sends the part of
// its columns that the other devices' batches need; if it is split by rows, the rows of the full batch are summed.
inline KnownOptimum embedding(bool by_rows) {
  constexpr int n = 4, d = 64, B = 256, vocabulary = 16384;
  Program p("data=4");
  p.weights.push_back(parameter(p.b, "table", {DType::f32, {vocabulary, d}}));
  if (by_rows) p.graph.variables[0].stored = Layout{S(0)};
  ValueId h = build::gather(p.b, p.weights[0], build::input(p.b, "x", {DType::i32, {B}}));
  ValueId split = build::tanh(p.b, h);
  p.graph.value(split).layout = Layout{S(0)};
  p.train(build::mean(p.b, build::tanh(p.b, split)));
  return std::move(p).known_optimum(by_rows ? "embedding_rows" : "embedding",
                                    2 * ratio(n) * B * d * s / (by_rows ? 1 : n));
}

// One message costs more than all computation, so every device computes everything and sends nothing.
inline KnownOptimum tiny() {
  Program p("data=2,model=2");
  p.train(layer_stack(p, 4, 4, 2));
  KnownOptimum out = std::move(p).known_optimum("tiny", 0);
  out.costs.link.alpha = 1;
  return out;
}

// Gradients cross the slow axis once per step. They are split on the fast axis, so each device sends only its part.
// Activations of every layer cross the fast axis, which costs little.
inline KnownOptimum slow_and_fast(bool slow_first) {
  constexpr int H = 64, L = 2, tokens = 512;
  Program p(slow_first ? "slow=2,fast=2" : "fast=2,slow=2");
  p.train(layer_stack(p, tokens, H, L));
  KnownOptimum out =
      std::move(p).known_optimum(slow_first ? "slow_fast" : "fast_slow", 2 * ratio(2) * L * H * H * s / 2);
  out.costs.axis_links = {{"slow", {0, 1e-8}}, {"fast", {0, 1e-12}}};
  out.byte = 1e-8;
  out.tolerated_bytes = 0.05 * out.bytes;
  return out;
}

inline std::vector<KnownOptimum> all() {
  std::vector<KnownOptimum> out;
  out.push_back(data_parallel());
  out.push_back(columns_and_rows());
  out.push_back(megatron_mlp());
  for (bool tokens_split : {false, true}) out.push_back(attention_and_mlp(tokens_split));
  out.push_back(wide_classifier());
  out.push_back(narrow_classifier());
  for (bool by_rows : {false, true}) out.push_back(embedding(by_rows));
  out.push_back(tiny());
  for (bool slow_first : {true, false}) out.push_back(slow_and_fast(slow_first));
  return out;
}

}  // namespace known_optima

inline double KnownOptimum::seconds() const {
  const double devices = name == "tiny" ? 1 : graph.meshes[0].size();
  return known_optima::flops_of(graph) / known_optima::rate / devices + bytes * byte;
}

}  // namespace karez::passes::testing
