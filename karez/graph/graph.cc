// Queries on a graph: operand and result types, the description of a node, and the uses of values.
#include "karez/graph/graph.h"

#include "karez/graph/op.h"

namespace karez::graph {

Node::Node() = default;
Node::Node(const Node&) = default;
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(const Node&) = default;
Node& Node::operator=(Node&&) noexcept = default;
Node::~Node() = default;

Graph::Graph() = default;
Graph::Graph(const Graph&) = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(const Graph&) = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;
namespace {
std::vector<TensorType> types_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<TensorType> out;
  out.reserve(ids.size());
  for (ValueId id : ids) out.push_back(graph.type(id));
  return out;
}
}  // namespace

std::vector<TensorType> NodeView::in_types() const { return types_of(*graph, node().inputs); }
std::vector<TensorType> NodeView::out_types() const { return types_of(*graph, node().outputs); }

std::string describe(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::string text = node.op == nullptr ? "a node without op" : node.op->name;
  text += node.where.empty() ? cat(" n", id) : cat(" at ", node.where);
  if (!node.path.empty()) text += cat(" (", node.path, ")");
  return text;
}

Layout layout_of(const Graph& graph, const Output& output) {
  return output.layout ? *output.layout : broadcast_layout(graph.mesh(output.value));
}

int mesh_of(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return node.outputs.empty() ? 0 : graph.value(node.outputs[0]).mesh;
}

int fills_per_launch(const Node& node) { return combines_acts(node.op->role) ? 1 : node.acts; }

int fills_per_launch(const Graph& graph, ValueId value) {
  NodeId producer = graph.value(value).producer;
  return producer.valid() ? fills_per_launch(graph.node(producer)) : 1;
}

Attrs attrs_at(const Node& node, int act) {
  Attrs attrs = node.attrs;
  if (!node.act_attrs.empty())
    for (const auto& [name, value] : node.act_attrs[static_cast<std::size_t>(act)].items()) attrs.set(name, value);
  return attrs;
}

ById<ValueId, std::vector<Use>> uses_of(const Graph& graph) {
  ById<ValueId, std::size_t> counts(graph.values.size(), 0);
  for (const Node& node : graph.nodes)
    for (ValueId in : node.inputs) ++counts[in];
  ById<ValueId, std::vector<Use>> uses(graph.values.size());
  for (ValueId value : uses.ids()) uses[value].reserve(counts[value]);
  for (NodeId n : graph.nodes.ids())
    for (std::size_t i = 0; i < graph.nodes[n].inputs.size(); ++i)
      uses[graph.nodes[n].inputs[i]].push_back({n, static_cast<int>(i)});
  return uses;
}

}  // namespace karez::graph
