// Moves the box nodes of each variable to the position right before the nodes that read them.
#include "karez/passes/logical/gather_late.h"

#include <map>
#include <set>

#include "karez/graph/op.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

bool is_gradient(const Node& node) { return node.path == "grad" || node.path.ends_with(".grad"); }

class GatherLate {
 public:
  explicit GatherLate(const Graph& graph)
      : graph_(graph),
        is_late_(graph.nodes.size(), false),
        rewrite_(graph),
        last_compute_node_(graph.meshes.size()) {
    std::set<ValueId> transferred_variables, microbatch_variables;
    for (NodeId n : graph.nodes.ids()) {
      const Node& node = graph.node(n);
      if (node.op->role == Role::transition) {
        const ValueId root = root_of(node.inputs[0]);
        if (graph.node(graph.value(root).producer).op->role != Role::state) continue;
        roots_[n] = root;
        if (crosses_devices(node)) transferred_variables.insert(root);
      } else if (node.acts > 1) {
        for (ValueId in : node.inputs) microbatch_variables.insert(root_of(in));
      }
    }
    for (const auto& [n, root] : roots_)
      is_late_[n] = transferred_variables.count(root) > 0 && microbatch_variables.count(root) == 0,
      has_late_boxes_ = has_late_boxes_ || is_late_[n];
  }

  bool has_late_boxes() const { return has_late_boxes_; }

  Graph run() {
    bool is_backward = false;
    for (NodeId n : graph_.nodes.ids()) {
      if (is_late_[n]) continue;
      const Node& node = graph_.node(n);
      is_backward = is_backward || is_gradient(node);
      std::vector<ValueId> inputs;
      for (ValueId in : node.inputs) inputs.push_back(gathered(in, is_backward));
      const NodeId new_node = rewrite_.keep(n, std::move(inputs));
      if (node.op->role == Role::compute && node.acts == 1) last_on_mesh(n) = new_node;
    }
    for (const Output& output : graph_.outputs) gathered(output.value, is_backward);
    for (const Variable& variable : graph_.variables)
      if (variable.updated.valid()) gathered(variable.updated, is_backward);
    return rewrite_.finish();
  }

 private:
  // Returns the last (new) compute node on the mesh of `n`.
  NodeId& last_on_mesh(NodeId n) { return last_compute_node_[static_cast<std::size_t>(mesh_of(graph_, n))]; }
  ValueId root_of(ValueId value) const {
    while (graph_.node(graph_.value(value).producer).op->role == Role::transition)
      value = graph_.node(graph_.value(value).producer).inputs[0];
    return value;
  }

  // Returns the (new) value that nodes in the forward or backward half of the launch read instead of `value`.
  ValueId gathered(ValueId value, bool is_backward) {
    const NodeId box = graph_.value(value).producer;
    if (!is_late_[box]) return rewrite_.at(value);
    auto& gathered_boxes = gathered_values_[is_backward];
    if (const auto found = gathered_boxes.find(value); found != gathered_boxes.end()) return found->second;
    const Node& node = graph_.node(box);
    const ValueId operand = gathered(node.inputs[0], is_backward);
    const NodeId new_box =
        rewrite_.add(node.op, {operand}, node.attrs, std::span(&graph_.type(value), 1), graph_.value(value).mesh, box);
    const ValueId result = rewrite_.graph().node(new_box).outputs[0];
    rewrite_.graph().value(result).layout = graph_.value(value).layout;
    if (const NodeId predecessor = last_on_mesh(box); predecessor.valid() && crosses_devices(node))
      rewrite_.graph().node(new_box).after = {predecessor};
    rewrite_.map(value, result);
    return gathered_boxes[value] = result;
  }

  const Graph& graph_;
  std::map<NodeId, ValueId> roots_;  // the variable that each box reads
  ById<NodeId, bool> is_late_;
  bool has_late_boxes_ = false;
  Rewrite rewrite_;
  std::vector<NodeId> last_compute_node_;  // by mesh: the last (new) compute node so far
  std::map<ValueId, ValueId> gathered_values_[2];
};

}  // namespace

Graph gather_late(Graph graph) {
  GatherLate rewriter(graph);
  return rewriter.has_late_boxes() ? rewriter.run() : graph;
}

}  // namespace karez::passes
