// slots: two copies where streams meet, one elsewhere; collectives take turns in the one order of the graph.
#include "passes/slots.h"

#include <algorithm>
#include <map>

#include "passes/collapsed.h"
#include "passes/critical_cycle.h"
#include "passes/micro_slots.h"
#include "passes/order.h"

namespace karez::passes {

CommunicatorKey communicator_key(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const int to = graph.value(node.outputs[0]).mesh;
  if (node.op->role == Role::transfer) return {graph.value(node.inputs[0]).mesh, to, -1};
  return {to, to, static_cast<int>(node.attrs.integer("axis"))};
}

ById<ValueId, int> slot_counts(const Graph& graph, const Streams& stream, const Segmented& cut, const CostTable& costs, int streams_meet) {
  ById<ValueId, int> slots(graph.values.size(), 1);
  auto uses = uses_of(graph);
  for (std::size_t v = graph.values.size(); v-- > 0;) {  // consumers first: who takes a window takes the bytes it looks at
    ValueId value(v);
    StreamKind from = stream[graph.value(value).producer];
    for (const Use& use : uses[value]) {
      if (stream[use.node] != from) slots[value] = streams_meet;
      const Node& node = graph.node(use.node);
      if (may_alias(node)) slots[value] = std::max(slots[value], slots[node.outputs[0]]);
    }
  }
  raise_micro_slots(graph, cut, costs, slots);
  return slots;
}

Slotted slots(const Graph& graph, const Streams& stream, const Segmented& cut, const CostTable& costs, int streams_meet) {
  Slotted made;
  made.slots = slot_counts(graph, stream, cut, costs, streams_meet);
  made.critical = critical_cycle(graph, cut, made.slots, costs);
  made.turns.resize(graph.nodes.size());
  std::map<CommunicatorKey, int> next;
  for (NodeId node : run_collapsed(graph, cut, made.slots, costs).collectives) made.turns[node].push_back(next[communicator_key(graph, node)]++);
  return made;
}

}  // namespace karez::passes
