// shard for programs that compute some nodes twice: merges equal nodes, shards the program, and gives all copies the
// same layouts.
#include "karez/passes/sharding/shard_copies.h"

#include <map>

#include "karez/base/text.h"
#include "karez/graph/op.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

struct DeduplicatedGraph {
  Graph graph;
  ById<NodeId, NodeId> node;     // by old node: the node of `graph` that represents it
  ById<ValueId, ValueId> value;  // by old value: the value of `graph` that represents it
};

// Equal nodes have equal keys. The key includes module and source line: a copy has those of its original, and two nodes
// that the user wrote separately seldom share both.
std::string key_of(const Graph& graph, NodeId n, const Rewrite& rewrite) {
  const Node& node = graph.node(n);
  std::string key = cat(node.op->name, node.attrs.print(), " ", node.path, " ", node.where, " ", node.acts);
  for (const Attrs& attrs : node.act_attrs) key += attrs.print();
  for (ValueId in : node.inputs) key += cat(" ", rewrite.at(in));
  for (ValueId out : node.outputs) {
    key += cat(" on ", graph.value(out).mesh);
    if (graph.value(out).layout) key += print(*graph.value(out).layout);
  }
  return key;
}

DeduplicatedGraph deduplicate(const Graph& graph) {
  DeduplicatedGraph result{{}, ById<NodeId, NodeId>(graph.nodes.size()), ById<ValueId, ValueId>(graph.values.size())};
  Rewrite rewrite(graph);
  std::map<std::string, NodeId> seen;
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.node(n);
    const bool may_be_copy = node.op->pure && node.regions.empty() && !node.inputs.empty() &&
                             node.op->role != Role::update && node.op->role != Role::store;
    auto [entry, inserted] = may_be_copy ? seen.try_emplace(key_of(graph, n, rewrite)) : std::pair(seen.end(), true);
    NodeId representative = inserted ? rewrite.keep(n) : entry->second;
    if (may_be_copy) entry->second = representative;
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId value = rewrite.graph().node(representative).outputs[o];
      rewrite.map(node.outputs[o], value);
      result.value[node.outputs[o]] = value;
    }
    result.node[n] = representative;
  }
  result.graph = rewrite.finish();
  return result;
}

}  // namespace

ShardedGraph shard_copies(Graph graph, const CostTable& costs, const FindFusedValues& fuses) {
  DeduplicatedGraph deduplicated = deduplicate(graph);
  const FusedValues fused = fuses ? fuses(deduplicated.graph) : FusedValues();
  ShardedGraph result = shard(std::move(deduplicated.graph), costs, fused);
  result.fused.clear();  // those of another graph
  OperandLayouts operand_layouts;
  for (NodeId n : graph.nodes.ids()) {
    operand_layouts.push_back(result.operand_layouts[deduplicated.node[n]]);
    for (ValueId out : graph.node(n).outputs)
      graph.value(out).layout = result.graph.value(deduplicated.value[out]).layout;
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) graph.outputs[i].layout = result.graph.outputs[i].layout;
  for (std::size_t v = 0; v < graph.variables.size(); ++v) graph.variables[v].stored = result.graph.variables[v].stored;
  result.graph = std::move(graph);
  result.operand_layouts = std::move(operand_layouts);
  return result;
}

}  // namespace karez::passes
