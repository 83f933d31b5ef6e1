// shard: searches for layouts and applies them.
#include "karez/passes/sharding/shard.h"

#include <cmath>
#include <string>
#include <utility>

#include "karez/base/text.h"
#include "karez/passes/sharding/shard_search.h"
#include "karez/sbp/effective_layout.h"

namespace karez::passes {

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
