// Moves ReLU after max pooling: the result is identical, and ReLU runs on a quarter of the elements.
#include <map>
#include <set>

#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

// max_pool(relu(x)) equals relu(max_pool(x)), and so do their gradients: if a window's maximum is not positive, the two
// may select different elements, but ReLU's gradient is zero there.
struct PooledRelu {
  NodeId relu, pool;
  std::set<NodeId> pool_grads, relu_grads;
};

std::vector<PooledRelu> pooled_relus(const Graph& graph) {
  auto uses = uses_of(graph);
  std::set<ValueId> kept;
  for (const Output& output : graph.outputs) kept.insert(output.value);
  for (const Variable& variable : graph.variables) kept.insert(variable.updated);
  auto users = [&](ValueId value) -> const std::vector<Use>& { return uses[value]; };
  std::vector<PooledRelu> found;
  for (NodeId n : graph.nodes.ids()) {
    const Node& relu = graph.nodes[n];
    if (relu.op->name != "relu" || kept.count(relu.outputs[0]) || graph.value(relu.outputs[0]).layout) continue;
    PooledRelu match;
    match.relu = n;
    bool fits = true;
    for (const Use& use : users(relu.outputs[0])) {
      const Node& user = graph.node(use.node);
      if (user.op->name == "max_pool" && !match.pool.valid()) {
        match.pool = use.node;
      } else if (user.op->name == "relu_grad" && use.operand == 0) {
        match.relu_grads.insert(use.node);
      } else {
        fits = false;
      }
    }
    if (!fits || !match.pool.valid()) continue;
    ValueId index = graph.nodes[match.pool].outputs[1];
    fits =
        kept.count(index) == 0 && !graph.value(index).layout && !graph.value(graph.nodes[match.pool].outputs[0]).layout;
    for (const Use& use : users(index)) {
      const Node& user = graph.node(use.node);
      bool is_grad = user.op->name == "max_pool_grad" && use.operand == 1 && kept.count(user.outputs[0]) == 0 &&
                     users(user.outputs[0]).size() == 1;
      fits &= is_grad && match.relu_grads.count(users(user.outputs[0])[0].node) > 0;
      match.pool_grads.insert(use.node);
    }
    for (NodeId grad : match.relu_grads) {
      NodeId producer = graph.value(graph.nodes[grad].inputs[1]).producer;
      fits &= match.pool_grads.count(producer) > 0 && !graph.value(graph.nodes[grad].outputs[0]).layout;
    }
    for (NodeId grad : match.pool_grads) fits &= !graph.value(graph.nodes[grad].outputs[0]).layout;
    if (fits) found.push_back(std::move(match));
  }
  return found;
}

}  // namespace

int pool_before_relu(Graph& graph) {
  auto found = pooled_relus(graph);
  if (found.empty()) return 0;
  std::map<NodeId, const PooledRelu*> pools, pool_grads, relu_grads;
  std::set<NodeId> relus;
  for (const PooledRelu& match : found) {
    pools[match.pool] = &match;
    relus.insert(match.relu);
    for (NodeId n : match.pool_grads) pool_grads[n] = &match;
    for (NodeId n : match.relu_grads) relu_grads[n] = &match;
  }
  Rewrite rewrite(graph);
  auto add = [&](NodeId like, std::vector<ValueId> inputs, const TensorType& type) {
    const Node& node = graph.nodes[like];
    NodeId made = rewrite.add(node.op, std::move(inputs), node.attrs, std::span(&type, 1),
                              graph.value(node.outputs[0]).mesh, like);
    return rewrite.graph().node(made).outputs[0];
  };
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.nodes[n];
    if (relus.count(n)) continue;
    if (auto at = pools.find(n); at != pools.end()) {
      const Node& relu = graph.nodes[at->second->relu];
      rewrite.keep(n, {rewrite.at(relu.inputs[0])});
      rewrite.map(node.outputs[0], add(at->second->relu, {rewrite.at(node.outputs[0])}, graph.type(node.outputs[0])));
    } else if (pool_grads.count(n)) {
      continue;
    } else if (auto grad = relu_grads.find(n); grad != relu_grads.end()) {
      const PooledRelu& match = *grad->second;
      NodeId old = graph.value(node.inputs[1]).producer;  // the max_pool_grad
      ValueId pooled = graph.nodes[match.pool].outputs[0];
      ValueId dy = add(n, {rewrite.at(pooled), rewrite.at(graph.nodes[old].inputs[0])}, graph.type(pooled));
      rewrite.map(node.outputs[0],
                  add(old, {dy, rewrite.at(graph.nodes[match.pool].outputs[1])}, graph.type(node.outputs[0])));
    } else {
      rewrite.keep(n);
    }
  }
  graph = rewrite.finish();
  return static_cast<int>(found.size());
}

}  // namespace karez::passes
