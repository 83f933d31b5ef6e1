// Implements batch_parts: searches the ancestors of a value for an input that contains the batch.
#include "karez/api/batch_parts.h"

#include <vector>

#include "karez/api/namespace.h"
#include "karez/api/trace/trace.h"

namespace karez {

std::int64_t batch_parts(Term x) {
  return at_line(x.where, [&](Trace& t) { return batch_parts(t.graph, t.value(x)); });
}

std::int64_t batch_parts(const Graph& graph, ValueId value) {
  if (graph.type(value).shape.empty()) return 1;
  ById<ValueId, bool> visited(graph.values.size());
  for (std::vector<ValueId> pending = {value}; !pending.empty();) {
    const ValueId id = pending.back();
    pending.pop_back();
    const NodeId producer = graph.value(id).producer;
    if (visited[id] || !producer.valid()) continue;
    visited[id] = true;
    const Node& node = graph.node(producer);
    const std::int64_t parts =
        node.op->role == Role::source && node.attrs.has("parts") ? node.attrs.integer("parts") : 1;
    if (parts > 1) return graph.type(value).shape[0] % parts == 0 ? parts : 1;
    pending.insert(pending.end(), node.inputs.begin(), node.inputs.end());
  }
  return 1;
}

}  // namespace karez
