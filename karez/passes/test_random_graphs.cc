// Builds random programs from random ops.
#include "karez/passes/test_random_graphs.h"

#include <algorithm>

namespace karez::passes::testing {

Graph random_graph(Random& random, const Mesh& mesh, std::size_t nodes, bool picks, bool constants) {
  Graph graph;
  graph.meshes = {mesh};
  Builder b(graph, table());
  b.where = "random.cc:1";
  const std::int64_t sizes[] = {1, 2, 3, 5, 64, 250, 1000};
  std::int64_t program_sizes[] = {sizes[pick(random, 7)],
                                  sizes[pick(random, 7)]};  // few sizes, so that operands often fit
  auto size = [&] { return program_sizes[pick(random, 2)]; };
  auto random_value = [&] { return ValueId(pick(random, graph.values.size())); };
  std::uint64_t sources = 1 + pick(random, std::min<std::size_t>(3, nodes - 1));
  while (graph.nodes.size() < nodes) {
    if (graph.nodes.size() < sources) {
      TensorType type{DType::f32, {}};
      for (std::uint64_t d = 1 + pick(random, 2); d > 0; --d) type.shape.push_back(size());
      std::string name = cat("v", graph.nodes.size());
      if (constants && (graph.nodes.size() == 0 || pick(random, 3) == 0)) {
        build::iota(b, type, 0);
        continue;
      }
      pick(random, 2) ? build::input(b, name, type) : parameter(b, name, type);
      continue;
    }
    ValueId x = random_value(), y = random_value();
    Shape x_shape = graph.type(x).shape, y_shape = graph.type(y).shape;
    if (graph.type(x).dtype != DType::f32 || graph.type(y).dtype != DType::f32) continue;
    if (picks && pick(random, 4) == 0) {  // rows of a table, or a product with a finite constant
      if (pick(random, 3) == 0) build::mul(b, x, build::constant(b, {DType::f32, x_shape}, 2));
      else if (graph.nodes.size() + 1 < nodes && !x_shape.empty())
        build::gather(b, x, build::input(b, cat("i", graph.nodes.size()), {DType::i32, {size()}}));
      continue;
    }
    switch (pick(random, 10)) {
      case 0:
      case 1:
        if (x_shape.size() == 2 && y_shape.size() == 2 && x_shape[1] == y_shape[0]) build::matmul(b, x, y);
        else if (x_shape.size() == 2 && y_shape.size() == 2 && x_shape[1] == y_shape[1])
          build::matmul(b, x, y, {.transpose_b = true});
        break;
      case 2:
        if (x_shape == y_shape) build::add(b, x, y);
        break;
      case 3:
        if (x_shape == y_shape) build::mul(b, x, y);
        break;
      case 4: build::relu(b, x); break;
      case 5:
        if (!x_shape.empty()) build::reduce_sum(b, x, {static_cast<std::int64_t>(pick(random, x_shape.size()))});
        break;
      case 6:
        if (x_shape.size() == 2) build::transpose(b, x, {1, 0});
        break;
      case 8:
        if (graph.nodes.size() + 1 < nodes) build::relu(b, build::constant(b, {DType::f32, x_shape}, 2));
        break;
      case 7:
        if (x_shape.size() == 1)
          pick(random, 2) ? build::broadcast(b, x, {size(), x_shape[0]}, {1})
                          : build::broadcast(b, x, {x_shape[0], size()}, {0});
        break;
      default:
        if (x_shape.size() == 2) build::reshape(b, x, {x_shape[0] * x_shape[1]});
    }
  }
  graph.outputs.push_back({"last", ValueId(graph.values.size() - 1)});
  if (pick(random, 3) == 0) graph.outputs.push_back({"other", random_value()});
  for (Output& output : graph.outputs)  // the user sometimes requires that an output is split
    if (!graph.type(output.value).shape.empty() && pick(random, 4) == 0) output.layout = Layout(mesh.axes.size(), S(0));
  if (pick(random, 4) == 0) {  // the user fixed a layout that the op can produce
    NodeId fixed_node(sources + pick(random, nodes - sources));
    auto node_shardings = mesh_shardings({&graph, fixed_node}, mesh);
    Layout layout;
    for (const Sharding& axis : node_shardings[pick(random, node_shardings.size())]) layout.push_back(axis.out[0]);
    graph.value(graph.node(fixed_node).outputs[0]).layout = layout;
  }
  for (Variable& variable : graph.variables) {
    ValueId next = random_value();
    if (graph.type(next) == variable.type && pick(random, 2)) variable.updated = next;
    if (pick(random, 4) == 0) variable.stored = Layout(mesh.axes.size(), S(0));
  }
  return graph;
}

CostTable random_costs(Random& random) {
  const double alphas[] = {0, 1e-7, 1e-5}, betas[] = {1e-12, 1e-10, 1e-8}, rates[] = {1e7, 1e10, 1e12};
  CostTable costs;
  costs.link = {alphas[pick(random, 3)], betas[pick(random, 3)]};
  if (pick(random, 2)) costs.axis_links = {{"b", {alphas[pick(random, 3)], betas[pick(random, 3)]}}};
  costs.matmul_flops = rates[pick(random, 3)];
  costs.memory_bytes = rates[pick(random, 3)];
  costs.call = alphas[pick(random, 3)];
  return costs;
}

}  // namespace karez::passes::testing
