// Numbers the nodes of two graphs so that equal nodes have equal numbers, and copies layouts by number.
#include "karez/passes/sharding/layout_copy.h"

#include <map>

#include "karez/base/text.h"
#include "karez/graph/op.h"

namespace karez::passes {
namespace {

// A number for each node, the same for equal nodes of all graphs.
class Names {
 public:
  ById<NodeId, int> of(const Graph& graph) {
    ById<NodeId, int> number;
    for (const Node& node : graph.nodes) {
      std::string key = cat(node.op->name, node.attrs.print(), " ", node.path, " ", node.where, " ", node.acts);
      for (const Attrs& place : node.act_attrs) key += place.print();
      for (ValueId in : node.inputs) key += cat(" ", number[graph.value(in).producer], ".", graph.value(in).output);
      for (ValueId out : node.outputs) key += cat(" on ", graph.value(out).mesh);
      number.push_back(known_.try_emplace(key, static_cast<int>(known_.size())).first->second);
    }
    return number;
  }

 private:
  std::map<std::string, int> known_;
};

}  // namespace

std::optional<ShardedGraph> copy_layouts(Graph graph, const ShardedGraph& laid) {
  Names names;
  const ById<NodeId, int> there = names.of(laid.graph), here = names.of(graph);
  std::map<int, NodeId> stands;
  for (NodeId n : there.ids()) stands.try_emplace(there[n], n);
  ShardedGraph made;
  for (NodeId n : here.ids()) {
    const auto like = stands.find(here[n]);
    if (like == stands.end()) return std::nullopt;
    made.wanted.push_back(laid.wanted[like->second]);
    const auto& outs = laid.graph.node(like->second).outputs;
    for (std::size_t o = 0; o < outs.size(); ++o)
      graph.value(graph.node(n).outputs[o]).layout = laid.graph.value(outs[o]).layout;
  }
  std::map<std::string, Layout> stored;
  for (const Variable& variable : laid.graph.variables) stored[variable.name] = *variable.stored;
  for (Variable& variable : graph.variables) variable.stored = stored.at(variable.name);
  for (Output& output : graph.outputs)
    if (is_planned(graph, output)) output.layout = graph.value(output.value).layout;
  made.graph = std::move(graph);
  made.cost = laid.cost;
  return made;
}

}  // namespace karez::passes
