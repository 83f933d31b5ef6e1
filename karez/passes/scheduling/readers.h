// The readers of a value's bytes, including readers through windows.
#pragma once

#include <set>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"
#include "karez/passes/node_traits.h"

namespace karez::passes {

// Adds all nodes that read the bytes of `value`, directly or through windows. The windows are readers too.
inline void collect_readers(const Graph& graph, const ById<ValueId, std::vector<Use>>& uses, ValueId value,
                            std::set<NodeId>& readers) {
  for (const Use& use : uses[value]) {
    if (!readers.insert(use.node).second) continue;
    const Node& node = graph.node(use.node);
    if (may_alias(node))
      for (ValueId out : node.outputs) collect_readers(graph, uses, out, readers);
  }
}

// Returns the segments that read the bytes of `value`. Segments that only make windows are not included.
inline std::set<SegmentId> reading_segments(const Graph& graph, const Segmentation& segmentation,
                                            const ById<ValueId, std::vector<Use>>& uses, ValueId value) {
  std::set<NodeId> readers;
  collect_readers(graph, uses, value, readers);
  std::set<SegmentId> segments;
  for (NodeId reader : readers)
    if (!may_alias(graph.node(reader))) segments.insert(segmentation.segment_of[reader]);
  return segments;
}

}  // namespace karez::passes
