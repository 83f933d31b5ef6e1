// slots: two copies where streams meet, one elsewhere; collectives take turns in the one order of the graph.
#include "passes/slots.h"

#include <algorithm>
#include <map>

#include "passes/collapsed.h"
#include "passes/order.h"

namespace karez::passes {

void slots(Compilation& c) {
  auto uses = uses_of(c.graph);
  c.slots.assign(c.graph.values.size(), 1);
  for (std::size_t v = c.graph.values.size(); v-- > 0;) {  // consumers first: who takes a window takes the bytes it looks at
    StreamKind from = c.stream[static_cast<std::size_t>(c.graph.values[v].producer.index)];
    for (const Use& use : uses[v]) {
      if (c.stream[static_cast<std::size_t>(use.node.index)] != from) c.slots[v] = c.options.slots;
      const Node& node = c.graph.node(use.node);
      if (may_alias(node)) c.slots[v] = std::max(c.slots[v], c.slots[static_cast<std::size_t>(node.outputs[0].index)]);
    }
  }
  c.turn.assign(c.graph.nodes.size(), -1);
  std::map<std::pair<int, std::int64_t>, int> next;  // by mesh and axis: all groups of an axis run the same sequence
  for (NodeId node : collective_sequence(c)) {
    int turn = next[{c.graph.value(c.graph.node(node).outputs[0]).mesh, c.graph.node(node).attrs.integer("axis")}]++;
    c.turn[static_cast<std::size_t>(node.index)] = turn;
  }
}

}  // namespace karez::passes
