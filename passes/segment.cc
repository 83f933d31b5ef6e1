// segment: where actors are cut.
#include "passes/segment.h"

#include <cstdint>
#include <set>

namespace karez::passes {
namespace {

// A set of segments; it grows with the highest one in it.
struct Bits {
  std::vector<std::uint64_t> words;

  bool has(int i) const {
    auto word = static_cast<std::size_t>(i) / 64;
    return word < words.size() && (words[word] >> (i % 64) & 1);
  }
  void insert(int i) {
    auto word = static_cast<std::size_t>(i) / 64;
    if (word >= words.size()) words.resize(word + 1);
    words[word] |= std::uint64_t{1} << (i % 64);
  }
};

void merge(Bits& into, const Bits& from) {
  if (into.words.size() < from.words.size()) into.words.resize(from.words.size());
  for (std::size_t i = 0; i < from.words.size(); ++i) into.words[i] |= from.words[i];
}

// Numbers segments so that producers come before consumers; among the free ones, in the order of their first nodes.
void number_in_order(const Graph& graph, Segmented& made) {
  std::vector<std::set<int>> next(made.segments.size());
  std::vector<int> waiting(made.segments.size(), 0);
  auto edge = [&](NodeId from, std::size_t to) {
    int a = made.segment_of[static_cast<std::size_t>(from.index)], b = made.segment_of[to];
    if (a != b && next[static_cast<std::size_t>(a)].insert(b).second) ++waiting[static_cast<std::size_t>(b)];
  };
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId in : graph.nodes[n].inputs) edge(graph.value(in).producer, n);
    for (NodeId before : graph.nodes[n].after) edge(before, n);
  }
  std::set<std::pair<int, int>> ready;  // first node, segment
  auto push = [&](std::size_t s) { ready.emplace(made.segments[s].nodes[0].index, static_cast<int>(s)); };
  for (std::size_t s = 0; s < made.segments.size(); ++s)
    if (waiting[s] == 0) push(s);
  std::vector<Segment> ordered;
  while (!ready.empty()) {
    auto s = static_cast<std::size_t>(ready.begin()->second);
    ready.erase(ready.begin());
    for (int to : next[s])
      if (--waiting[static_cast<std::size_t>(to)] == 0) push(static_cast<std::size_t>(to));
    ordered.push_back(std::move(made.segments[s]));
  }
  require(ordered.size() == made.segments.size(), "segment: segments wait for each other");
  made.segments = std::move(ordered);
  for (std::size_t s = 0; s < made.segments.size(); ++s)
    for (NodeId node : made.segments[s].nodes) made.segment_of[static_cast<std::size_t>(node.index)] = static_cast<int>(s);
}

}  // namespace

Segmented segment(const Graph& graph, const std::vector<StreamKind>& stream_of) {
  auto uses = uses_of(graph);
  Segmented made;
  made.segment_of.assign(graph.nodes.size(), -1);
  std::vector<Bits> before;  // by segment: which segments come before it
  int open = -1;             // the compute segment that may still grow
  bool closing = false;      // it has fed another stream
  bool in_updates = false;   // its last node is an update
  auto start = [&](StreamKind stream) {
    made.segments.push_back({stream, {}});
    before.emplace_back();
    return static_cast<int>(made.segments.size()) - 1;
  };
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    std::set<int> sources;  // segments that this node needs
    bool crosses = false, new_wait = false, cycle = false;
    auto need = [&](NodeId producer) {
      int from = made.segment_of[static_cast<std::size_t>(producer.index)];
      sources.insert(from);  // the open one too: a transfer, or the segment after a cut, comes behind it
      if (from == open) return;
      if (open >= 0 && before[static_cast<std::size_t>(from)].has(open)) cycle = true;
      StreamKind stream = made.segments[static_cast<std::size_t>(from)].stream;
      if (stream == stream_of[n] || stream == StreamKind::host) return;  // sources act when the launch begins: nothing to wait for
      crosses = true;
      if (open < 0 || !before[static_cast<std::size_t>(open)].has(from)) new_wait = true;
    };
    for (ValueId in : node.inputs) need(graph.value(in).producer);
    for (NodeId control : node.after) need(control);
    int mine = -1;
    if (stream_of[n] != StreamKind::compute) {
      mine = start(stream_of[n]);
    } else {
      bool update = node.op->role == Role::update;
      bool run = in_updates && update && !cycle;
      bool cut = open < 0 || cycle || (!run && (closing || (crosses && new_wait)));
      if (cut) open = start(StreamKind::compute), closing = false;
      mine = open;
      in_updates = update;
      for (ValueId out : node.outputs)
        for (const Use& use : uses[static_cast<std::size_t>(out.index)])
          closing |= stream_of[static_cast<std::size_t>(use.node.index)] != StreamKind::compute;
    }
    auto& wait = before[static_cast<std::size_t>(mine)];
    for (int from : sources) {
      if (from == mine) continue;
      wait.insert(from);
      merge(wait, before[static_cast<std::size_t>(from)]);
    }
    made.segments[static_cast<std::size_t>(mine)].nodes.emplace_back(n);
    made.segment_of[n] = mine;
  }
  number_in_order(graph, made);
  return made;
}

void segment(Compilation& c) {
  Segmented made = segment(c.graph, c.stream);
  c.segments = std::move(made.segments), c.segment_of = std::move(made.segment_of);
}

}  // namespace karez::passes
