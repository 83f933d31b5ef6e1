// Runs the steps of canonicalise, removes dead nodes and applies the algebraic rules.
#include "karez/passes/logical/canonicalise.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "karez/passes/logical/algebra/rules.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {

int remove_dead(Graph& graph) {
  ById<NodeId, bool> needed(graph.nodes.size(), false);
  auto need = [&](ValueId value) { needed[graph.value(value).producer] = true; };
  for (const Output& output : graph.outputs) need(output.value);
  for (const Variable& variable : graph.variables) {
    if (!variable.updated.valid()) continue;
    need(variable.updated);
    if (variable.read.valid()) need(variable.read);  // the new version is written to the same memory
  }
  for (std::size_t n = graph.nodes.size(); n-- > 0;)
    if (needed[NodeId(n)])
      for (ValueId in : graph.node(NodeId(n)).inputs) need(in);
  const auto removed = static_cast<int>(std::count(needed.begin(), needed.end(), false));
  if (removed == 0) return 0;
  Rewrite rewrite(graph, Rewrite::MoveNodes{});
  for (NodeId n : graph.nodes.ids())
    if (needed[n]) rewrite.keep(n);
  graph = rewrite.finish();
  return removed;
}

int simplify_algebra(Graph& graph, RuleCounts& rule_counts) {
  int graph_rule_applications = 0;
  for (const AlgebraRule& rule : algebra_rules()) {
    if (rule.on_graph == nullptr) continue;
    int applications = rule.on_graph(graph);
    rule_counts[rule.name] += applications, graph_rule_applications += applications;
  }
  ById<NodeId, std::optional<Replacement>> replacements(graph.nodes.size());
  int replaced_nodes = 0;
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.nodes[n];
    std::optional<Replacement>& replacement = replacements[n];
    for (const AlgebraRule& rule : algebra_rules()) {
      if (rule.at_node == nullptr || node.outputs.size() != 1) continue;
      replacement = rule.at_node(graph, node);
      if (replacement && !replacement->as_operand && graph.value(node.outputs[0]).layout)
        replacement.reset();  // the user fixed the layout of the result, so the node stays
      if (!replacement) continue;
      ++rule_counts[rule.name], ++replaced_nodes;
      break;
    }
  }
  if (replaced_nodes == 0) return graph_rule_applications;
  Rewrite rewrite(graph, Rewrite::MoveNodes{});
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.nodes[n];
    std::optional<Replacement>& replacement = replacements[n];
    if (!replacement) {
      rewrite.keep(n);
    } else if (replacement->as_operand) {
      std::vector<ValueId> inputs;
      for (const ValueId in : node.inputs) inputs.push_back(rewrite.at(in));
      inputs[replacement->operand] = rewrite.at(replacement->value);
      const NodeId kept = rewrite.keep(n, std::move(inputs));
      if (replacement->attrs) rewrite.graph().node(kept).attrs = std::move(*replacement->attrs);
    } else {
      rewrite.map(node.outputs[0], rewrite.at(replacement->value));
    }
  }
  graph = rewrite.finish();
  return graph_rule_applications + replaced_nodes;
}

CanonicalGraph canonicalise(Graph graph, const FoldOptions& folding) {
  RuleCounts rule_counts;
  rule_counts["remove_dead"] += remove_dead(graph);
  // Until nothing changes: one application may be what another one needs (a folded factor may be 1). Each application
  // removes a node or moves an operand closer to the inputs, so this ends.
  for (int changes = 1; changes > 0;) {
    changes = simplify_algebra(graph, rule_counts);
    const int folded = fold_constants(graph, folding);
    rule_counts["fold_constants"] += folded, changes += folded;
    rule_counts["remove_dead"] += remove_dead(graph);
  }
  rule_counts["reassociate_shared_terms"] += reassociate_shared_terms(graph, folding.reassociate);
  rule_counts["eliminate_common_subexpressions"] += eliminate_common_subexpressions(graph);
  rule_counts["remove_dead"] += remove_dead(graph);
  return {std::move(graph), std::move(rule_counts)};
}

}  // namespace karez::passes
