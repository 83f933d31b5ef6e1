// segment: where actors are cut.
#include "passes/segment.h"

#include <cstdint>
#include <map>
#include <set>
#include <tuple>

namespace karez::passes {
namespace {

// A set of segments; it grows with the highest one in it.
struct Bits {
  std::vector<std::uint64_t> words;

  bool has(SegmentId s) const {
    auto word = static_cast<std::size_t>(s.index) / 64;
    return word < words.size() && (words[word] >> (s.index % 64) & 1);
  }
  void insert(SegmentId s) {
    auto word = static_cast<std::size_t>(s.index) / 64;
    if (word >= words.size()) words.resize(word + 1);
    words[word] |= std::uint64_t{1} << (s.index % 64);
  }
};

void merge(Bits& into, const Bits& from) {
  if (into.words.size() < from.words.size()) into.words.resize(from.words.size());
  for (std::size_t i = 0; i < from.words.size(); ++i) into.words[i] |= from.words[i];
}

// Numbers segments so that producers come before consumers; among the free ones, in the order of their first nodes.
void number_in_order(const Graph& graph, Segmented& made) {
  ById<SegmentId, std::set<SegmentId>> next(made.segments.size());
  ById<SegmentId, int> waiting(made.segments.size(), 0);
  auto edge = [&](NodeId from, NodeId to) {
    SegmentId a = made.of[from], b = made.of[to];
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
    for (NodeId node : made.segments[s].nodes) made.of[node] = s;
}

}  // namespace

int priority_of(const Graph& graph, const Segmented& cut, SegmentId segment) {
  const int all = static_cast<int>(cut.segments.size());
  return graph.node(cut.segments[segment].nodes[0]).acts == 1 ? segment.index + 1 : 2 * all - segment.index;
}

Segmented segment(const Graph& graph, const Streams& stream_of) {
  auto uses = uses_of(graph);
  Segmented made;
  made.of.resize(graph.nodes.size());
  ById<SegmentId, Bits> before;      // which segments come before it
  ById<SegmentId, bool> has_behind;  // whether it comes before any
  struct Compute {
    SegmentId open;           // the segment that may still grow
    bool closing = false;     // it has fed another stream
    bool in_updates = false;  // its last node is an update
  };
  // By placement (a stream for each: only transfers lead from one to another), by how often its nodes act (an actor acts as often as all of them),
  // and whether they wait for all acts of micro-batches, which may need what else is done once before the first.
  std::map<std::tuple<int, int, bool>, Compute> compute;
  ById<NodeId, bool> waits_for_all(graph.nodes.size(), false);
  auto start = [&](StreamKind stream, int mesh) {
    before.emplace_back();
    has_behind.push_back(false);
    return made.segments.add({stream, {}, mesh});
  };
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.node(n);
    const int mesh = node.outputs.empty() ? 0 : graph.value(node.outputs[0]).mesh;
    auto waits_for = [&](NodeId before) {
      if (node.acts == 1 && (graph.node(before).acts > 1 || waits_for_all[before])) waits_for_all[n] = true;
    };
    for (ValueId in : node.inputs) waits_for(graph.value(in).producer);
    for (NodeId control : node.after) waits_for(control);
    auto& [open, closing, in_updates] = compute[{mesh, node.acts, waits_for_all[n]}];
    std::set<SegmentId> sources;  // segments that this node needs
    bool crosses = false, new_wait = false, cycle = false;
    auto need = [&, &open = open](NodeId producer) {
      SegmentId from = made.of[producer];
      sources.insert(from);  // the open one too: a transfer, or the segment after a cut, comes behind it
      if (from == open) return;
      if (open.valid() && before[from].has(open)) cycle = true;
      StreamKind stream = made.segments[from].stream;
      if (stream == stream_of[n] || stream == StreamKind::host) return;  // sources act when the launch begins: nothing to wait for
      crosses = true;
      if (!open.valid() || !before[open].has(from)) new_wait = true;
    };
    for (ValueId in : node.inputs) need(graph.value(in).producer);
    for (NodeId control : node.after) need(control);
    SegmentId mine;
    if (stream_of[n] != StreamKind::compute) {
      mine = start(stream_of[n], mesh);
    } else {
      bool update = node.op->role == Role::update;
      bool run = in_updates && update && !cycle;
      bool cut = !open.valid() || cycle || (!run && (closing || (crosses && new_wait)));
      if (cut) open = start(StreamKind::compute, mesh), closing = false;
      mine = open;
      in_updates = update;
      for (ValueId out : node.outputs)
        for (const Use& use : uses[out]) closing |= stream_of[use.node] != StreamKind::compute;
    }
    for (SegmentId from : sources) {
      if (from == mine || before[mine].has(from)) continue;
      has_behind[from] = true;
      auto add = [&](SegmentId s) {
        before[s].insert(from);
        merge(before[s], before[from]);
      };
      add(mine);
      if (!has_behind[mine]) continue;
      for (SegmentId s : before.ids())  // and before all that come behind it already: several segments grow at a time
        if (before[s].has(mine)) add(s);
    }
    made.segments[mine].nodes.push_back(n);
    made.of[n] = mine;
  }
  number_in_order(graph, made);
  return made;
}

}  // namespace karez::passes
