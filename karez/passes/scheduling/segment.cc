// The segment pass: decides for each node whether it extends the open segment of its stream.
#include "karez/passes/scheduling/segment.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "karez/solve/group_reachability.h"

namespace karez::passes {
namespace {

// Returns, for each node, the producers of its operands and the nodes from which its control edges come.
std::vector<std::vector<int>> waits_for(const Graph& graph) {
  std::vector<std::vector<int>> result;
  result.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    std::vector<int>& producers = result.emplace_back();
    for (ValueId in : node.inputs) producers.push_back(graph.value(in).producer.index);
    for (NodeId predecessor : node.after) producers.push_back(predecessor.index);
    std::sort(producers.begin(), producers.end());
    producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
  }
  return result;
}

// Numbers segments so that producers come before consumers and, where that allows it, by their first nodes.
void number_in_order(const Graph& graph, Segmentation& result) {
  ById<SegmentId, std::set<SegmentId>> next(result.segments.size());
  ById<SegmentId, int> inputs_left(result.segments.size(), 0);
  auto edge = [&](NodeId from, NodeId to) {
    SegmentId a = result.segment_of[from], b = result.segment_of[to];
    if (a != b && next[a].insert(b).second) ++inputs_left[b];
  };
  for (NodeId n : graph.nodes.ids()) {
    for (ValueId in : graph.node(n).inputs) edge(graph.value(in).producer, n);
    for (NodeId predecessor : graph.node(n).after) edge(predecessor, n);
  }
  std::set<std::pair<NodeId, SegmentId>> ready;  // by first node
  auto push = [&](SegmentId s) { ready.emplace(result.segments[s].nodes[0], s); };
  for (SegmentId s : result.segments.ids())
    if (inputs_left[s] == 0) push(s);
  ById<SegmentId, Segment> ordered;
  while (!ready.empty()) {
    SegmentId s = ready.begin()->second;
    ready.erase(ready.begin());
    for (SegmentId to : next[s])
      if (--inputs_left[to] == 0) push(to);
    ordered.push_back(std::move(result.segments[s]));
  }
  require(ordered.size() == result.segments.size(), "segment: segments wait for each other in a cycle");
  result.segments = std::move(ordered);
  for (SegmentId s : result.segments.ids())
    for (NodeId node : result.segments[s].nodes) result.segment_of[node] = s;
}

class Segmenter {
 public:
  Segmenter(const Graph& graph, const Streams& stream_of)
      : graph_(graph),
        stream_of_(stream_of),
        waits_for_(waits_for(graph)),
        reach_(waits_for_),
        feeds_transfer_(graph.nodes.size(), false),
        waits_for_all_(graph.nodes.size(), false) {
    for (NodeId n : graph.nodes.ids())
      if (stream_of[n] != StreamKind::compute)
        for (ValueId in : graph.node(n).inputs) feeds_transfer_[graph.value(in).producer] = true;
    made_.segment_of.resize(graph.nodes.size());
  }

  Segmentation run() {
    for (NodeId n : graph_.nodes.ids()) {
      const bool waits = waits_for_all(n);
      const SegmentId assigned = stream_of_[n] == StreamKind::compute ? segment_of_compute(n, waits) : start(n);
      reach_.put(n.index, assigned.index);
      if (stream_of_[n] != StreamKind::compute) reach_.close(assigned.index);
      made_.segments[assigned].nodes.push_back(n);
      made_.segment_of[n] = assigned;
    }
    number_in_order(graph_, made_);
    return std::move(made_);
  }

 private:
  struct OpenSegment {
    SegmentId open;           // the segment that may still grow
    bool closing = false;     // a node of another stream reads from the segment
    bool in_updates = false;  // its last node is an update
  };
  struct Needs {
    bool new_wait = false;  // the node needs a transfer for which the open segment does not wait
    bool cycle = false;     // the node needs a node that waits for the open segment
  };

  SegmentId start(NodeId first) {
    reach_.begin();
    return made_.segments.add({stream_of_[first], {}, mesh_of(graph_, first)});
  }

  bool waits_for_all(NodeId n) {
    if (graph_.node(n).acts > 1) return false;
    const auto& predecessor = waits_for_[n.index];
    return waits_for_all_[n] = std::any_of(predecessor.begin(), predecessor.end(), [&](int b) {
             return graph_.node(NodeId(b)).acts > 1 || waits_for_all_[NodeId(b)];
           });
  }

  Needs needs(NodeId n, SegmentId open) const {
    Needs needs_of_node;
    for (int predecessor : waits_for_[n.index]) {
      const SegmentId producer = made_.segment_of[NodeId(predecessor)];
      if (producer == open) continue;
      if (open.valid() && reach_.before(open.index, producer.index)) needs_of_node.cycle = true;
      if (made_.segments[producer].stream != StreamKind::comm)
        continue;  // sources act when the launch begins, so no wait is needed
      if (!needs_of_node.new_wait) needs_of_node.new_wait = !open.valid() || !reach_.before(producer.index, open.index);
    }
    return needs_of_node;
  }

  SegmentId segment_of_compute(NodeId n, bool waits) {
    auto& [open, closing, in_updates] = compute_[{mesh_of(graph_, n), graph_.node(n).acts, waits}];
    const Needs needs_of_node = needs(n, open);
    const bool is_update = graph_.node(n).op->role == Role::update,
               extends_updates = in_updates && is_update && !needs_of_node.cycle;
    if (!open.valid() || needs_of_node.cycle || (!extends_updates && (closing || needs_of_node.new_wait))) {
      if (open.valid()) reach_.close(open.index);
      open = start(n), closing = false;
    }
    in_updates = is_update;
    closing = closing || feeds_transfer_[n];
    return open;
  }

  const Graph& graph_;
  const Streams& stream_of_;
  const std::vector<std::vector<int>> waits_for_;  // by node
  solve::GroupReachability reach_;
  ById<NodeId, bool> feeds_transfer_;
  ById<NodeId, bool> waits_for_all_;  // true if the node waits for all acts of micro-batches
  // Open segments by placement, number of acts, and whether the nodes wait for all acts of micro-batches. Each
  // placement has one compute stream, and all nodes of an actor act equally often. Nodes that wait for all acts of
  // micro-batches must not share an actor with nodes for which micro-batches wait.
  std::map<std::tuple<int, int, bool>, OpenSegment> compute_;
  Segmentation made_;
};

}  // namespace

int priority_of(const Graph& graph, const Segmentation& segmentation, SegmentId segment) {
  const int all = static_cast<int>(segmentation.segments.size());
  return graph.node(segmentation.segments[segment].nodes[0]).acts == 1 ? segment.index + 1 : 2 * all - segment.index;
}

Segmentation segment(const Graph& graph, const Streams& stream_of) { return Segmenter(graph, stream_of).run(); }

}  // namespace karez::passes
