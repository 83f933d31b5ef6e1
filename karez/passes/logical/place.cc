// place: assigns undecided values to the mesh of their first reader, and transfers values that other meshes read.
#include "karez/passes/logical/place.h"

#include <algorithm>
#include <map>

#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

// Assigns values one after another to the mesh of a reader, of a variable's update, or, if neither has a mesh, of an
// operand.
class MeshAssigner {
 public:
  explicit MeshAssigner(Graph& graph) : graph_(graph), uses_(uses_of(graph)), update_(graph.nodes.size()) {
    for (const Variable& variable : graph.variables)
      if (variable.read.valid()) update_[graph.value(variable.read).producer] = variable.updated;
  }

  void run() {
    while (backward() || forward()) {}
    for (Variable& variable : graph_.variables)
      if (variable.read.valid()) variable.mesh = graph_.value(variable.read).mesh;
  }

 private:
  bool put(NodeId node, int mesh) {
    for (ValueId out : graph_.node(node).outputs) graph_.value(out).mesh = mesh;
    return mesh != 0;
  }

  // In reverse order, so that all readers of a value are assigned before it.
  bool backward() {
    bool changed = false;
    for (std::size_t n = graph_.nodes.size(); n-- > 0;)
      if (NodeId node(n); mesh_of(graph_, node) == 0) changed |= put(node, where_read(node));
    return changed;
  }
  int where_read(NodeId node) const {
    if (update_[node].valid() && graph_.value(update_[node]).mesh != 0) return graph_.value(update_[node]).mesh;
    std::vector<NodeId> readers;
    for (ValueId out : graph_.node(node).outputs)
      for (const Use& use : uses_[out]) readers.push_back(use.node);
    std::sort(readers.begin(), readers.end());
    for (NodeId reader : readers)
      if (mesh_of(graph_, reader) != 0) return mesh_of(graph_, reader);
    return 0;
  }

  // Values without an assigned reader, such as the next step of a counter, get the mesh of their largest operand.
  bool forward() {
    for (NodeId n : graph_.nodes.ids()) {
      if (mesh_of(graph_, n) != 0) continue;
      int mesh = 0;
      std::int64_t most = -1;
      for (ValueId in : graph_.node(n).inputs)
        if (const Value& value = graph_.value(in); value.mesh != 0 && value.type.bytes() > most)
          mesh = value.mesh, most = value.type.bytes();
      if (put(n, mesh)) return true;
    }
    return false;
  }

  Graph& graph_;
  ById<ValueId, std::vector<Use>> uses_;
  ById<NodeId, ValueId> update_;  // by node of a variable
};

// Merges equal meshes and removes unused ones.
void merge_meshes(Graph& graph) {
  std::vector<int> now(graph.meshes.size(), -1);
  std::vector<Mesh> kept;
  auto use = [&](int& mesh) {
    int& number = now[static_cast<std::size_t>(mesh)];
    if (number < 0) {
      const Mesh& wanted = graph.meshes[static_cast<std::size_t>(mesh)];
      auto same = std::find(kept.begin(), kept.end(), wanted);
      number = static_cast<int>(same - kept.begin());
      if (same == kept.end()) kept.push_back(wanted);
    }
    mesh = number;
  };
  for (Value& value : graph.values) use(value.mesh);
  for (Variable& variable : graph.variables) use(variable.mesh);
  if (!kept.empty()) graph.meshes = std::move(kept);
}

class TransferInserter {
 public:
  TransferInserter(const Graph& graph, const OpTable& ops) : graph_(graph), ops_(ops), rewrite_(graph) {}

  Graph run() {
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.node(n);
      if (node.op->role == Role::transfer) {  // from the trace; between meshes that are merged it is the operand itself
        rewrite_.map(node.outputs[0], value_on_mesh(node.inputs[0], graph_.value(node.outputs[0]).mesh, n));
        continue;
      }
      std::vector<ValueId> inputs;
      for (ValueId in : node.inputs)
        inputs.push_back(
            value_on_mesh(in, node.outputs.empty() ? graph_.value(in).mesh : graph_.value(node.outputs[0]).mesh, n));
      rewrite_.keep(n, std::move(inputs));
    }
    std::vector<ValueId> updated;
    for (const Variable& variable : graph_.variables)
      updated.push_back(variable.updated.valid()
                            ? value_on_mesh(variable.updated, variable.mesh, graph_.value(variable.updated).producer)
                            : ValueId());
    Graph made = rewrite_.finish();
    for (std::size_t v = 0; v < updated.size(); ++v) made.variables[v].updated = updated[v];
    return made;
  }

 private:
  // The (new) value on the mesh.
  ValueId value_on_mesh(ValueId old, int mesh, NodeId reader) {
    ValueId value = rewrite_.at(old);
    const Graph& made = rewrite_.graph();
    if (made.value(value).mesh == mesh) return value;
    ValueId& there = transferred_[{value, mesh}];
    if (there.valid()) return there;
    const TensorType type = made.type(value);
    const Node maker = made.node(made.value(value).producer);  // a copy: nodes move while others are added
    const bool again = maker.op->role == Role::constant && maker.inputs.empty() && !made.value(value).layout;
    NodeId node = again ? rewrite_.add(maker.op, {}, maker.attrs, std::span(&type, 1), mesh, reader)
                        : rewrite_.add(&ops_.at("transfer"), {value}, {}, std::span(&type, 1), mesh, reader);
    return there = rewrite_.graph().node(node).outputs[0];
  }

  const Graph& graph_;
  const OpTable& ops_;
  Rewrite rewrite_;
  std::map<std::pair<ValueId, int>, ValueId> transferred_;
};

}  // namespace

Graph place(Graph graph, const OpTable& ops) {
  if (graph.meshes.size() == 1) return graph;
  MeshAssigner(graph).run();
  merge_meshes(graph);
  return TransferInserter(graph, ops).run();
}

}  // namespace karez::passes
