// Looks up the node that produces a value, unless the user fixed the value's layout.
#include "karez/passes/logical/rewritable_producer.h"

namespace karez::passes {

const Node* rewritable_producer(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return value.layout || !value.producer.valid() ? nullptr : &graph.node(value.producer);
}

}  // namespace karez::passes
