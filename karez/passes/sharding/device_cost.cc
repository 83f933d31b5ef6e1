// The cost of a node on the busiest device.
#include "karez/passes/sharding/device_cost.h"

#include "karez/passes/node_traits.h"

namespace karez::passes {

namespace {

Cost work_in(const Graph& graph, NodeId id, const std::vector<Layout>& in, const std::vector<Layout>& out) {
  const Node& node = graph.node(id);
  Role role = node.op->role;
  if (may_alias(node) || role == Role::transition || role == Role::transfer || role == Role::state ||
      role == Role::constant)
    return {};
  const Mesh& mesh = graph.mesh(node.outputs[0]);
  auto parts = [&](const std::vector<ValueId>& values, const std::vector<Layout>& layouts) {
    std::vector<TensorType> types;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const TensorType& type = graph.type(values[i]);
      types.push_back({type.dtype, shape_of(local_box(type.shape, mesh, layouts[i], 0))});
    }
    return types;
  };
  return cost_of(*node.op, parts(node.inputs, in), parts(node.outputs, out), node.attrs);
}

double seconds_of(const Cost& work, const CostTable& costs) {
  return work.flops == 0 && work.bytes == 0 ? 0 : costs.seconds(work);
}

}  // namespace

double device_seconds(const Graph& graph, NodeId id, const std::vector<Layout>& in, const std::vector<Layout>& out,
                      const CostTable& costs) {
  return graph.node(id).setup ? 0 : seconds_of(work_in(graph, id, in, out), costs);
}

double device_seconds(const Graph& graph, NodeId id, const CostTable& costs) {
  return graph.node(id).setup ? 0 : seconds_of(device_work(graph, id), costs);
}

Cost device_work(const Graph& graph, NodeId id) {
  auto layouts = [&](const std::vector<ValueId>& values) {
    std::vector<Layout> found;
    found.reserve(values.size());
    for (ValueId value : values) found.push_back(*graph.value(value).layout);
    return found;
  };
  const Node& node = graph.node(id);
  return work_in(graph, id, layouts(node.inputs), layouts(node.outputs));
}

std::int64_t largest_part(const Graph& graph, ValueId value) {
  const TensorType& type = graph.type(value);
  return count_of(shape_of(local_box(type.shape, graph.mesh(value), *graph.value(value).layout, 0))) *
         size_of(type.dtype);
}

}  // namespace karez::passes
