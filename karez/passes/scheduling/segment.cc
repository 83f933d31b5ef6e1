// segment: decides for each node whether it extends the open segment of its stream.
#include "karez/passes/scheduling/segment.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "karez/solve/group_reachability.h"

namespace karez::passes {
namespace {

// By node: the producers of its operands, and the nodes at the other ends of its control edges.
std::vector<std::vector<int>> waits_for(const Graph& graph) {
  std::vector<std::vector<int>> made;
  made.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    std::vector<int>& from = made.emplace_back();
    for (ValueId in : node.inputs) from.push_back(graph.value(in).producer.index);
    for (NodeId before : node.after) from.push_back(before.index);
    std::sort(from.begin(), from.end());
    from.erase(std::unique(from.begin(), from.end()), from.end());
  }
  return made;
}

// Numbers segments so that producers come before consumers; ready segments are in the order of their first nodes.
void number_in_order(const Graph& graph, Segmentation& made) {
  ById<SegmentId, std::set<SegmentId>> next(made.segments.size());
  ById<SegmentId, int> waiting(made.segments.size(), 0);
  auto edge = [&](NodeId from, NodeId to) {
    SegmentId a = made.segment_of[from], b = made.segment_of[to];
    if (a != b && next[a].insert(b).second) ++waiting[b];
  };
  for (NodeId n : graph.nodes.ids()) {
    for (ValueId in : graph.node(n).inputs) edge(graph.value(in).producer, n);
    for (NodeId before : graph.node(n).after) edge(before, n);
  }
  std::set<std::pair<NodeId, SegmentId>> ready;  // by first node
  auto push = [&](SegmentId s) { ready.emplace(made.segments[s].nodes[0], s); };
  for (SegmentId s : made.segments.ids())
    if (waiting[s] == 0) push(s);
  ById<SegmentId, Segment> ordered;
  while (!ready.empty()) {
    SegmentId s = ready.begin()->second;
    ready.erase(ready.begin());
    for (SegmentId to : next[s])
      if (--waiting[to] == 0) push(to);
    ordered.push_back(std::move(made.segments[s]));
  }
  require(ordered.size() == made.segments.size(), "segment: segments wait for each other");
  made.segments = std::move(ordered);
  for (SegmentId s : made.segments.ids())
    for (NodeId node : made.segments[s].nodes) made.segment_of[node] = s;
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
      const SegmentId mine = stream_of_[n] == StreamKind::compute ? segment_of_compute(n, waits) : start(n);
      reach_.put(n.index, mine.index);
      if (stream_of_[n] != StreamKind::compute) reach_.close(mine.index);
      made_.segments[mine].nodes.push_back(n);
      made_.segment_of[n] = mine;
    }
    number_in_order(graph_, made_);
    return std::move(made_);
  }

 private:
  struct OpenSegment {
    SegmentId open;           // the segment that may still grow
    bool closing = false;     // it has fed another stream
    bool in_updates = false;  // its last node is an update
  };
  struct Needs {
    bool new_wait = false;  // a transfer for which the open segment does not wait
    bool cycle = false;     // a node that comes after the open segment
  };

  SegmentId start(NodeId first) {
    reach_.begin();
    return made_.segments.add({stream_of_[first], {}, mesh_of(graph_, first)});
  }

  bool waits_for_all(NodeId n) {
    if (graph_.node(n).acts > 1) return false;
    const auto& before = waits_for_[n.index];
    return waits_for_all_[n] = std::any_of(before.begin(), before.end(), [&](int b) {
             return graph_.node(NodeId(b)).acts > 1 || waits_for_all_[NodeId(b)];
           });
  }

  Needs needs(NodeId n, SegmentId open) const {
    Needs found;
    for (int before : waits_for_[n.index]) {
      const SegmentId from = made_.segment_of[NodeId(before)];
      if (from == open) continue;
      if (open.valid() && reach_.before(open.index, from.index)) found.cycle = true;
      if (made_.segments[from].stream != StreamKind::comm) continue;  // sources act when the launch begins: no wait
      if (!found.new_wait) found.new_wait = !open.valid() || !reach_.before(from.index, open.index);
    }
    return found;
  }

  SegmentId segment_of_compute(NodeId n, bool waits) {
    auto& [open, closing, in_updates] = compute_[{mesh_of(graph_, n), graph_.node(n).acts, waits}];
    const Needs found = needs(n, open);
    const bool update = graph_.node(n).op->role == Role::update, run = in_updates && update && !found.cycle;
    if (!open.valid() || found.cycle || (!run && (closing || found.new_wait))) {
      if (open.valid()) reach_.close(open.index);
      open = start(n), closing = false;
    }
    in_updates = update;
    closing = closing || feeds_transfer_[n];
    return open;
  }

  const Graph& graph_;
  const Streams& stream_of_;
  const std::vector<std::vector<int>> waits_for_;  // by node
  solve::GroupReachability reach_;
  ById<NodeId, bool> feeds_transfer_;
  ById<NodeId, bool> waits_for_all_;  // for all acts of micro-batches
  // By placement (one stream each; only transfers lead from one to another), by the number of acts of its nodes (the
  // same for all nodes of an actor), and by whether they wait for all acts of micro-batches, which may depend on other
  // nodes that act once.
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
