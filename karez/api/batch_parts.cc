// Searches a value's ancestors for the batch.
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
  ById<ValueId, bool> seen(graph.values.size());
  for (std::vector<ValueId> open = {value}; !open.empty();) {
    const ValueId id = open.back();
    open.pop_back();
    const NodeId producer = graph.value(id).producer;
    if (seen[id] || !producer.valid()) continue;
    seen[id] = true;
    const Node& maker = graph.node(producer);
    const std::int64_t parts =
        maker.op->role == Role::source && maker.attrs.has("parts") ? maker.attrs.integer("parts") : 1;
    if (parts > 1) return graph.type(value).shape[0] % parts == 0 ? parts : 1;
    open.insert(open.end(), maker.inputs.begin(), maker.inputs.end());
  }
  return 1;
}

}  // namespace karez
