// The order pass: adds stores of values that are not updated in place, puts every reader of an old version before the
// writer, and sorts the nodes.
#include "karez/passes/scheduling/order.h"

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>

#include "karez/passes/node_traits.h"
#include "karez/passes/rewrite.h"
#include "karez/passes/scheduling/launch_simulation.h"
#include "karez/passes/scheduling/list_schedule.h"
#include "karez/passes/scheduling/node_dependencies.h"
#include "karez/passes/scheduling/peak_live_bytes.h"
#include "karez/passes/scheduling/readers.h"
#include "karez/passes/scheduling/segment.h"
#include "karez/passes/scheduling/slots.h"
#include "karez/passes/scheduling/write_gate.h"

namespace karez::passes {
namespace {

constexpr double max_time_ratio = 0.99;  // relative to the traced order; predictions are not more accurate than 1 %

// Updates come together at the end of the step, so that they can be fused. Nodes that only store values follow them.
enum class UpdateStage : std::uint8_t { before_updates, update, store };
UpdateStage update_stage(const Node& node) {
  return node.op->role == Role::update  ? UpdateStage::update
         : node.op->role == Role::store ? UpdateStage::store
                                        : UpdateStage::before_updates;
}

// Adds an `assign` after every updated value that is not written in place.
void add_assigns(Graph& graph, const OpTable& ops) {
  const std::vector<bool> in_place = updates_in_place(graph);
  std::vector<int> not_in_place;
  for (std::size_t v = 0; v < graph.variables.size(); ++v)
    if (graph.variables[v].updated.valid() && !in_place[v]) not_in_place.push_back(static_cast<int>(v));
  if (not_in_place.empty()) return;
  Rewrite rewrite(graph);
  for (NodeId n : graph.nodes.ids()) rewrite.keep(n);
  std::vector<std::pair<int, ValueId>> stored;
  for (int v : not_in_place) {
    const Variable& variable = graph.variables[static_cast<std::size_t>(v)];
    require(variable.read.valid(), "variable '", variable.name, "' is updated but the graph has no node that reads it");
    NodeId like = graph.value(variable.updated).producer;
    ValueId value = rewrite.at(variable.updated);
    // In w = transpose(w), no call may read the bytes that it overwrites.
    if (source_of(graph, variable.updated) == variable.read) {
      NodeId node = rewrite.add(&ops.at("copy"), {value}, {}, std::span(&variable.type, 1), variable.mesh, like);
      value = rewrite.graph().node(node).outputs[0];
      rewrite.graph().value(value).layout = variable.stored;
    }
    NodeId node = rewrite.add(&ops.at("assign"), {rewrite.at(variable.read), value}, {}, std::span(&variable.type, 1),
                              variable.mesh, like);
    ValueId out = rewrite.graph().node(node).outputs[0];
    rewrite.graph().value(out).layout = variable.stored;
    stored.emplace_back(v, out);
  }
  graph = rewrite.finish();
  for (auto [v, value] : stored) graph.variables[static_cast<std::size_t>(v)].updated = value;
}

// Finds the nodes that depend on a given node, along data edges and `control_edges`.
class Descendants {
 public:
  Descendants(const Graph& graph, const ById<ValueId, std::vector<Use>>& uses,
              const ById<NodeId, std::vector<NodeId>>& control_edges)
      : graph_(graph),
        uses_(uses),
        control_edges_(control_edges),
        seen_(graph.nodes.size(), 0) {}

  void visit_from(NodeId from) {
    ++round_;
    std::vector<NodeId> pending = {from};
    seen_[from] = round_;
    auto visit = [&](NodeId node) {
      if (seen_[node] == round_) return;
      seen_[node] = round_;
      pending.push_back(node);
    };
    while (!pending.empty()) {
      const NodeId current = pending.back();
      pending.pop_back();
      for (ValueId out : graph_.node(current).outputs)
        for (const Use& use : uses_[out]) visit(use.node);
      for (NodeId node : control_edges_[current]) visit(node);
    }
  }
  bool has(NodeId node) const { return seen_[node] == round_; }

 private:
  const Graph& graph_;
  const ById<ValueId, std::vector<Use>>& uses_;
  const ById<NodeId, std::vector<NodeId>>& control_edges_;
  ById<NodeId, int> seen_;  // by node: the last round in which it was visited
  int round_ = 0;
};

// A reader that depends on the new version cannot come before the write, so it gets a copy of the old version. A reader
// that would close a cycle of writers, as in a, b = b, a, gets a copy too. Returns whether any copy was made.
bool copy_for_late_readers(Graph& graph, const OpTable& ops) {
  auto uses = uses_of(graph);
  std::set<std::pair<NodeId, int>> late_operands;  // (node, operand number): operands that must read a copy
  std::set<ValueId> copied;                        // the values of late operands
  // Existing control edges, and edges from readers to the writers visited so far.
  ById<NodeId, std::vector<NodeId>> control_edges(graph.nodes.size());
  for (NodeId n : graph.nodes.ids())
    for (NodeId predecessor : graph.node(n).after) control_edges[predecessor].push_back(n);
  Descendants descendants(graph, uses, control_edges);
  for (const Variable& variable : graph.variables) {
    if (!variable.updated.valid() || !variable.read.valid()) continue;
    NodeId writer = graph.value(variable.updated).producer;
    descendants.visit_from(writer);
    for (const Use& use : uses[variable.read]) {
      if (use.node == writer) continue;
      std::set<NodeId> readers_through_views = {use.node};
      if (may_alias(graph.node(use.node)))
        for (ValueId out : graph.node(use.node).outputs) collect_readers(graph, uses, out, readers_through_views);
      readers_through_views.erase(writer);
      bool is_late = std::any_of(readers_through_views.begin(), readers_through_views.end(),
                                 [&](NodeId reader) { return descendants.has(reader); });
      if (is_late) late_operands.insert({use.node, use.operand}), copied.insert(variable.read);
      for (NodeId reader : readers_through_views)
        if (!is_late) control_edges[reader].push_back(writer);
    }
  }
  if (late_operands.empty()) return false;
  Rewrite rewrite(graph);
  ById<ValueId, ValueId> copies(graph.values.size());
  for (NodeId n : graph.nodes.ids()) {
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < graph.nodes[n].inputs.size(); ++i) {
      ValueId in = graph.nodes[n].inputs[i];
      bool is_late = late_operands.count({n, static_cast<int>(i)}) > 0;
      inputs.push_back(is_late ? copies[in] : rewrite.at(in));
    }
    rewrite.keep(n, std::move(inputs));
    for (ValueId out : graph.nodes[n].outputs) {
      if (copied.count(out) == 0) continue;
      const Value& value = graph.value(out);
      NodeId node = rewrite.add(&ops.at("copy"), {rewrite.at(out)}, {}, std::span(&value.type, 1), value.mesh, n);
      ValueId copy = rewrite.graph().node(node).outputs[0];
      rewrite.graph().value(copy).layout = value.layout;
      copies[out] = copy;
    }
  }
  graph = rewrite.finish();
  return true;
}

void add_control_edges(Graph& graph) {
  auto uses = uses_of(graph);
  for (const Variable& variable : graph.variables) {
    if (!variable.updated.valid() || !variable.read.valid()) continue;
    NodeId writer = graph.value(variable.updated).producer;
    std::set<NodeId> readers;
    collect_readers(graph, uses, variable.read, readers);
    for (NodeId reader : readers)
      if (reader != writer && reader != graph.value(variable.read).producer) graph.node(writer).after.push_back(reader);
  }
}

// With micro-batches, the nodes that all micro-batches read come first, then the nodes that act for each micro-batch,
// then the nodes that wait for all of these acts. Thus nodes with the same number of acts are adjacent and need few
// actors.
enum class MicrobatchPhase : std::uint8_t { predecessor, during, successor };
ById<NodeId, MicrobatchPhase> phases_of(const Graph& graph) {
  ById<NodeId, MicrobatchPhase> phases;
  for (const Node& node : graph.nodes) {
    bool waits = false;
    for (ValueId in : node.inputs) waits = waits || phases[graph.value(in).producer] != MicrobatchPhase::predecessor;
    for (NodeId predecessor : node.after) waits = waits || graph.node(predecessor).acts > 1;
    phases.push_back(node.acts > 1 ? MicrobatchPhase::during
                     : waits       ? MicrobatchPhase::successor
                                   : MicrobatchPhase::predecessor);
  }
  return phases;
}

// Sorts by Kahn's algorithm. Among the ready nodes of one phase and update stage, the node with the smallest rank comes
// first, and among equal ranks the node traced first.
std::vector<NodeId> sorted(const Graph& graph, const ById<NodeId, int>& rank) {
  NodeDependencies dependencies(graph);
  const auto phases = phases_of(graph);
  using Key = std::tuple<MicrobatchPhase, UpdateStage, int, NodeId>;
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
  auto push = [&](NodeId n) { ready.emplace(phases[n], update_stage(graph.node(n)), rank[n], n); };
  for (NodeId n : graph.nodes.ids())
    if (dependencies.in_degree[n] == 0) push(n);
  std::vector<NodeId> result;
  while (!ready.empty()) {
    NodeId n = std::get<NodeId>(ready.top());
    ready.pop();
    result.push_back(n);
    for (NodeId successor : dependencies.successors[n])
      if (--dependencies.in_degree[successor] == 0) push(successor);
  }
  require(result.size() == graph.nodes.size(),
          "order: the graph has a cycle through a variable's readers and its writer");
  return result;
}

StreamKind stream_of(const Node& node) {
  return node.op->role == Role::source ? StreamKind::host
         : crosses_devices(node)       ? StreamKind::comm
                                       : StreamKind::compute;
}

// True if the nodes of the list and their values have consecutive numbers.
bool is_numbered_in_order(const Graph& graph, const std::vector<NodeId>& list) {
  std::size_t next_node = 0, next_value = 0;
  for (NodeId n : list) {
    if (n != NodeId(next_node++)) return false;
    for (ValueId out : graph.node(n).outputs)
      if (out != ValueId(next_value++)) return false;
  }
  return next_value == graph.values.size();
}

OrderedGraph in_order(Graph graph, const std::vector<NodeId>& list) {
  OrderedGraph made;
  if (is_numbered_in_order(graph, list)) {
    made.graph = std::move(graph);
  } else {
    Rewrite rewrite(graph);
    for (NodeId n : list) rewrite.keep(n);
    made.graph = rewrite.finish();
  }
  for (const Node& node : made.graph.nodes) made.stream.push_back(stream_of(node));
  return made;
}

// Returns the seconds of one launch, with the slots that the `slots` pass will choose.
double seconds_of(const OrderedGraph& ordered, const CostTable& costs, int max_slots) {
  const Segmentation segmentation = segment(ordered.graph, ordered.stream);
  return simulate_launch(ordered.graph, segmentation, slot_counts(ordered.graph, segmentation, costs, max_slots), costs)
      .seconds;
}

}  // namespace

OrderedGraph order(Graph graph, const OpTable& ops, const CostTable& costs, int max_slots, bool check_nan) {
  add_assigns(graph, ops);
  copy_for_late_readers(graph, ops);
  add_control_edges(graph);
  gate_writes(graph, check_nan);
  const std::vector<NodeId> traced_order = sorted(graph, ById<NodeId, int>(graph.nodes.size(), 0));
  OrderedGraph traced = in_order(std::move(graph), traced_order);
  // Without transfers, every order takes the same time.
  if (std::find(traced.stream.begin(), traced.stream.end(), StreamKind::comm) == traced.stream.end()) return traced;
  traced.seconds = seconds_of(traced, costs, max_slots);
  OrderedGraph cost_order =
      in_order(traced.graph, sorted(traced.graph, list_schedule(traced.graph, traced.stream, costs)));
  cost_order.seconds = seconds_of(cost_order, costs, max_slots);
  cost_order.traced_seconds = traced.traced_seconds = traced.seconds;
  if (cost_order.seconds >= max_time_ratio * traced.seconds) return traced;
  const auto bytes = [](const OrderedGraph& ordered) { return static_cast<double>(peak_live_bytes(ordered.graph)); };
  return cost_order.seconds * bytes(cost_order) <= traced.seconds * bytes(traced) ? cost_order : traced;
}

}  // namespace karez::passes
