// A larger program for the tests of shard: the training step of a small CNN.
#pragma once

#include <string>
#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/test_programs.h"

namespace karez::passes::testing {

// One training step of a CNN on 28 x 28 images with Adam: two 3 x 3 convolutions with max pooling, and two dense
// layers.
inline Graph cnn_step(const Mesh& mesh, std::int64_t batch) {
  Graph graph;
  graph.name = "step";
  graph.meshes = {mesh};
  Builder b(graph, table());
  b.where = "cnn.cc:1";
  ValueId h = build::input(b, "x", {DType::f32, {batch, 1, 28, 28}});
  ValueId labels = build::input(b, "labels", {DType::i32, {batch}});
  ValueId lr = build::input(b, "lr", {DType::f32, {}});
  ValueId count = build::input(b, "step", {DType::i64, {}});
  std::vector<ValueId> parameters;
  auto layer = [&](const std::string& name, const Shape& shape) {
    b.path = name;
    parameters.push_back(parameter(b, name + ".weight", {DType::f32, shape}));
    parameters.push_back(parameter(b, name + ".bias", {DType::f32, {shape[0]}}));
    return parameters.size() - 2;
  };
  for (const Shape& shape : {Shape{16, 1, 3, 3}, Shape{32, 16, 3, 3}}) {
    std::size_t at = layer(shape[1] == 1 ? "conv1" : "conv2", shape);
    h = build::relu(b, build::conv2d_bias(b, h, parameters[at], parameters[at + 1]));
    h = build::max_pool(b, h).value;
  }
  h = build::reshape(b, h, {batch, 800});
  std::size_t at = layer("fc1", {128, 800});
  h = build::relu(b, build::linear(b, h, parameters[at], parameters[at + 1]));
  at = layer("fc2", {10, 128});
  h = build::linear(b, h, parameters[at], parameters[at + 1]);
  b.path.clear();
  ValueId loss = build::cross_entropy(b, h, labels);
  std::vector<ValueId> gradients = gradient(b, loss, parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::string name = graph.variables[i].name;
    ValueId m = parameter(b, "m." + name, graph.type(parameters[i]));
    ValueId v = parameter(b, "v." + name, graph.type(parameters[i]));
    auto updated = build::adam(b, parameters[i], m, v, gradients[i], lr, count);
    graph.variables[i].updated = updated.w;
    graph.variables[graph.variables.size() - 2].updated = updated.m;
    graph.variables.back().updated = updated.v;
  }
  graph.outputs.push_back({"loss", loss});
  return graph;
}

}  // namespace karez::passes::testing
