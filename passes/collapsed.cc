// The collapsed plan: built from segments, run over Ports in virtual time.
#include "passes/collapsed.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/price.h"
#include "plan/pick.h"
#include "plan/ports.h"
#include "sbp/transition.h"

namespace karez::passes {
namespace {

// One actor per segment; a register per (producing segment, consuming segments), control edges included; sources hang on `start`, sinks
// on `done`.
Plan collapsed_plan(const Compilation& c) {
  const Graph& graph = c.graph;
  Plan plan;
  plan.name = "collapsed";
  plan.devices.push_back({});
  for (StreamKind kind : {StreamKind::host, StreamKind::compute, StreamKind::comm})
    plan.streams.push_back({DeviceId(0), std::string(name_of(kind)), 0});
  std::vector<std::set<int>> next(c.segments.size());
  std::vector<bool> has_input(c.segments.size(), false);
  auto edge = [&](NodeId from, NodeId to) {
    int a = c.segment_of[static_cast<std::size_t>(from.index)], b = c.segment_of[static_cast<std::size_t>(to.index)];
    if (a != b) next[static_cast<std::size_t>(a)].insert(b), has_input[static_cast<std::size_t>(b)] = true;
  };
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId in : graph.nodes[n].inputs) edge(graph.value(in).producer, NodeId(n));
    for (NodeId before : graph.nodes[n].after) edge(before, NodeId(n));
  }
  for (std::size_t s = 0; s < c.segments.size(); ++s) {
    Actor actor;
    actor.name = cat(name_of(c.segments[s].stream), ".", s);
    actor.stream = StreamId(static_cast<int>(c.segments[s].stream));
    actor.priority = static_cast<int>(s);
    plan.actors.push_back(std::move(actor));
  }
  auto connect = [&](ActorId producer, std::vector<ActorId> consumers) {
    RegisterId id(plan.registers.size());
    Register reg;
    reg.producer = producer;
    reg.consumers = consumers;
    plan.registers.push_back(std::move(reg));
    if (producer != session_actor) plan.actors[static_cast<std::size_t>(producer.index)].outputs.push_back({id, 1});
    for (ActorId consumer : consumers)
      if (consumer != session_actor) plan.actors[static_cast<std::size_t>(consumer.index)].inputs.push_back({id, 1});
  };
  for (std::size_t s = 0; s < c.segments.size(); ++s) {
    if (!has_input[s]) connect(session_actor, {ActorId(s)});
    std::vector<ActorId> consumers;
    for (int to : next[s]) consumers.emplace_back(to);
    if (consumers.empty()) consumers.push_back(session_actor);
    connect(ActorId(s), std::move(consumers));
  }
  return plan;
}

double duration(const Compilation& c, const Segment& segment) {
  double total = 0;
  for (NodeId id : segment.nodes) {
    NodeView view{&c.graph, id};
    const Node& node = view.node();
    const Mesh& mesh = c.graph.mesh(node.outputs[0]);
    if (segment.stream == StreamKind::comm) {
      const Layout& from = *c.graph.value(node.inputs[0]).layout;
      const Layout& to = *c.graph.value(node.outputs[0]).layout;
      total += seconds(view.out_type(0), mesh, {static_cast<int>(node.attrs.integer("axis")), move_from(node.attrs.text("move")), from, to},
                       c.options.costs);
    } else {
      total += device_seconds(c.graph, id, c.options.costs);
    }
  }
  return total;
}

}  // namespace

std::vector<NodeId> collective_sequence(const Compilation& c) {
  Plan plan = collapsed_plan(c);
  std::vector<Ports> ports;
  for (std::size_t a = 0; a < plan.actors.size(); ++a) ports.emplace_back(plan, ActorId(a));
  Ports starter = Ports::starter(plan), ender = Ports::ender(plan);
  auto deliver = [&](const Message& m) {
    if (m.to != session_actor) {
      ports[static_cast<std::size_t>(m.to.index)].take(m);
    } else {
      (m.kind == Message::Kind::filled ? ender : starter).take(m);
    }
  };
  starter.begin();
  starter.complete(deliver);
  std::vector<NodeId> sequence;
  struct Running {
    double end = 0;
    int actor = -1;
  };
  std::vector<Running> streams(plan.streams.size());
  double now = 0;
  std::size_t done = 0;
  while (done < ports.size()) {
    for (std::size_t s = 0; s < streams.size(); ++s) {  // every idle stream takes its best ready actor
      if (streams[s].actor >= 0) continue;
      int best = -1;
      for (std::size_t a = 0; a < ports.size(); ++a) {
        if (plan.actors[a].stream.index != static_cast<int>(s) || !ports[a].ready() || ports[a].acts() > 0) continue;
        if (best < 0 || picked_before(plan, ActorId(a), ActorId(best))) best = static_cast<int>(a);
      }
      if (best < 0) continue;
      ports[static_cast<std::size_t>(best)].begin();
      const Segment& segment = c.segments[static_cast<std::size_t>(best)];
      streams[s] = {now + duration(c, segment), best};
      if (segment.stream == StreamKind::comm) sequence.push_back(segment.nodes[0]);
    }
    int first = -1;
    for (std::size_t s = 0; s < streams.size(); ++s)
      if (streams[s].actor >= 0 && (first < 0 || streams[s].end < streams[static_cast<std::size_t>(first)].end)) first = static_cast<int>(s);
    require(first >= 0, "slots: the step stalls after ", done, " of ", ports.size(), " actors: a segment waits for itself");
    Running& next = streams[static_cast<std::size_t>(first)];
    now = next.end;
    ports[static_cast<std::size_t>(next.actor)].complete(deliver);
    next.actor = -1;
    ++done;
  }
  return sequence;
}

}  // namespace karez::passes
