// The step of canonicalise that merges nodes with equal op, attributes and operands.
#include <algorithm>
#include <map>

#include "karez/base/text.h"
#include "karez/graph/op.h"
#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {

int eliminate_common_subexpressions(Graph& graph) {
  Rewrite rewrite(graph);
  std::map<std::string, NodeId> node_by_key;
  int merged_nodes = 0;
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.nodes[n];
    std::vector<int> inputs;
    for (ValueId in : node.inputs) inputs.push_back(rewrite.at(in).index);
    if (node.op->commutative) std::sort(inputs.begin(), inputs.end());
    std::string key = cat(node.op->name, node.attrs.print(), "(", join(inputs, ","), ")");
    for (ValueId out : node.outputs) key += cat(" ", graph.value(out).mesh);
    for (ValueId out : node.outputs)
      if (graph.value(out).layout)
        key += cat(" ", out, print(*graph.value(out).layout));  // a value with a fixed layout is not merged
    bool is_unique = !node.op->pure || !node.regions.empty() || node.op->role == Role::source;
    auto found = is_unique ? node_by_key.end() : node_by_key.find(key);
    if (found == node_by_key.end()) {
      NodeId kept_node = rewrite.keep(n);
      if (!is_unique) node_by_key.emplace(std::move(key), kept_node);
      continue;
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      rewrite.map(node.outputs[o], rewrite.graph().node(found->second).outputs[o]);
    ++merged_nodes;
  }
  if (merged_nodes > 0) graph = rewrite.finish();
  return merged_nodes;
}

}  // namespace karez::passes
