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

ShardedGraph shard(Graph graph, const CostTable& costs) {
  graph = with_effective_layouts(std::move(graph));
  const Choices choices = choices_of(graph, costs);
  TransitionCostCache prices(costs);
  const LayoutSearchResult found = search_layouts(graph, choices, prices);
  ShardedGraph made = apply_choices(std::move(graph), choices, found.chosen);
  made.cost = found.cost;
  made.cost_bound = found.bound;
  made.optimal = found.optimal;
  double gap = made.cost > 0 ? 100 * (made.cost - made.cost_bound) / made.cost : 0;
  made.report =
      cat(made.optimal ? std::string("optimal") : cat("gap <= ", base::number(std::ceil(gap * 10) / 10), " %"), " (",
          found.method, ")");
  return made;
}

}  // namespace karez::passes
