// shard: searches for layouts and applies them.
#include "karez/passes/sharding/shard.h"

#include <cmath>
#include <string>
#include <utility>

#include "karez/base/text.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/sharding/device_cost.h"
#include "karez/passes/sharding/shard_search.h"
#include "karez/sbp/effective_layout.h"

namespace karez::passes {
namespace {

// Broadcast is the only effective layout on a mesh of one device, so that there is nothing to search.
ShardedGraph shard_on_single_devices(Graph graph, const CostTable& costs, const FusedValues& fused) {
  ShardedGraph sharded;
  for (graph::Value& value : graph.values)
    value.layout = broadcast_layout(graph.meshes[static_cast<std::size_t>(value.mesh)]);
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.node(n);
    std::vector<Layout> ins, outs;
    for (ValueId in : node.inputs) ins.push_back(*graph.value(in).layout);
    for (ValueId out : node.outputs) outs.push_back(*graph.value(out).layout);
    NodeChoice choice({std::move(ins), std::move(outs)}, 0);
    sharded.cost += node.acts * choice_seconds(graph, n, choice, costs, fused);
    sharded.operand_layouts.push_back(choice.ins());
  }
  for (Output& output : graph.outputs)
    if (is_planned(graph, output)) output.layout = graph.value(output.value).layout;
  for (Variable& variable : graph.variables)
    if (!variable.stored) variable.stored = broadcast_layout(graph.meshes[static_cast<std::size_t>(variable.mesh)]);
  sharded.graph = std::move(graph);
  sharded.fused = fused;
  sharded.cost_bound = sharded.cost;
  sharded.optimal = true;
  sharded.report = "optimal (one device)";
  return sharded;
}

}  // namespace

Graph with_effective_layouts(Graph graph) {
  for (graph::Value& value : graph.values)
    if (value.layout)
      value.layout =
          sbp::effective_layout(graph.meshes[static_cast<std::size_t>(value.mesh)], std::move(*value.layout));
  for (Variable& variable : graph.variables)
    if (variable.stored)
      variable.stored =
          sbp::effective_layout(graph.meshes[static_cast<std::size_t>(variable.mesh)], std::move(*variable.stored));
  for (Output& output : graph.outputs)
    if (output.layout) output.layout = sbp::effective_layout(graph.mesh(output.value), std::move(*output.layout));
  return graph;
}

ShardedGraph shard(Graph graph, const CostTable& costs, const FusedValues& fused) {
  graph = with_effective_layouts(std::move(graph));
  if (has_only_single_devices(graph)) return shard_on_single_devices(std::move(graph), costs, fused);
  const Choices choices = choices_of(graph, costs, fused);
  TransitionCostCache prices(costs, fused);
  const LayoutSearchResult result = search_layouts(graph, choices, prices);
  ShardedGraph sharded = apply_choices(std::move(graph), choices, result.chosen);
  sharded.fused = fused;
  sharded.cost = result.cost;
  sharded.cost_bound = result.bound;
  sharded.optimal = result.optimal;
  double gap = sharded.cost > 0 ? 100 * (sharded.cost - sharded.cost_bound) / sharded.cost : 0;
  sharded.report =
      cat(sharded.optimal ? std::string("optimal") : cat("gap <= ", base::number(std::ceil(gap * 10) / 10), " %"), " (",
          result.method, ")");
  return sharded;
}

}  // namespace karez::passes
