// Finds the values that are live at the peak nodes of a launch, in program order.
#include "karez/passes/memory_limit/memory_estimate.h"

#include <algorithm>

#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/readers.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/sharding/device_cost.h"

namespace karez::passes {
namespace {

constexpr double shared_bytes_weight = 0.125;

bool shares_bytes(const Node& node) {
  const Role role = node.op->role;
  return may_alias(node) || role == Role::constant || role == Role::update || role == Role::store;
}
bool is_state(const Graph& graph, ValueId value) {
  return graph.node(graph.value(value).producer).op->role == Role::state;
}

// Returns whether each value is a result that is computed in the memory of the user (see results.h).
ById<ValueId, bool> results_of(const Graph& graph) {
  ById<ValueId, bool> is_result(graph.values.size(), false);
  for (const Output& output : graph.outputs)
    is_result[output.value] = graph.node(graph.value(output.value).producer).op->role != Role::source;
  return is_result;
}

double part_bytes(const Graph& graph, ValueId value, const Layout& layout) {
  const TensorType& type = graph.type(value);
  return static_cast<double>(count_of(shape_of(local_box(type.shape, graph.mesh(value), layout, 0))) *
                             size_of(type.dtype));
}

// Returns, by placement and node of a boxed graph, the bytes that become live at the node, minus the bytes whose last
// reader is the preceding node.
std::vector<std::vector<std::int64_t>> changes_of(const Graph& boxed) {
  const auto uses = uses_of(boxed);
  std::vector<std::vector<std::int64_t>> change(boxed.meshes.size(),
                                                std::vector<std::int64_t>(boxed.nodes.size() + 1, 0));
  const ById<ValueId, bool> is_result = results_of(boxed);
  for (ValueId v : boxed.values.ids()) {
    const NodeId producer = boxed.value(v).producer;
    if (shares_bytes(boxed.node(producer)) || is_state(boxed, v) || is_result[v]) continue;
    std::set<NodeId> readers;
    collect_readers(boxed, uses, v, readers);
    const NodeId last = readers.empty() ? producer : *readers.rbegin();
    auto& changes = change[static_cast<std::size_t>(boxed.value(v).mesh)];
    changes[static_cast<std::size_t>(producer.index)] += largest_part(boxed, v);
    changes[static_cast<std::size_t>(last.index) + 1] -= largest_part(boxed, v);
  }
  return change;
}

}  // namespace

std::int64_t peak_device_bytes(const Graph& boxed) {
  std::int64_t fullest = 0;
  const auto change = changes_of(boxed);
  for (std::size_t m = 0; m < change.size(); ++m) {
    std::int64_t stored = 0, live = 0, max_live = 0;
    for (const Variable& variable : boxed.variables)
      if (variable.mesh == static_cast<int>(m))
        stored += count_of(shape_of(local_box(variable.type.shape, boxed.meshes[m], *variable.stored, 0))) *
                  size_of(variable.type.dtype);
    for (const std::int64_t bytes : change[m]) max_live = std::max(max_live, live += bytes);
    fullest = std::max(fullest, stored + max_live);
  }
  return fullest;
}

PeakNodes peak_nodes(const ShardedGraph& sharded, const OpTable& ops, const CostTable& costs) {
  const Graph boxed = box(sharded.graph, ops, sharded.operand_layouts, costs);
  const auto change = changes_of(boxed);
  PeakNodes out;
  for (const auto& changes : change) {
    std::int64_t live = 0, max_live = 0;
    NodeId fullest(0), node;  // numbered as in the graph without boxes; a box comes after the producer of its operand
    auto bytes = changes.begin();
    for (NodeId n : boxed.nodes.ids()) {
      if (boxed.node(n).op->role != Role::transition) node = node.valid() ? NodeId(node.index + 1) : NodeId(0);
      if ((live += *bytes++) > max_live) max_live = live, fullest = node;
    }
    out.push_back(fullest);
  }
  return out;
}

MemoryEstimate::MemoryEstimate(const Graph& graph, const std::vector<PeakNodes>& peaks, MemoryAccount account) {
  for (const Node& node : graph.nodes) {
    const bool state = node.op->role == Role::state;
    operand_weights_.emplace_back(node.inputs.size(), may_alias(node) ? 0 : shared_bytes_weight);
    result_weights_.emplace_back(node.outputs.size(), state ? 1 : shares_bytes(node) ? 0 : shared_bytes_weight);
  }
  const auto uses = uses_of(graph);
  const ById<ValueId, bool> is_result = results_of(graph);
  for (ValueId v : graph.values.ids()) {
    const Value& value = graph.value(v);
    if (is_state(graph, v) || is_result[v]) continue;
    for (const PeakNodes& peak_nodes : peaks) {
      const NodeId peak = peak_nodes[static_cast<std::size_t>(value.mesh)];
      std::vector<Use> late_uses;
      for (const Use& use : uses[v])
        if (value.producer <= peak && peak <= use.node) late_uses.push_back(use);
      if (account == MemoryAccount::producer_layouts && !late_uses.empty() &&
          !shares_bytes(graph.node(value.producer))) {
        result_weights_[value.producer][static_cast<std::size_t>(value.output)] = 1;
      } else if (account == MemoryAccount::consumer_layouts) {
        for (const Use& use : late_uses)
          operand_weights_[use.node][static_cast<std::size_t>(use.operand)] +=
              1 / static_cast<double>(late_uses.size()) / static_cast<double>(peaks.size());
      }
    }
  }
}

double MemoryEstimate::of(const Graph& graph, NodeId id, const std::vector<Layout>& ins,
                          const std::vector<Layout>& outs) const {
  const Node& node = graph.node(id);
  double bytes = 0;
  for (std::size_t o = 0; o < outs.size(); ++o)
    bytes += result_weights_[id][o] * part_bytes(graph, node.outputs[o], outs[o]);
  for (std::size_t i = 0; i < ins.size(); ++i)
    bytes += operand_weights_[id][i] * part_bytes(graph, node.inputs[i], ins[i]);
  return bytes;
}

double MemoryEstimate::of(const ShardedGraph& sharded) const {
  double bytes = 0;
  for (NodeId n : sharded.graph.nodes.ids()) {
    std::vector<Layout> outs;
    for (ValueId out : sharded.graph.node(n).outputs) outs.push_back(*sharded.graph.value(out).layout);
    bytes += of(sharded.graph, n, sharded.operand_layouts[n], outs);
  }
  return bytes;
}

}  // namespace karez::passes
