// Computes one_hot in the dtype to which its result is cast: 0 and 1 are numbers of every dtype.
#include <string>

#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

const Node* one_hot_of_cast(const Graph& graph, const Node& node) {
  if (node.op->name != "cast" || graph.value(node.outputs[0]).layout) return nullptr;
  return producer_on_mesh(graph, node.inputs[0], "one_hot");
}

}  // namespace

int cast_of_one_hot(Graph& graph) {
  int count = 0;
  for (const NodeId n : graph.nodes.ids()) count += one_hot_of_cast(graph, graph.nodes[n]) != nullptr ? 1 : 0;
  if (count == 0) return 0;
  Rewrite rewrite(graph);
  for (const NodeId n : graph.nodes.ids()) {
    const Node& node = graph.nodes[n];
    const Node* one_hot = one_hot_of_cast(graph, node);
    if (one_hot == nullptr) {
      rewrite.keep(n);
      continue;
    }
    const TensorType& type = graph.type(node.outputs[0]);
    Attrs attrs = one_hot->attrs;
    attrs.set("dtype", std::string(name_of(type.dtype)));
    const NodeId added = rewrite.add(one_hot->op, {rewrite.at(one_hot->inputs[0])}, std::move(attrs),
                                     std::span(&type, 1), graph.value(node.outputs[0]).mesh, n);
    rewrite.map(node.outputs[0], rewrite.graph().node(added).outputs[0]);
  }
  graph = rewrite.finish();
  return count;
}

}  // namespace karez::passes
