// Which segments read a value's bytes, through windows on them too.
#pragma once

#include <set>
#include <vector>

#include "passes/compilation.h"
#include "passes/order.h"

namespace karez::passes {

inline void collect_reading_segments(const Graph& graph, const Segmented& cut, const ById<ValueId, std::vector<Use>>& uses, ValueId value,
                                     std::set<SegmentId>& readers) {
  for (const Use& use : uses[value]) {
    const Node& node = graph.node(use.node);
    if (!may_alias(node)) readers.insert(cut.of[use.node]);
    else collect_reading_segments(graph, cut, uses, node.outputs[0], readers);
  }
}

}  // namespace karez::passes
