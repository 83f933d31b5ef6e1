// The anchor pass: adds at most one control edge from each segment.
#include "karez/passes/scheduling/anchor.h"

#include <algorithm>
#include <map>

#include "karez/passes/scheduling/ancestors.h"

namespace karez::passes {
namespace {

bool writes_state(const Node& node) { return node.op->role == Role::update || node.op->role == Role::store; }

}  // namespace

Graph anchor(Graph graph, const Segmentation& segmentation) {
  Ancestors ancestors(graph, segmentation);
  std::map<int, std::vector<SegmentId>> floating;  // by mesh: segments for which no segment of their stream waits yet
  for (SegmentId s : segmentation.segments.ids()) {
    ancestors.compute(s);
    const Segment& segment = segmentation.segments[s];
    if (segment.stream != StreamKind::compute || graph.node(segment.nodes[0]).acts != 1) continue;
    // The emit pass would treat an edge to an update as an edge from a reader of the variable that the update writes.
    const auto first = std::find_if(segment.nodes.begin(), segment.nodes.end(),
                                    [&](NodeId n) { return !writes_state(graph.node(n)); });
    std::vector<SegmentId>& candidates = floating[segment.mesh];
    for (auto other = candidates.rbegin(); other != candidates.rend() && first != segment.nodes.end(); ++other) {
      const NodeId last = segmentation.segments[*other].nodes.back();
      if (*first < last || ancestors.waits_for(s, *other) || !ancestors.waits_for_all_of(s, *other)) continue;
      graph.node(*first).after.push_back(last);
      ancestors.add(s, *other);
    }
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                    [&](SegmentId other) { return ancestors.waits_for(s, other); }),
                     candidates.end());
    candidates.push_back(s);
  }
  return graph;
}

}  // namespace karez::passes
