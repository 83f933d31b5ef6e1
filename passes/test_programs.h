// Small training steps and a catalog that runs everything, for the tests of this room.
#pragma once

#include <string>
#include <vector>

#include "ops/all_ops.h"
#include "ops/build.h"
#include "ops/compose.h"
#include "ops/gradient.h"
#include "passes/pipeline.h"

namespace karez::passes::testing {

// Says yes to every call whose operands lie as they are stored by default or repeat (stride 0); names the kernel after the op.
class AnyCatalog : public KernelCatalog {
 public:
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    if (call.op == missing) return std::nullopt;
    return KernelChoice{"any." + call.op, 0};
  }
  std::optional<CallSpec> suggest(const CallSpec& call) const override { return call.op == missing ? std::nullopt : std::optional(call); }
  std::string list(std::string_view op) const override { return op == missing ? "none" : "any." + std::string(op); }
  std::string missing;
};

inline const OpTable& table() {
  static const OpTable ops = all_ops();
  return ops;
}
inline const AnyCatalog& catalog() {
  static const AnyCatalog any;
  return any;
}

inline ValueId parameter(Builder& b, const std::string& name, const TensorType& type) {
  ValueId read = build::variable(b, name, type);
  Variable variable;
  variable.name = name;
  variable.type = type;
  variable.read = read;
  b.graph().variables.push_back(variable);
  return read;
}

// One step of an MLP with sizes[0] inputs and sizes.back() classes by SGD with momentum.
inline Graph mlp_step(const Mesh& mesh, const std::vector<std::int64_t>& sizes, std::int64_t batch) {
  Graph graph;
  graph.name = "step";
  graph.meshes = {mesh};
  Builder b(graph, table());
  b.where = "mlp.cc:1";
  ValueId x = build::input(b, "x", {DType::f32, {batch, sizes[0]}});
  ValueId labels = build::input(b, "labels", {DType::i32, {batch}});
  ValueId lr = build::input(b, "lr", {DType::f32, {}});
  std::vector<ValueId> parameters;
  ValueId h = x;
  for (std::size_t l = 0; l + 1 < sizes.size(); ++l) {
    b.path = "fc" + std::to_string(l + 1);
    b.where = "mlp.cc:" + std::to_string(l + 2);
    ValueId w = parameter(b, b.path + ".weight", {DType::f32, {sizes[l + 1], sizes[l]}});
    ValueId bias = parameter(b, b.path + ".bias", {DType::f32, {sizes[l + 1]}});
    parameters.insert(parameters.end(), {w, bias});
    h = build::linear(b, h, w, bias);
    if (l + 2 < sizes.size()) h = build::relu(b, h);
  }
  b.path.clear();
  ValueId loss = build::cross_entropy(b, h, labels);
  std::vector<ValueId> gradients = gradient(b, loss, parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::string name = graph.variables[i].name;
    ValueId m = parameter(b, "m." + name, graph.type(parameters[i]));
    auto updated = build::sgd(b, parameters[i], m, gradients[i], lr, {.momentum = 0.9});
    graph.variables[i].updated = updated.w;
    graph.variables.back().updated = updated.m;
  }
  graph.outputs.push_back({"loss", loss});
  return graph;
}

inline Compilation compilation(Graph graph) {
  Compilation c;
  c.graph = std::move(graph);
  c.ops = &table();
  c.catalog = &catalog();
  return c;
}

}  // namespace karez::passes::testing
