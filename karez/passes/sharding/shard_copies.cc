// shard for programs that compute some nodes twice: shards the program with equal nodes merged, and gives copies the
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
  ById<NodeId, NodeId> node;     // the node that represents it
  ById<ValueId, ValueId> value;  // likewise
};

// A copy keeps module and line, which two separate calls of the user seldom share.
std::string key_of(const Graph& graph, NodeId n, const Rewrite& rewrite) {
  const Node& node = graph.node(n);
  std::string key = cat(node.op->name, node.attrs.print(), " ", node.path, " ", node.where, " ", node.acts);
  for (const Attrs& place : node.act_attrs) key += place.print();
  for (ValueId in : node.inputs) key += cat(" ", rewrite.at(in));
  for (ValueId out : node.outputs) {
    key += cat(" on ", graph.value(out).mesh);
    if (graph.value(out).layout) key += print(*graph.value(out).layout);
  }
  return key;
}

DeduplicatedGraph deduplicate(const Graph& graph) {
  DeduplicatedGraph made{{}, ById<NodeId, NodeId>(graph.nodes.size()), ById<ValueId, ValueId>(graph.values.size())};
  Rewrite rewrite(graph);
  std::map<std::string, NodeId> seen;
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.node(n);
    const bool twice = node.op->pure && node.regions.empty() && !node.inputs.empty() && node.op->role != Role::update &&
                       node.op->role != Role::store;
    auto [known, fresh] = twice ? seen.try_emplace(key_of(graph, n, rewrite)) : std::pair(seen.end(), true);
    NodeId stands = fresh ? rewrite.keep(n) : known->second;
    if (twice) known->second = stands;
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId value = rewrite.graph().node(stands).outputs[o];
      rewrite.map(node.outputs[o], value);
      made.value[node.outputs[o]] = value;
    }
    made.node[n] = stands;
  }
  made.graph = rewrite.finish();
  return made;
}

}  // namespace

ShardedGraph shard_copies(Graph graph, const CostTable& costs) {
  DeduplicatedGraph once = deduplicate(graph);
  ShardedGraph made = shard(std::move(once.graph), costs);
  OperandLayouts wanted;
  for (NodeId n : graph.nodes.ids()) {
    wanted.push_back(made.wanted[once.node[n]]);
    for (ValueId out : graph.node(n).outputs) graph.value(out).layout = made.graph.value(once.value[out]).layout;
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) graph.outputs[i].layout = made.graph.outputs[i].layout;
  for (std::size_t v = 0; v < graph.variables.size(); ++v) graph.variables[v].stored = made.graph.variables[v].stored;
  made.graph = std::move(graph);
  made.wanted = std::move(wanted);
  return made;
}

}  // namespace karez::passes
