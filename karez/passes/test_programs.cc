// Builds the training steps that the tests of this component compile.
#include "karez/passes/test_programs.h"

namespace karez::passes::testing {

ValueId parameter(Builder& b, const std::string& name, const TensorType& type) {
  ValueId read = build::variable(b, name, type);
  Variable variable;
  variable.name = name;
  variable.type = type;
  variable.read = read;
  b.graph().variables.push_back(variable);
  return read;
}

Graph mlp_step(const Mesh& mesh, const std::vector<std::int64_t>& sizes, std::int64_t batch) {
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

Compilation compilation(Graph graph) {
  Compilation c;
  c.graph = std::move(graph);
  c.ops = &table();
  c.catalog = &catalog();
  return c;
}

}  // namespace karez::passes::testing
