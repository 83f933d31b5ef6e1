// canonicalise's common subexpressions: merges nodes with equal op, attributes and operands.
#include <algorithm>
#include <map>

#include "karez/base/text.h"
#include "karez/graph/op.h"
#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {

int eliminate_common_subexpressions(Graph& graph) {
  Rewrite rewrite(graph);
  std::map<std::string, NodeId> seen;
  int same = 0;
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.nodes[n];
    std::vector<int> inputs;
    for (ValueId in : node.inputs) inputs.push_back(rewrite.at(in).index);
    if (node.op->commutative) std::sort(inputs.begin(), inputs.end());
    std::string key = cat(node.op->name, node.attrs.print(), "(", join(inputs, ","), ")");
    for (ValueId out : node.outputs) key += cat(" ", graph.value(out).mesh);
    for (ValueId out : node.outputs)
      if (graph.value(out).layout)
        key += cat(" ", out, print(*graph.value(out).layout));  // the user fixed its layout: it is not merged
    bool stays = !node.op->pure || !node.regions.empty() || node.op->role == Role::source;
    auto at = stays ? seen.end() : seen.find(key);
    if (at == seen.end()) {
      NodeId kept = rewrite.keep(n);
      if (!stays) seen.emplace(std::move(key), kept);
      continue;
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      rewrite.map(node.outputs[o], rewrite.graph().node(at->second).outputs[o]);
    ++same;
  }
  if (same > 0) graph = rewrite.finish();
  return same;
}

}  // namespace karez::passes
