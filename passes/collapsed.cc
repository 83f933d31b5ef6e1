// The collapsed plan: built from segments, run over Ports in virtual time.
#include "passes/collapsed.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/price.h"
#include "plan/pick.h"
#include "plan/ports.h"
#include "sbp/transfer.h"
#include "sbp/transition.h"

namespace karez::passes {
namespace {

ActorId actor_of(SegmentId segment) { return ActorId(segment.index); }
SegmentId segment_of(ActorId actor) { return SegmentId(actor.index); }

// One actor per segment; a register per (producing segment, consuming segments), control edges included; sources hang on `start`, sinks
// on `done`.
Plan collapsed_plan(const Graph& graph, const Segmented& cut) {
  Plan plan;
  plan.name = "collapsed";
  plan.devices.push_back({});
  constexpr StreamKind kinds[] = {StreamKind::host, StreamKind::compute, StreamKind::comm};
  for (std::size_t mesh = 0; mesh < graph.meshes.size(); ++mesh)
    for (StreamKind kind : kinds) plan.streams.push_back({DeviceId(0), std::string(name_of(kind)), 0});
  ById<SegmentId, std::set<SegmentId>> next(cut.segments.size());
  ById<SegmentId, bool> has_input(cut.segments.size(), false);
  auto edge = [&](NodeId from, NodeId to) {
    SegmentId a = cut.of[from], b = cut.of[to];
    if (a != b) next[a].insert(b), has_input[b] = true;
  };
  for (NodeId n : graph.nodes.ids()) {
    for (ValueId in : graph.node(n).inputs) edge(graph.value(in).producer, n);
    for (NodeId before : graph.node(n).after) edge(before, n);
  }
  for (SegmentId s : cut.segments.ids()) {
    Actor actor;
    actor.name = cat(name_of(cut.segments[s].stream), ".", s);
    actor.stream = StreamId(cut.segments[s].mesh * static_cast<int>(std::size(kinds)) + static_cast<int>(cut.segments[s].stream));
    actor.priority = s.index;
    plan.actors.push_back(std::move(actor));
  }
  auto connect = [&](ActorId producer, std::vector<ActorId> consumers) {
    Register reg;
    reg.producer = producer;
    reg.consumers = consumers;
    RegisterId id = plan.registers.add(std::move(reg));
    if (producer != session_actor) plan.actors[producer].outputs.push_back({id, 1});
    for (ActorId consumer : consumers)
      if (consumer != session_actor) plan.actors[consumer].inputs.push_back({id, 1});
  };
  for (SegmentId s : cut.segments.ids()) {
    if (!has_input[s]) connect(session_actor, {actor_of(s)});
    std::vector<ActorId> consumers;
    for (SegmentId to : next[s]) consumers.push_back(actor_of(to));
    if (consumers.empty()) consumers.push_back(session_actor);
    connect(actor_of(s), std::move(consumers));
  }
  return plan;
}

double duration(const Graph& graph, const Segment& segment, const CostTable& costs) {
  double total = 0;
  for (NodeId id : segment.nodes) {
    NodeView view{&graph, id};
    const Node& node = view.node();
    const Mesh& mesh = graph.mesh(node.outputs[0]);
    if (node.op->role == Role::transfer) {
      total += transfer_seconds(view.out_type(0), {graph.mesh(node.inputs[0]), *graph.value(node.inputs[0]).layout}, {mesh, *graph.value(node.outputs[0]).layout},
                                costs);
    } else if (segment.stream == StreamKind::comm) {
      const Layout& from = *graph.value(node.inputs[0]).layout;
      const Layout& to = *graph.value(node.outputs[0]).layout;
      total += seconds(view.out_type(0), mesh, {static_cast<int>(node.attrs.integer("axis")), move_from(node.attrs.text("move")), from, to}, costs);
    } else {
      total += device_seconds(graph, id, costs);
    }
  }
  return total;
}

}  // namespace

std::vector<NodeId> collective_sequence(const Graph& graph, const Segmented& cut, const CostTable& costs) {
  Plan plan = collapsed_plan(graph, cut);
  ById<ActorId, Ports> ports;
  for (ActorId a : plan.actors.ids()) ports.emplace_back(plan, a);
  Ports starter = Ports::starter(plan), ender = Ports::ender(plan);
  auto deliver = [&](const Message& m) {
    if (m.to != session_actor) {
      ports[m.to].take(m);
    } else {
      (m.kind == Message::Kind::filled ? ender : starter).take(m);
    }
  };
  starter.begin();
  starter.complete(deliver);
  std::vector<NodeId> sequence;
  struct Running {
    double end = 0;
    ActorId actor;
  };
  ById<StreamId, Running> streams(plan.streams.size());
  double now = 0;
  std::size_t done = 0;
  while (done < ports.size()) {
    for (StreamId s : streams.ids()) {  // every idle stream takes its best ready actor
      if (streams[s].actor.valid()) continue;
      ActorId best;
      for (ActorId a : ports.ids()) {
        if (plan.actor(a).stream != s || !ports[a].ready() || ports[a].acts() > 0) continue;
        if (!best.valid() || picked_before(plan, a, best)) best = a;
      }
      if (!best.valid()) continue;
      ports[best].begin();
      const Segment& segment = cut.segments[segment_of(best)];
      streams[s] = {now + duration(graph, segment, costs), best};
      if (segment.stream == StreamKind::comm) sequence.push_back(segment.nodes[0]);
    }
    StreamId first;
    for (StreamId s : streams.ids())
      if (streams[s].actor.valid() && (!first.valid() || streams[s].end < streams[first].end)) first = s;
    require(first.valid(), "slots: the step stalls after ", done, " of ", ports.size(), " actors: a segment waits for itself");
    Running& next = streams[first];
    now = next.end;
    ports[next.actor].complete(deliver);
    next.actor = {};
    ++done;
  }
  return sequence;
}

}  // namespace karez::passes
