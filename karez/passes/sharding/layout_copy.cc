// Numbers the nodes of two graphs so that equal nodes have the same number, and copies layouts by number.
#include "karez/passes/sharding/layout_copy.h"

#include <map>

#include "karez/base/text.h"
#include "karez/graph/op.h"

namespace karez::passes {
namespace {

// Numbers nodes so that equal nodes of all graphs have the same number.
class NodeNumbers {
 public:
  ById<NodeId, int> of(const Graph& graph) {
    ById<NodeId, int> number;
    for (const Node& node : graph.nodes) {
      std::string key = cat(node.op->name, node.attrs.print(), " ", node.path, " ", node.where, " ", node.acts);
      for (const Attrs& attrs : node.act_attrs) key += attrs.print();
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

std::optional<ShardedGraph> copy_layouts(Graph graph, const ShardedGraph& source) {
  NodeNumbers numbers;
  const ById<NodeId, int> source_numbers = numbers.of(source.graph), target_numbers = numbers.of(graph);
  std::map<int, NodeId> node_by_number;
  for (NodeId n : source_numbers.ids()) node_by_number.try_emplace(source_numbers[n], n);
  ShardedGraph result;
  for (NodeId n : target_numbers.ids()) {
    const auto source_node = node_by_number.find(target_numbers[n]);
    if (source_node == node_by_number.end()) return std::nullopt;
    result.operand_layouts.push_back(source.operand_layouts[source_node->second]);
    const auto& outs = source.graph.node(source_node->second).outputs;
    for (std::size_t o = 0; o < outs.size(); ++o)
      graph.value(graph.node(n).outputs[o]).layout = source.graph.value(outs[o]).layout;
  }
  std::map<std::string, Layout> stored;
  for (const Variable& variable : source.graph.variables) stored[variable.name] = *variable.stored;
  for (Variable& variable : graph.variables) variable.stored = stored.at(variable.name);
  for (Output& output : graph.outputs)
    if (is_planned(graph, output)) output.layout = graph.value(output.value).layout;
  result.graph = std::move(graph);
  result.cost = source.cost;
  return result;
}

}  // namespace karez::passes
