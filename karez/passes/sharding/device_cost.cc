// The cost of a node on the busiest device.
#include "karez/passes/sharding/device_cost.h"

#include <algorithm>

#include "karez/passes/node_traits.h"

namespace karez::passes {

namespace {

bool is_free(const Node& node) {
  const Role role = node.op->role;
  return may_alias(node) || role == Role::transition || role == Role::transfer || role == Role::state ||
         role == Role::constant;
}

// The work of the node on a mesh of one device, whose part of every value is the whole.
Cost whole_work(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const NodeView view{&graph, id};
  return is_free(node) ? Cost() : cost_of(*node.op, view.in_types(), view.out_types(), node.attrs);
}

Cost work_in(const Graph& graph, NodeId id, const std::vector<Layout>& in, const std::vector<Layout>& out) {
  const Node& node = graph.node(id);
  const Mesh& mesh = graph.mesh(node.outputs[0]);
  if (mesh.size() == 1) return whole_work(graph, id);
  if (is_free(node)) return {};
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
                      const CostTable& costs, const FusedValues& fused) {
  const Node& node = graph.node(id);
  if (node.setup) return 0;
  Cost work = work_in(graph, id, in, out);
  if (fused.empty() || (work.flops == 0 && work.bytes == 0)) return seconds_of(work, costs);
  const auto part = [&](ValueId value, const Layout& layout) {
    return static_cast<double>(largest_part(graph.type(value), graph.mesh(value), layout));
  };
  double saved_bytes = 0, saved_calls = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (fused_value(fused, node.inputs[i]).reads > 0) saved_bytes += part(node.inputs[i], in[i]);
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    const FusedValue value = fused_value(fused, node.outputs[o]);
    if (value.written) saved_bytes += part(node.outputs[o], out[o]);
    if (value.called) saved_calls = costs.call;
  }
  work.bytes = std::max(0.0, work.bytes - saved_bytes);
  return std::max(0.0, seconds_of(work, costs) - saved_calls);
}

double device_seconds(const Graph& graph, NodeId id, const CostTable& costs) {
  return graph.node(id).setup ? 0 : seconds_of(device_work(graph, id), costs);
}

Cost device_work(const Graph& graph, NodeId id) {
  if (graph.mesh(graph.node(id).outputs[0]).size() == 1) return whole_work(graph, id);
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
  return largest_part(graph.type(value), graph.mesh(value), *graph.value(value).layout);
}

std::int64_t largest_part(const TensorType& type, const Mesh& mesh, const Layout& layout) {
  if (mesh.size() == 1) return type.bytes();
  return count_of(shape_of(local_box(type.shape, mesh, layout, 0))) * size_of(type.dtype);
}

}  // namespace karez::passes
