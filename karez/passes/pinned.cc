// Whom a rewrite may look through to.
#include "karez/passes/pinned.h"

namespace karez::passes {

const Node* unpinned_producer(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return value.layout || !value.producer.valid() ? nullptr : &graph.node(value.producer);
}

}  // namespace karez::passes
