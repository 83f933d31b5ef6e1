// order: adds stores of values that are not updated in place, puts every reader of an old version before its writer,
// and sorts.
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

constexpr double max_time_ratio = 0.99;  // of the traced order's launch: predictions are no more accurate than that

// Updates end the step together, so that they fuse; after them come the nodes that store the results of others.
enum class UpdateStage : std::uint8_t { before_updates, update, store };
UpdateStage update_stage(const Node& node) {
  return node.op->role == Role::update  ? UpdateStage::update
         : node.op->role == Role::store ? UpdateStage::store
                                        : UpdateStage::before_updates;
}

// Adds an `assign` after every updated value that is not written in place.
void add_assigns(Graph& graph, const OpTable& ops) {
  const std::vector<bool> in_place = updates_in_place(graph);
  std::vector<int> late;
  for (std::size_t v = 0; v < graph.variables.size(); ++v)
    if (graph.variables[v].updated.valid() && !in_place[v]) late.push_back(static_cast<int>(v));
  if (late.empty()) return;
  Rewrite rewrite(graph);
  for (NodeId n : graph.nodes.ids()) rewrite.keep(n);
  std::vector<std::pair<int, ValueId>> stored;
  for (int v : late) {
    const Variable& variable = graph.variables[static_cast<std::size_t>(v)];
    require(variable.read.valid(), "variable '", variable.name, "' is updated but the graph has no node that reads it");
    NodeId like = graph.value(variable.updated).producer;
    ValueId value = rewrite.at(variable.updated);
    if (source_of(graph, variable.updated) ==
        variable.read) {  // w = transpose(w): no call may read the bytes that it overwrites
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

// The nodes after a node, along data edges and those of `then`.
class Descendants {
 public:
  Descendants(const Graph& graph, const ById<ValueId, std::vector<Use>>& uses,
              const ById<NodeId, std::vector<NodeId>>& then)
      : graph_(graph),
        uses_(uses),
        then_(then),
        seen_(graph.nodes.size(), 0) {}

  void visit_from(NodeId from) {
    ++round_;
    std::vector<NodeId> open = {from};
    seen_[from] = round_;
    auto visit = [&](NodeId node) {
      if (seen_[node] == round_) return;
      seen_[node] = round_;
      open.push_back(node);
    };
    while (!open.empty()) {
      const NodeId at = open.back();
      open.pop_back();
      for (ValueId out : graph_.node(at).outputs)
        for (const Use& use : uses_[out]) visit(use.node);
      for (NodeId node : then_[at]) visit(node);
    }
  }
  bool has(NodeId node) const { return seen_[node] == round_; }

 private:
  const Graph& graph_;
  const ById<ValueId, std::vector<Use>>& uses_;
  const ById<NodeId, std::vector<NodeId>>& then_;
  ById<NodeId, int> seen_;  // the last round in which it was visited
  int round_ = 0;
};

// A reader that depends on the new version cannot come before its write, so it gets a copy of the old version. So does
// a reader that would close a cycle of writers, as in a, b = b, a. Returns whether any copy was made.
bool copy_for_late_readers(Graph& graph, const OpTable& ops) {
  auto uses = uses_of(graph);
  std::set<std::pair<NodeId, int>> late;  // (reading node, operand)
  std::set<ValueId> copied;               // values read late
  ById<NodeId, std::vector<NodeId>> then(
      graph.nodes.size());  // control edges: existing ones, and from readers to writers visited so far
  for (NodeId n : graph.nodes.ids())
    for (NodeId before : graph.node(n).after) then[before].push_back(n);
  Descendants descendants(graph, uses, then);
  for (const Variable& variable : graph.variables) {
    if (!variable.updated.valid() || !variable.read.valid()) continue;
    NodeId writer = graph.value(variable.updated).producer;
    descendants.visit_from(writer);
    for (const Use& use : uses[variable.read]) {
      if (use.node == writer) continue;
      std::set<NodeId> through = {use.node};
      if (may_alias(graph.node(use.node)))
        for (ValueId out : graph.node(use.node).outputs) collect_readers(graph, uses, out, through);
      through.erase(writer);
      bool is_late =
          std::any_of(through.begin(), through.end(), [&](NodeId reader) { return descendants.has(reader); });
      if (is_late) late.insert({use.node, use.operand}), copied.insert(variable.read);
      for (NodeId reader : through)
        if (!is_late) then[reader].push_back(writer);
    }
  }
  if (late.empty()) return false;
  Rewrite rewrite(graph);
  ById<ValueId, ValueId> copies(graph.values.size());
  for (NodeId n : graph.nodes.ids()) {
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < graph.nodes[n].inputs.size(); ++i) {
      ValueId in = graph.nodes[n].inputs[i];
      bool is_late = late.count({n, static_cast<int>(i)}) > 0;
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

// With micro-batches, the nodes that all of them read come first, then the nodes that act for each of them, then the
// nodes that wait for all their acts. So nodes with the same number of acts are adjacent and need few actors.
enum class MicrobatchPhase : std::uint8_t { before, during, after };
ById<NodeId, MicrobatchPhase> phases_of(const Graph& graph) {
  ById<NodeId, MicrobatchPhase> phases;
  for (const Node& node : graph.nodes) {
    bool waits = false;
    for (ValueId in : node.inputs) waits = waits || phases[graph.value(in).producer] != MicrobatchPhase::before;
    for (NodeId before : node.after) waits = waits || graph.node(before).acts > 1;
    phases.push_back(node.acts > 1 ? MicrobatchPhase::during
                     : waits       ? MicrobatchPhase::after
                                   : MicrobatchPhase::before);
  }
  return phases;
}

// Kahn's algorithm; of the ready nodes of one phase and update stage, the node of the smallest rank comes first, and of
// equal ranks the node traced first.
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
    for (NodeId after : dependencies.successors[n])
      if (--dependencies.in_degree[after] == 0) push(after);
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

OrderedGraph in_order(const Graph& graph, const std::vector<NodeId>& list) {
  Rewrite rewrite(graph);
  for (NodeId n : list) rewrite.keep(n);
  OrderedGraph made;
  made.graph = rewrite.finish();
  for (const Node& node : made.graph.nodes) made.stream.push_back(stream_of(node));
  return made;
}

// Seconds of one launch, with the slots that `slots` will choose.
double seconds_of(const OrderedGraph& ordered, const CostTable& costs, int streams_meet) {
  const Segmentation segmentation = segment(ordered.graph, ordered.stream);
  return simulate_launch(ordered.graph, segmentation, slot_counts(ordered.graph, segmentation, costs, streams_meet),
                         costs)
      .seconds;
}

}  // namespace

OrderedGraph order(Graph graph, const OpTable& ops, const CostTable& costs, int streams_meet, bool check_nan) {
  add_assigns(graph, ops);
  copy_for_late_readers(graph, ops);
  add_control_edges(graph);
  gate_writes(graph, check_nan);
  OrderedGraph traced = in_order(graph, sorted(graph, ById<NodeId, int>(graph.nodes.size(), 0)));
  // One compute stream takes the same time in any order.
  if (std::find(traced.stream.begin(), traced.stream.end(), StreamKind::comm) == traced.stream.end()) return traced;
  traced.seconds = seconds_of(traced, costs, streams_meet);
  OrderedGraph by_cost =
      in_order(traced.graph, sorted(traced.graph, list_schedule(traced.graph, traced.stream, costs)));
  by_cost.seconds = seconds_of(by_cost, costs, streams_meet);
  by_cost.traced_seconds = traced.traced_seconds = traced.seconds;
  if (by_cost.seconds >= max_time_ratio * traced.seconds) return traced;
  const auto bytes = [](const OrderedGraph& ordered) { return static_cast<double>(peak_live_bytes(ordered.graph)); };
  return by_cost.seconds * bytes(by_cost) <= traced.seconds * bytes(traced) ? by_cost : traced;
}

}  // namespace karez::passes
