// Moves ReLU after max pooling. The result is identical, and with 2 x 2 windows ReLU runs on a quarter of the elements.
#include <algorithm>
#include <map>
#include <set>

#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

// max_pool(relu(x)) equals relu(max_pool(x)), and their gradients are equal too: if the maximum of a window is not
// positive, the two forms may select different elements, but the gradient of ReLU is zero for these elements.
struct PooledRelu {
  NodeId relu, pool;
  std::set<NodeId> pool_grads, relu_grads;
};

std::vector<PooledRelu> find_pooled_relus(const Graph& graph) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) { return n.op->name == "max_pool"; }))
    return {};
  auto uses = uses_of(graph);
  std::set<ValueId> results;
  for (const Output& output : graph.outputs) results.insert(output.value);
  for (const Variable& variable : graph.variables) results.insert(variable.updated);
  auto users = [&](ValueId value) -> const std::vector<Use>& { return uses[value]; };
  std::vector<PooledRelu> matches;
  for (NodeId n : graph.nodes.ids()) {
    const Node& relu = graph.nodes[n];
    if (relu.op->name != "relu" || results.count(relu.outputs[0]) || graph.value(relu.outputs[0]).layout) continue;
    PooledRelu match;
    match.relu = n;
    bool is_match = true;
    for (const Use& use : users(relu.outputs[0])) {
      const Node& user = graph.node(use.node);
      if (user.op->name == "max_pool" && !match.pool.valid()) {
        match.pool = use.node;
      } else if (user.op->name == "relu_grad" && use.operand == 0) {
        match.relu_grads.insert(use.node);
      } else {
        is_match = false;
      }
    }
    if (!is_match || !match.pool.valid()) continue;
    ValueId index = graph.nodes[match.pool].outputs[1];
    is_match = results.count(index) == 0 && !graph.value(index).layout &&
               !graph.value(graph.nodes[match.pool].outputs[0]).layout;
    for (const Use& use : users(index)) {
      const Node& user = graph.node(use.node);
      bool is_grad = user.op->name == "max_pool_grad" && use.operand == 1 && results.count(user.outputs[0]) == 0 &&
                     users(user.outputs[0]).size() == 1;
      is_match &= is_grad && match.relu_grads.count(users(user.outputs[0])[0].node) > 0;
      match.pool_grads.insert(use.node);
    }
    for (NodeId grad : match.relu_grads) {
      NodeId producer = graph.value(graph.nodes[grad].inputs[1]).producer;
      is_match &= match.pool_grads.count(producer) > 0 && !graph.value(graph.nodes[grad].outputs[0]).layout;
    }
    for (NodeId grad : match.pool_grads) is_match &= !graph.value(graph.nodes[grad].outputs[0]).layout;
    if (is_match) matches.push_back(std::move(match));
  }
  return matches;
}

}  // namespace

int pool_before_relu(Graph& graph) {
  auto matches = find_pooled_relus(graph);
  if (matches.empty()) return 0;
  std::map<NodeId, const PooledRelu*> pools, pool_grads, relu_grads;
  std::set<NodeId> relus;
  for (const PooledRelu& match : matches) {
    pools[match.pool] = &match;
    relus.insert(match.relu);
    for (NodeId n : match.pool_grads) pool_grads[n] = &match;
    for (NodeId n : match.relu_grads) relu_grads[n] = &match;
  }
  Rewrite rewrite(graph);
  auto add = [&](NodeId source, std::vector<ValueId> inputs, const TensorType& type) {
    const Node& node = graph.nodes[source];
    NodeId new_node = rewrite.add(node.op, std::move(inputs), node.attrs, std::span(&type, 1),
                                  graph.value(node.outputs[0]).mesh, source);
    return rewrite.graph().node(new_node).outputs[0];
  };
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.nodes[n];
    if (relus.count(n)) continue;
    if (auto pool = pools.find(n); pool != pools.end()) {
      const Node& relu = graph.nodes[pool->second->relu];
      rewrite.keep(n, {rewrite.at(relu.inputs[0])});
      rewrite.map(node.outputs[0], add(pool->second->relu, {rewrite.at(node.outputs[0])}, graph.type(node.outputs[0])));
    } else if (pool_grads.count(n)) {
      continue;
    } else if (auto relu_grad = relu_grads.find(n); relu_grad != relu_grads.end()) {
      const PooledRelu& match = *relu_grad->second;
      NodeId pool_grad = graph.value(node.inputs[1]).producer;  // the max_pool_grad
      ValueId pooled = graph.nodes[match.pool].outputs[0];
      ValueId dy = add(n, {rewrite.at(pooled), rewrite.at(graph.nodes[pool_grad].inputs[0])}, graph.type(pooled));
      rewrite.map(node.outputs[0],
                  add(pool_grad, {dy, rewrite.at(graph.nodes[match.pool].outputs[1])}, graph.type(node.outputs[0])));
    } else {
      rewrite.keep(n);
    }
  }
  graph = rewrite.finish();
  return static_cast<int>(matches.size());
}

}  // namespace karez::passes
