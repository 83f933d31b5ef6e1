// Copies the boxes of variables to their readers.
#include "karez/passes/logical/gather_late.h"

#include <map>
#include <set>

#include "karez/graph/op.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

bool of_gradient(const Node& node) { return node.path == "grad" || node.path.ends_with(".grad"); }

class GatherLate {
 public:
  explicit GatherLate(const Graph& graph)
      : graph_(graph),
        late_(graph.nodes.size(), false),
        rewrite_(graph),
        last_(graph.meshes.size()) {
    std::set<ValueId> travel, kept;
    for (NodeId n : graph.nodes.ids()) {
      const Node& node = graph.node(n);
      if (node.op->role == Role::transition) {
        const ValueId root = root_of(node.inputs[0]);
        if (graph.node(graph.value(root).producer).op->role != Role::state) continue;
        roots_[n] = root;
        if (crosses_devices(node)) travel.insert(root);
      } else if (node.acts > 1) {
        for (ValueId in : node.inputs) kept.insert(root_of(in));
      }
    }
    for (const auto& [n, root] : roots_)
      late_[n] = travel.count(root) > 0 && kept.count(root) == 0, any_ = any_ || late_[n];
  }

  bool any() const { return any_; }

  Graph run() {
    bool backward = false;
    for (NodeId n : graph_.nodes.ids()) {
      if (late_[n]) continue;
      const Node& node = graph_.node(n);
      backward = backward || of_gradient(node);
      std::vector<ValueId> inputs;
      for (ValueId in : node.inputs) inputs.push_back(gathered(in, backward));
      const NodeId now = rewrite_.keep(n, std::move(inputs));
      if (node.op->role == Role::compute && node.acts == 1) last_on_mesh(n) = now;
    }
    for (const Output& output : graph_.outputs) gathered(output.value, backward);
    for (const Variable& variable : graph_.variables)
      if (variable.updated.valid()) gathered(variable.updated, backward);
    return rewrite_.finish();
  }

 private:
  // The last (new) compute node on the mesh of `n`.
  NodeId& last_on_mesh(NodeId n) { return last_[static_cast<std::size_t>(mesh_of(graph_, n))]; }
  ValueId root_of(ValueId value) const {
    while (graph_.node(graph_.value(value).producer).op->role == Role::transition)
      value = graph_.node(graph_.value(value).producer).inputs[0];
    return value;
  }

  // The (new) value for the forward or backward half of the launch.
  ValueId gathered(ValueId value, bool backward) {
    const NodeId box = graph_.value(value).producer;
    if (!late_[box]) return rewrite_.at(value);
    auto& known = made_[backward];
    if (const auto found = known.find(value); found != known.end()) return found->second;
    const Node& node = graph_.node(box);
    const ValueId from = gathered(node.inputs[0], backward);
    const NodeId now =
        rewrite_.add(node.op, {from}, node.attrs, std::span(&graph_.type(value), 1), graph_.value(value).mesh, box);
    const ValueId out = rewrite_.graph().node(now).outputs[0];
    rewrite_.graph().value(out).layout = graph_.value(value).layout;
    if (const NodeId before = last_on_mesh(box); before.valid() && crosses_devices(node))
      rewrite_.graph().node(now).after = {before};
    rewrite_.map(value, out);
    return known[value] = out;
  }

  const Graph& graph_;
  std::map<NodeId, ValueId> roots_;  // by box: the variable
  ById<NodeId, bool> late_;
  bool any_ = false;
  Rewrite rewrite_;
  std::vector<NodeId> last_;  // by mesh: the last (new) compute node so far
  std::map<ValueId, ValueId> made_[2];
};

}  // namespace

Graph gather_late(Graph graph) {
  GatherLate late(graph);
  return late.any() ? late.run() : graph;
}

}  // namespace karez::passes
