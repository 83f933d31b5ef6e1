// canonicalise: dead nodes and the order of the parts; algebra, folding, sharing and merging have files of their own.
#include "karez/passes/canonicalise.h"

#include "karez/passes/algebra/rules.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {

int remove_dead(Graph& graph) {
  ById<NodeId, bool> needed(graph.nodes.size(), false);
  auto need = [&](ValueId value) { needed[graph.value(value).producer] = true; };
  for (const Output& output : graph.outputs) need(output.value);
  for (const Variable& variable : graph.variables) {
    if (!variable.updated.valid()) continue;
    need(variable.updated);
    if (variable.read.valid()) need(variable.read);  // its place is where the new version goes
  }
  for (std::size_t n = graph.nodes.size(); n-- > 0;)
    if (needed[NodeId(n)])
      for (ValueId in : graph.node(NodeId(n)).inputs) need(in);
  int removed = 0;
  Rewrite rewrite(graph);
  for (NodeId n : graph.nodes.ids()) {
    if (needed[n]) {
      rewrite.keep(n);
    } else {
      ++removed;
    }
  }
  if (removed > 0) graph = rewrite.finish();
  return removed;
}

int simplify_algebra(Graph& graph, Firings& fired) {
  int total = 0;
  for (const AlgebraRule& rule : algebra_rules()) {
    if (rule.on_graph == nullptr) continue;
    int times = rule.on_graph(graph);
    fired[rule.name] += times, total += times;
  }
  Rewrite rewrite(graph);
  int at_nodes = 0;
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.nodes[n];
    std::optional<Instead> instead;
    for (const AlgebraRule& rule : algebra_rules()) {
      if (rule.at_node == nullptr || node.outputs.size() != 1) continue;
      instead = rule.at_node(graph, node);
      if (instead && !instead->as_operand && graph.value(node.outputs[0]).layout)
        instead.reset();  // the user fixed it: it stays itself
      if (!instead) continue;
      ++fired[rule.name], ++at_nodes;
      break;
    }
    if (!instead) {
      rewrite.keep(n);
    } else if (instead->as_operand) {
      rewrite.keep(n, {rewrite.at(instead->value)});
    } else {
      rewrite.map(node.outputs[0], rewrite.at(instead->value));
    }
  }
  if (at_nodes > 0) graph = rewrite.finish();
  return total + at_nodes;
}

Canonical canonicalise(Graph graph, const Folding& folding) {
  Firings fired;
  fired["remove_dead"] += remove_dead(graph);
  simplify_algebra(graph, fired);
  fired["fold_constants"] += fold_constants(graph, folding);
  simplify_algebra(graph, fired);  // a folded factor may be one
  fired["share_parts"] += share_parts(graph, folding.reassociate);
  fired["merge_equal"] += merge_equal(graph);
  fired["remove_dead"] += remove_dead(graph);
  return {std::move(graph), std::move(fired)};
}

}  // namespace karez::passes
