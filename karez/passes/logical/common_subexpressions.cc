// The step of canonicalise that merges nodes with equal op, attributes and operands.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "karez/graph/op.h"
#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/rewrite.h"
#include "karez/plan/call_key.h"

namespace karez::passes {
namespace {

void put(std::string& key, const void* bytes, std::size_t size) { key.append(static_cast<const char*>(bytes), size); }
template <class Number> void put(std::string& key, Number number) { put(key, &number, sizeof(number)); }

// Nodes with equal keys compute equal values. `first` maps each value to the first one that is equal to it.
std::string key_of(const Graph& graph, const Node& node, const ById<ValueId, ValueId>& first) {
  std::string key;
  key.reserve(128);
  put(key, node.op);
  plan::append_attrs(key, node.attrs);
  std::vector<int> inputs;
  inputs.reserve(node.inputs.size());
  for (ValueId in : node.inputs) inputs.push_back(first[in].index);
  if (node.op->commutative) std::sort(inputs.begin(), inputs.end());
  put(key, inputs.size());
  put(key, inputs.data(), inputs.size() * sizeof(int));
  for (ValueId out : node.outputs) put(key, graph.value(out).mesh);
  for (ValueId out : node.outputs)
    if (graph.value(out).layout) put(key, out.index);  // a value with a fixed layout is not merged
  return key;
}

}  // namespace

int eliminate_common_subexpressions(Graph& graph) {
  std::unordered_map<std::string, NodeId> node_by_key;
  ById<NodeId, NodeId> equal_node(graph.nodes.size());  // an earlier node with the same values; often invalid
  ById<ValueId, ValueId> first(graph.values.size());
  int merged_nodes = 0;
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.nodes[n];
    for (ValueId out : node.outputs) first[out] = out;
    if (!node.op->pure || !node.regions.empty() || node.op->role == Role::source) continue;
    const auto [found, is_new] = node_by_key.try_emplace(key_of(graph, node, first), n);
    if (is_new) continue;
    equal_node[n] = found->second;
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      first[node.outputs[o]] = graph.nodes[found->second].outputs[o];
    ++merged_nodes;
  }
  if (merged_nodes == 0) return 0;
  Rewrite rewrite(graph, Rewrite::MoveNodes{});
  for (NodeId n : graph.nodes.ids()) {
    if (!equal_node[n].valid()) {
      rewrite.keep(n);
      continue;
    }
    for (ValueId out : graph.nodes[n].outputs) rewrite.map(out, rewrite.at(first[out]));
  }
  graph = rewrite.finish();
  return merged_nodes;
}

}  // namespace karez::passes
