// Assigns undecided values to the mesh of their first reader, and transfers values that other meshes read.
#include "karez/passes/logical/place.h"

#include <algorithm>
#include <map>

#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

// Assigns values one after another to the mesh of a reader or of a variable's update or, if these have no mesh, to the
// mesh of an operand.
class MeshAssigner {
 public:
  explicit MeshAssigner(Graph& graph) : graph_(graph), uses_(uses_of(graph)), next_version_(graph.nodes.size()) {
    for (const Variable& variable : graph.variables)
      if (variable.read.valid()) next_version_[graph.value(variable.read).producer] = variable.updated;
  }

  void run() {
    while (assign_from_readers() || assign_from_operands()) {}
    for (Variable& variable : graph_.variables)
      if (variable.read.valid()) variable.mesh = graph_.value(variable.read).mesh;
  }

 private:
  bool assign_mesh(NodeId node, int mesh) {
    for (ValueId out : graph_.node(node).outputs) graph_.value(out).mesh = mesh;
    return mesh != 0;
  }

  // Visits nodes in reverse order, so that all readers of a value are assigned before the value.
  bool assign_from_readers() {
    bool changed = false;
    for (std::size_t n = graph_.nodes.size(); n-- > 0;)
      if (NodeId node(n); mesh_of(graph_, node) == 0) changed |= assign_mesh(node, mesh_of_reader(node));
    return changed;
  }
  int mesh_of_reader(NodeId node) const {
    if (next_version_[node].valid() && graph_.value(next_version_[node]).mesh != 0)
      return graph_.value(next_version_[node]).mesh;
    std::vector<NodeId> readers;
    for (ValueId out : graph_.node(node).outputs)
      for (const Use& use : uses_[out]) readers.push_back(use.node);
    std::sort(readers.begin(), readers.end());
    for (NodeId reader : readers)
      if (mesh_of(graph_, reader) != 0) return mesh_of(graph_, reader);
    return 0;
  }

  // Assigns a value without an assigned reader, such as the next step of a counter, to the mesh of its largest operand.
  bool assign_from_operands() {
    for (NodeId n : graph_.nodes.ids()) {
      if (mesh_of(graph_, n) != 0) continue;
      int mesh = 0;
      std::int64_t max_bytes = -1;
      for (ValueId in : graph_.node(n).inputs)
        if (const Value& value = graph_.value(in); value.mesh != 0 && value.type.bytes() > max_bytes)
          mesh = value.mesh, max_bytes = value.type.bytes();
      if (assign_mesh(n, mesh)) return true;
    }
    return false;
  }

  Graph& graph_;
  ById<ValueId, std::vector<Use>> uses_;
  ById<NodeId, ValueId> next_version_;  // the next version of each variable, by the node that reads the variable
};

// Merges equal meshes and removes unused meshes.
void merge_meshes(Graph& graph) {
  std::vector<int> new_index(graph.meshes.size(), -1);
  std::vector<Mesh> merged_meshes;
  auto renumber = [&](int& mesh) {
    int& number = new_index[static_cast<std::size_t>(mesh)];
    if (number < 0) {
      const Mesh& old_mesh = graph.meshes[static_cast<std::size_t>(mesh)];
      auto found = std::find(merged_meshes.begin(), merged_meshes.end(), old_mesh);
      number = static_cast<int>(found - merged_meshes.begin());
      if (found == merged_meshes.end()) merged_meshes.push_back(old_mesh);
    }
    mesh = number;
  };
  for (Value& value : graph.values) renumber(value.mesh);
  for (Variable& variable : graph.variables) renumber(variable.mesh);
  if (!merged_meshes.empty()) graph.meshes = std::move(merged_meshes);
}

class TransferInserter {
 public:
  TransferInserter(const Graph& graph, const OpTable& ops) : graph_(graph), ops_(ops), rewrite_(graph) {}

  Graph run() {
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.node(n);
      // The result of a transfer in the trace is its operand if the two meshes were merged.
      if (node.op->role == Role::transfer) {
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
    Graph new_graph = rewrite_.finish();
    for (std::size_t v = 0; v < updated.size(); ++v) new_graph.variables[v].updated = updated[v];
    return new_graph;
  }

 private:
  // Returns the new value for `old` on the mesh. If it is on another mesh, adds a transfer, or a copy of a constant.
  ValueId value_on_mesh(ValueId old, int mesh, NodeId reader) {
    ValueId value = rewrite_.at(old);
    const Graph& new_graph = rewrite_.graph();
    if (new_graph.value(value).mesh == mesh) return value;
    ValueId& transferred = transferred_[{value, mesh}];
    if (transferred.valid()) return transferred;
    const TensorType type = new_graph.type(value);
    // A copy, since adding nodes invalidates references.
    const Node producer = new_graph.node(new_graph.value(value).producer);
    const bool is_plain_constant =
        producer.op->role == Role::constant && producer.inputs.empty() && !new_graph.value(value).layout;
    NodeId node = is_plain_constant
                      ? rewrite_.add(producer.op, {}, producer.attrs, std::span(&type, 1), mesh, reader)
                      : rewrite_.add(&ops_.at("transfer"), {value}, {}, std::span(&type, 1), mesh, reader);
    return transferred = rewrite_.graph().node(node).outputs[0];
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
