// What a node costs the busiest device.
#include "passes/price.h"

#include "passes/order.h"

namespace karez::passes {

double device_seconds(const Graph& graph, NodeId id, const std::vector<Layout>& in, const std::vector<Layout>& out, const CostTable& costs) {
  const Node& node = graph.node(id);
  Role role = node.op->role;
  if (may_alias(node) || role == Role::transition || role == Role::state || role == Role::constant) return 0;
  const Mesh& mesh = graph.mesh(node.outputs[0]);
  auto parts = [&](const std::vector<ValueId>& values, const std::vector<Layout>& layouts) {
    std::vector<TensorType> types;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const TensorType& type = graph.type(values[i]);
      types.push_back({type.dtype, shape_of(local_box(type.shape, mesh, layouts[i], 0))});
    }
    return types;
  };
  Cost cost = cost_of(*node.op, parts(node.inputs, in), parts(node.outputs, out), node.attrs);
  return costs.seconds(cost.work, cost.flops, cost.bytes);
}

double device_seconds(const Graph& graph, NodeId id, const CostTable& costs) {
  auto layouts = [&](const std::vector<ValueId>& values) {
    std::vector<Layout> found;
    for (ValueId value : values) found.push_back(*graph.value(value).layout);
    return found;
  };
  const Node& node = graph.node(id);
  return device_seconds(graph, id, layouts(node.inputs), layouts(node.outputs), costs);
}

}  // namespace karez::passes
