// Builds a plan of representative devices from the segments, and runs it with Ports in virtual time.
#include "karez/passes/scheduling/launch_simulation.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <utility>

#include "karez/base/interrupt.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/sharding/device_cost.h"
#include "karez/plan/ports.h"
#include "karez/plan/ready_queue.h"
#include "karez/sbp/transfer.h"
#include "karez/sbp/transition.h"

namespace karez::passes {
namespace {

ActorId actor_of(SegmentId segment) { return ActorId(segment.index); }
SegmentId segment_of(ActorId actor) { return SegmentId(actor.index); }

// Returns a plan with one actor per segment, which acts as often as its nodes. Values of a segment that have the same
// number of fills and the same number of slots share one register; control edges have one slot. A start register leads
// to each actor without inputs, and a done register from each actor without outputs.
Plan representative_plan(const Graph& graph, const Segmentation& segmentation, const ById<ValueId, int>& slots) {
  Plan plan;
  plan.name = "collapsed";
  plan.devices.push_back({});
  constexpr StreamKind kinds[] = {StreamKind::host, StreamKind::compute, StreamKind::comm};
  for (std::size_t mesh = 0; mesh < graph.meshes.size(); ++mesh)
    for (StreamKind kind : kinds) plan.streams.push_back({DeviceId(0), kind, 0});
  struct Kind {
    SegmentId from;
    int fills = 1, slots = 1;
    auto operator<=>(const Kind&) const = default;
  };
  std::map<Kind, std::set<SegmentId>> readers;
  ById<SegmentId, bool> has_input(segmentation.segments.size(), false), has_output(segmentation.segments.size(), false);
  auto acts = [&](SegmentId s) { return graph.node(segmentation.segments[s].nodes[0]).acts; };
  auto edge = [&](NodeId from, NodeId to, int fills, int slot_count) {
    SegmentId a = segmentation.segment_of[from], b = segmentation.segment_of[to];
    if (a != b) readers[{a, fills, slot_count}].insert(b), has_input[b] = has_output[a] = true;
  };
  for (NodeId n : graph.nodes.ids()) {
    for (ValueId in : graph.node(n).inputs) {
      edge(graph.value(in).producer, n, fills_per_launch(graph, in), slots[in]);
      // A reader through a window also holds the windowed value.
      while (may_alias(graph.node(graph.value(in).producer))) {
        in = graph.node(graph.value(in).producer).inputs[0];
        edge(graph.value(in).producer, n, fills_per_launch(graph, in), slots[in]);
      }
    }
    for (NodeId before : graph.node(n).after) edge(before, n, std::gcd(graph.node(before).acts, graph.node(n).acts), 1);
  }
  for (SegmentId s : segmentation.segments.ids()) {
    Actor actor;
    actor.name = cat(name_of(segmentation.segments[s].stream), ".", s);
    actor.stream = StreamId(segmentation.segments[s].mesh * static_cast<int>(std::size(kinds)) +
                            static_cast<int>(segmentation.segments[s].stream));
    actor.priority = priority_of(graph, segmentation, s);
    plan.actors.push_back(std::move(actor));
  }
  auto connect = [&](ActorId producer, const std::vector<ActorId>& consumers, int fills, int slot_count) {
    Register reg;
    reg.producer = producer;
    reg.consumers = consumers;
    reg.slots = slot_count;
    RegisterId id = plan.registers.add(std::move(reg));
    auto period = [&](ActorId actor) { return acts(segment_of(actor)) / fills; };
    if (producer != session_actor) plan.actors[producer].outputs.push_back({id, period(producer)});
    for (ActorId consumer : consumers)
      if (consumer != session_actor) plan.actors[consumer].inputs.push_back({id, period(consumer)});
  };
  for (const auto& [kind, segments] : readers) {
    std::vector<ActorId> consumers;
    for (SegmentId to : segments) consumers.push_back(actor_of(to));
    connect(actor_of(kind.from), consumers, kind.fills, kind.slots);
  }
  for (SegmentId s : segmentation.segments.ids()) {
    if (!has_input[s]) connect(session_actor, {actor_of(s)}, 1, 1);
    if (!has_output[s]) connect(actor_of(s), {session_actor}, 1, 1);
  }
  return plan;
}

}  // namespace

double seconds_of(const Graph& graph, const Segment& segment, const CostTable& costs) {
  double total = 0;
  for (NodeId id : segment.nodes) {
    NodeView view{&graph, id};
    const Node& node = view.node();
    const Mesh& mesh = graph.mesh(node.outputs[0]);
    if (node.op->role == Role::transfer) {
      total += transfer_seconds(view.out_type(0), {graph.mesh(node.inputs[0]), *graph.value(node.inputs[0]).layout},
                                {mesh, *graph.value(node.outputs[0]).layout}, costs);
    } else if (segment.stream == StreamKind::comm) {
      const Layout& from = *graph.value(node.inputs[0]).layout;
      const Layout& to = *graph.value(node.outputs[0]).layout;
      total +=
          seconds(view.out_type(0), mesh,
                  {static_cast<int>(node.attrs.integer("axis")), move_from(node.attrs.text("move")), from, to}, costs);
    } else {
      total += device_seconds(graph, id, costs);
    }
  }
  return total;
}

LaunchSimulation simulate_launch(const Graph& graph, const Segmentation& segmentation, const ById<ValueId, int>& slots,
                                 const CostTable& costs) {
  Plan plan = representative_plan(graph, segmentation, slots);
  ById<ActorId, Ports> ports;
  const PortNumbers port_numbers(plan);
  for (ActorId a : plan.actors.ids()) ports.emplace_back(plan, a, port_numbers);
  Ports session_start = Ports::session_start(plan, port_numbers),
        session_done = Ports::session_done(plan, port_numbers);
  auto act_count = [&](ActorId a) { return graph.node(segmentation.segments[segment_of(a)].nodes[0]).acts; };
  auto starts_later = [&](ActorId a, ActorId b) { return plan::precedes_in_priority(plan, b, a); };
  using ReadyActors = std::priority_queue<ActorId, std::vector<ActorId>, decltype(starts_later)>;
  // Actors that are ready and not running; once ready, an actor stays ready.
  ById<StreamId, ReadyActors> ready(plan.streams.size(), ReadyActors(starts_later));
  auto enqueue_if_ready = [&](ActorId a) {
    if (ports[a].ready() && ports[a].acts() < act_count(a)) ready[plan.actor(a).stream].push(a);
  };
  for (ActorId a : ports.ids()) enqueue_if_ready(a);
  auto deliver = [&](const Message& m) {
    if (m.to != session_actor) {
      if (ports[m.to].take(m)) enqueue_if_ready(m.to);
    } else {
      (m.kind == Message::Kind::filled ? session_done : session_start).take(m);
    }
  };
  session_start.begin();
  session_start.complete(deliver);
  LaunchSimulation run;
  struct Running {
    double end = 0;
    ActorId actor;
  };
  ById<StreamId, Running> streams(plan.streams.size());
  double now = 0;
  std::int64_t done = 0, total_acts = 0;
  for (ActorId a : ports.ids()) total_acts += act_count(a);
  while (done < total_acts) {
    check_interrupt();
    for (StreamId s : streams.ids()) {  // every idle stream starts its most urgent ready actor
      if (streams[s].actor.valid() || ready[s].empty()) continue;
      const ActorId actor = ready[s].top();
      ready[s].pop();
      ports[actor].begin();
      const Segment& segment = segmentation.segments[segment_of(actor)];
      streams[s] = {now + seconds_of(graph, segment, costs), actor};
      if (segment.stream == StreamKind::comm) run.collectives.push_back(segment.nodes[0]);
    }
    StreamId first;
    for (StreamId s : streams.ids())
      if (streams[s].actor.valid() && (!first.valid() || streams[s].end < streams[first].end)) first = s;
    require(first.valid(), "slots: the step stalls after ", done, " of ", total_acts,
            " acts: a segment waits for itself");
    Running& next = streams[first];
    now = next.end;
    ports[next.actor].complete(deliver);
    enqueue_if_ready(std::exchange(next.actor, {}));
    ++done;
  }
  run.seconds = now;
  return run;
}

}  // namespace karez::passes
