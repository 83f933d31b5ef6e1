// emit: creates actors from local segments, registers for values between actors, blocks, and start and done registers.
#include "karez/passes/lowering/emit.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "karez/base/hash.h"
#include "karez/base/text.h"
#include "karez/passes/lowering/constant_places.h"
#include "karez/passes/lowering/cross_actor_values.h"
#include "karez/passes/lowering/device_workers.h"
#include "karez/passes/lowering/emit_collective.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/launch_simulation.h"

namespace karez::passes {
namespace {

bool crosses_ranks(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Mesh &from = graph.mesh(node.inputs[0]), &to = graph.mesh(node.outputs[0]);
  auto elsewhere = [&](DeviceName name) { return name.rank != from.devices[0].rank; };
  if (node.op->role == Role::transfer)
    return std::any_of(from.devices.begin(), from.devices.end(), elsewhere) ||
           std::any_of(to.devices.begin(), to.devices.end(), elsewhere);
  const std::vector<int> group = from.group(step_of(graph, id).axis, 0);
  return std::any_of(group.begin(), group.end(),
                     [&](int position) { return elsewhere(from.devices[static_cast<std::size_t>(position)]); });
}

class Emitter {
 public:
  explicit Emitter(const Compilation& c)
      : c_(c),
        own_(own_devices(c.graph, c.options.rank)),
        crosses_(crosses_actors(c.local, c.segmentation)),
        communicators_(c, plan_) {}

  Plan run() {
    plan_.name = c_.graph.name;
    plan_.world = c_.options.world;
    plan_.rank = c_.options.rank;
    devices_and_streams();
    for (std::size_t s = 0; s < c_.local.segments.size(); ++s) actor_of_.push_back(make_actor(s));
    first_fetch_ = ActorId(plan_.actors.size());
    fetches();
    find_users();
    place_constants();
    for (LocalId v : c_.local.values.ids())
      if (root(v) == v) place(v);
    for (std::size_t s = 0; s < c_.local.segments.size(); ++s)
      if (actor_of_[s].valid()) fill(s);
    for (const auto& [id, fetched] : fetch_) bind_fetch(actor(id), fetched);
    setup();
    add_order_edges();
    connect_session();
    finish_blocks();
    for (const Segment& segment : c_.segmentation.segments)
      if (segment.stream == StreamKind::comm) communicators_.transfer(segment.nodes[0]);
    plan_.program_hash = program_hash();
    verify(plan_);
    return std::move(plan_);
  }

 private:
  Actor& actor(ActorId id) { return plan_.actors[id]; }
  const LocalValue& value(LocalId v) const { return c_.local.values[v]; }
  LocalId root(LocalId v) const { return value(v).root; }

  void devices_and_streams() {
    const int workers = std::max(1, c_.options.workers), beside = std::min(workers, static_cast<int>(own_.size()));
    const bool apart = transfers_need_worker();
    const std::vector<int> served_by = device_workers(seconds_by_device(), workers);
    for (std::size_t d = 0; d < own_.size(); ++d) {
      DeviceName name = own_[d];
      plan_.devices.push_back({name.rank, name.device, "cpu"});
      const int worker = served_by[d];
      plan_.streams.push_back({DeviceId(d), "compute", worker});
      plan_.streams.push_back({DeviceId(d), "comm", apart ? beside : worker});
      for (BlockKind kind : {BlockKind::scratch, BlockKind::constant})
        plan_.blocks.push_back({kind, DeviceId(d), 0, "", ""});
    }
    plan_.streams.push_back({DeviceId(0), "host", 0});
  }
  // The predicted seconds for which each own device is busy in a launch.
  std::vector<double> seconds_by_device() const {
    std::vector<double> seconds(own_.size(), 0.0);
    for (const LocalSegment& local : c_.local.segments) {
      if (local.device < 0) continue;
      const Segment& segment = c_.segmentation.segments[local.segment];
      seconds[static_cast<std::size_t>(local.device)] +=
          c_.graph.node(segment.nodes[0]).acts * seconds_of(c_.graph, segment, c_.options.costs);
    }
    return seconds;
  }
  // True if transfers between ranks justify a separate worker: it continues them while acts run, but must be woken for
  // each.
  bool transfers_need_worker() const {
    constexpr double long_enough = 2e-4;  // ten wake-ups
    double seconds = 0;
    int transfers = 0;
    for (const Segment& segment : c_.segmentation.segments) {
      if (segment.stream != StreamKind::comm || !crosses_ranks(c_.graph, segment.nodes[0])) continue;
      seconds += seconds_of(c_.graph, segment, c_.options.costs);
      ++transfers;
    }
    return seconds > long_enough * transfers;
  }
  StreamId stream(int device, StreamKind kind) const {
    return kind == StreamKind::host ? StreamId(plan_.streams.size() - 1)
                                    : StreamId(device * 2 + (kind == StreamKind::comm ? 1 : 0));
  }
  // Blocks of each device: the arena has registers and values inside actors, each in its own bytes; the second block
  // has constants. The pass `memory` decides later which of them share bytes.
  static constexpr int arena = 0, constants = 1, blocks_of_device = 2;
  BlockId block(int device, int which) const { return BlockId(std::max(device, 0) * blocks_of_device + which); }
  std::int64_t grow(BlockId id, std::int64_t bytes) {
    std::int64_t& size = plan_.blocks[id].bytes;
    std::int64_t offset = round_up(size, 64);
    size = offset + bytes;
    return offset;
  }

  ActorId add_actor(std::string name, StreamId stream, BodyKind body, int priority, int acts = 1) {
    Actor made;
    made.name = std::move(name);
    made.stream = stream;
    made.body = body;
    made.priority = priority;
    acts_.push_back(acts);
    return plan_.actors.add(std::move(made));
  }

  ActorId make_actor(std::size_t s) {
    const LocalSegment& local = c_.local.segments[s];
    const Segment& segment = c_.segmentation.segments[local.segment];
    if (segment.stream == StreamKind::compute && local.calls.empty()) return {};
    BodyKind body = segment.stream == StreamKind::host   ? BodyKind::input
                    : segment.stream == StreamKind::comm ? BodyKind::collective
                                                         : BodyKind::compute;
    const Node& first = c_.graph.node(segment.nodes[0]);
    std::string name = body == BodyKind::input        ? cat("input ", first.attrs.text("name"))
                       : body == BodyKind::collective ? cat(kind_of_transfer(first), " %", first.outputs[0])
                                                      : cat("compute.", local.segment);
    const bool array = body == BodyKind::input && local.device >= 0;
    ActorId id = add_actor(name, stream(local.device, array ? StreamKind::compute : segment.stream), body,
                           priority_of(c_.graph, c_.segmentation, local.segment), first.acts);
    actor(id).where = first.where;
    if (body == BodyKind::input) actor(id).binding = first.attrs.text("name");
    return id;
  }

  void fetches() {
    for (const LocalOutput& fetched : c_.local.outputs) {
      ActorId id = add_actor(cat("fetch ", fetched.output), stream(fetched.device, StreamKind::compute),
                             BodyKind::fetch, static_cast<int>(c_.segmentation.segments.size()) + 1);
      actor(id).binding = fetched.output;
      fetch_.emplace_back(id, fetched.value);
    }
  }

  // Sets the slice only if the device has a part of the output.
  void bind_fetch(Actor& fetch, LocalId part) {
    fetch.bound = {operand(part, false)};
    const Shape& logical = c_.graph.type(value(part).value).shape;
    if (shape_of(value(part).box) != logical) fetch.slices = {slice(value(part).box, logical)};
  }

  static Attrs slice(const Box& box, const Shape& logical) {
    Ints begin;
    for (const Range& range : box) begin.push_back(range.begin);
    return Attrs().set("begin", begin).set("shape", Ints(logical));
  }

  // Finds the actors that read and write each root.
  void find_users() {
    readers_.resize(c_.local.values.size());
    writers_.resize(c_.local.values.size());
    for (std::size_t s = 0; s < c_.local.segments.size(); ++s) {
      if (!actor_of_[s].valid()) continue;
      auto note = [&](ById<LocalId, std::set<ActorId>>& who, LocalId v) { who[root(v)].insert(actor_of_[s]); };
      for (const LocalCall& call : c_.local.segments[s].calls) {
        for (LocalId in : call.in) note(readers_, in);
        for (LocalId out : call.out) note(writers_, out);
      }
      for (LocalId in : c_.local.segments[s].reads) note(readers_, in);
      for (LocalId out : c_.local.segments[s].writes) note(writers_, out);
    }
    for (const auto& [actor, fetched] : fetch_) readers_[root(fetched)].insert(actor);
  }

  // `fills`: how many times per launch it is filled; an actor with more acts fills or returns it on the last act of
  // each period.
  RegisterId connect(ActorId producer, std::vector<ActorId> consumers, int fills = 1) {
    Register reg;
    reg.producer = producer;
    reg.consumers = consumers;
    RegisterId id = plan_.registers.add(std::move(reg));
    if (producer != session_actor) actor(producer).outputs.push_back({id, acts_[producer] / fills});
    for (ActorId consumer : consumers)
      if (consumer != session_actor) actor(consumer).inputs.push_back({id, acts_[consumer] / fills});
    return id;
  }

  std::string type_text(const LocalValue& v) const {
    if (!v.value.valid()) return print(v.view);
    const Value& logical = c_.graph.value(v.value);
    return print(logical.type, c_.graph.meshes[static_cast<std::size_t>(logical.mesh)], *logical.layout);
  }

  ActorId state_actor(int device) {
    auto [at, fresh] = state_.try_emplace(device);
    if (fresh) at->second = add_actor(cat("state ", device), stream(device, StreamKind::compute), BodyKind::state, 0);
    return at->second;
  }

  std::int64_t bytes_at_least_one(LocalId v) const { return std::max<std::int64_t>(value(v).view.bytes(), 1); }

  void place_constants() {
    constants_ = passes::place_constants(c_.local, static_cast<int>(own_.size()));
    for (const auto& [v, offset] : constants_.offset) {
      locations_[v].block = block(value(v).device, constants);
      locations_[v].offset = offset;
    }
    for (std::size_t d = 0; d < own_.size(); ++d)
      plan_.blocks[block(static_cast<int>(d), constants)].bytes = constants_.bytes[d];
  }

  // Assigns a root to a variable's block, to scratch or to a register.
  void place(LocalId v) {
    const LocalValue& local = value(v);
    if (local.constant) return;
    Operand& location = locations_[v];
    const std::int64_t bytes = bytes_at_least_one(v);
    std::set<ActorId> users = readers_[v];
    if (local.variable >= 0) {
      users.insert(writers_[v].begin(), writers_[v].end());
      if (users.empty()) return;
      const Variable& variable = c_.graph.variables[static_cast<std::size_t>(local.variable)];
      location.block = plan_.blocks.add(
          {BlockKind::variable, DeviceId(local.device), bytes, variable.name,
           print(variable.type, c_.graph.meshes[static_cast<std::size_t>(variable.mesh)], *variable.stored)});
      std::vector<ActorId> consumers(users.begin(), users.end());
      location.reg = connect(state_actor(local.device), std::move(consumers));
      Register& reg = plan_.registers[location.reg];
      reg.bytes = reg.stride = bytes;
      reg.block = location.block;
      reg.type = type_text(local);
      return;
    }
    if (writers_[v].empty()) return;  // never written: unused aliases
    ActorId producer = *writers_[v].begin();
    if (!crosses_[v]) {
      location.block = block(local.device, arena);
      location.offset = grow(location.block, bytes);
      return;
    }
    users.erase(producer);
    std::vector<ActorId> consumers(users.begin(), users.end());
    if (consumers.empty()) {  // the result of a collective that only other devices read
      location.block = block(local.device, arena);
      location.offset = grow(location.block, bytes);
      return;
    }
    location.reg = connect(producer, std::move(consumers),
                           local.value.valid() ? fills_per_launch(c_.graph, local.value) : acts_[producer]);
    Register& reg = plan_.registers[location.reg];
    reg.slots = local.value.valid() ? c_.slot_assignment.slots[local.value] : 1;
    reg.bytes = bytes;
    reg.stride = round_up(bytes, 64);
    reg.block = block(local.device, arena);
    reg.offset = grow(reg.block, reg.stride * reg.slots);
    reg.type = type_text(local);
  }

  // A writer of a variable names its block, a reader its register; the register's slot has the same bytes.
  Operand operand(LocalId v, bool written) const {
    const Operand& location = locations_.at(root(v));
    Operand out = location;
    if (location.reg.valid() && location.block.valid()) {
      if (written) {
        out.reg = {};
      } else {
        out.block = {};
      }
    }
    out.offset += value(v).offset;
    out.view = value(v).view;
    return out;
  }

  static Operand workspace_at(BlockId block, std::int64_t offset, std::int64_t bytes) {
    Operand workspace;
    workspace.block = block;
    workspace.offset = offset;
    workspace.view = View(DType::b8, {bytes});
    return workspace;
  }
  Call call_of_act(const LocalCall& local, int device) {
    const BlockId there = block(device, arena);
    return call_from(local,
                     workspace_at(there, local.workspace > 0 ? grow(there, local.workspace) : 0, local.workspace));
  }
  Call call_from(const LocalCall& local, const Operand& workspace) {
    Call call;
    call.kernel = local.kernel;
    call.attrs = local.spec.attrs;
    call.team = local.spec.team;
    call.acts = local.acts;
    for (std::size_t i = 0; i < local.in.size(); ++i) {
      call.in.push_back(operand(local.in[i], false));
      call.in.back().view = local.spec.in[i];
    }
    for (std::size_t i = 0; i < local.out.size(); ++i) {
      call.out.push_back(operand(local.out[i], true));
      call.out.back().view = local.spec.out[i];
    }
    if (local.workspace > 0) call.workspace = workspace;
    if (local.node.valid()) call.where = describe(c_.graph, local.node);
    return call;
  }

  void fill(std::size_t s) {
    const LocalSegment& local = c_.local.segments[s];
    Actor& made = actor(actor_of_[s]);
    for (const LocalCall& call : local.calls) made.calls.push_back(call_of_act(call, local.device));
    if (made.body == BodyKind::input) {
      const LocalValue& root = value(local.writes[0]);
      made.bound = {operand(local.writes[0], true)};
      const int acts = acts_[actor_of_[s]];
      Box box = root.box;
      Shape whole = c_.graph.type(root.value).shape;  // of one act
      const std::int64_t rows = whole.empty() ? 0 : whole[0];
      if (acts > 1) whole[0] *= acts;
      for (int act = 0; act < acts; ++act) {
        made.slices.push_back(slice(box, whole));
        if (acts > 1) box[0] = {box[0].begin + rows, box[0].end + rows};
      }
    } else if (made.body == BodyKind::collective) {
      std::int64_t staging = 0;
      const DType dtype = c_.graph.type(c_.graph.node(local.collective).outputs[0]).dtype;
      Operand nothing;  // for a transfer: a device that only sends has no result, one that only receives no operand
      nothing.block = block(local.device, arena);
      nothing.view = View(dtype, {0});
      Operand in = local.reads.empty() ? nothing : operand(local.reads[0], false);
      Operand out = local.writes.empty() ? nothing : operand(local.writes[0], true);
      for (Operand* side : {&in, &out})
        if (side->view.shape.empty())
          side->view = View(dtype, {1});  // see Communicators: a scalar is sent as an array of one element
      Collective collective = communicators_.collective(local.collective, own_[static_cast<std::size_t>(local.device)],
                                                        in.view, out.view, staging);
      collective.in = in;
      collective.out = out;
      if (staging > 0) {
        Operand operand;
        operand.block = block(local.device, arena);
        operand.offset = grow(operand.block, staging);
        operand.view = View(DType::b8, {staging});
        collective.staging = operand;
      }
      made.where = collective.where;
      made.collective = std::move(collective);
    }
  }

  void setup() {
    for (std::size_t i = 0; i < c_.local.setup.size(); ++i) {
      const LocalCall& local = c_.local.setup[i];
      const BlockId there = block(device_of(c_.local, local), constants);
      plan_.setup.push_back(call_from(local, workspace_at(there, constants_.workspace[i], local.workspace)));
    }
  }

  ById<ActorId, std::set<ActorId>> predecessors() const {
    ById<ActorId, std::set<ActorId>> before(plan_.actors.size());
    for (const Register& reg : plan_.registers)
      for (ActorId to : reg.consumers)
        if (reg.producer != session_actor && to != session_actor) before[to].insert(reg.producer);
    return before;
  }

  // Orders every reader of a variable's old bytes before its writer, and every node after those of its control edges;
  // if no data path does so, a register without bytes is added.
  void add_order_edges() {
    auto before = predecessors();
    ById<ActorId, int> seen(plan_.actors.size(), 0);
    int round = 0;
    // A backward depth-first search that begins with the predecessors nearest to `from`: a reader of old bytes is often
    // a direct predecessor of the writer. Actors are numbered in the order of segments.
    auto reaches = [&](ActorId from, ActorId to) {
      ++round;
      std::vector<std::pair<ActorId, std::set<ActorId>::const_iterator>> way;
      auto enter = [&](ActorId a) {
        way.emplace_back(a, from < first_fetch_ ? before[a].lower_bound(from) : before[a].begin());
      };
      enter(to);
      while (!way.empty()) {
        auto& [at, next] = way.back();
        if (next == before[at].end()) {
          way.pop_back();
          continue;
        }
        const ActorId n = *next++;
        if (n == from) return true;
        if (std::exchange(seen[n], round) != round) enter(n);
      }
      return false;
    };
    auto put_before = [&](ActorId first, ActorId then) {
      if (first == then || reaches(first, then)) return;
      connect(first, {then}, std::gcd(acts_[first], acts_[then]));
      before[then].insert(first);
    };
    for (LocalId v : c_.local.values.ids()) {
      if (value(v).variable < 0 || root(v) != v) continue;
      for (ActorId writer : writers_[v])
        for (ActorId reader : readers_[v]) put_before(reader, writer);
    }
    std::set<std::pair<SegmentId, SegmentId>> controls;
    for (NodeId n : c_.graph.nodes.ids())
      for (NodeId before : c_.graph.node(n).after)
        controls.insert({c_.segmentation.segment_of[before], c_.segmentation.segment_of[n]});
    if (controls.empty()) return;
    constexpr int host = -1;                                           // the device of inputs, which all devices read
    std::map<std::pair<SegmentId, int>, std::vector<ActorId>> actors;  // by segment and device
    for (std::size_t s = 0; s < c_.local.segments.size(); ++s)
      if (actor_of_[s].valid())
        actors[{c_.local.segments[s].segment, c_.local.segments[s].device}].push_back(actor_of_[s]);
    for (const auto& [from, to] : controls)
      for (int device = 0; device < static_cast<int>(own_.size()); ++device)
        for (ActorId then : actors[{to, device}])
          for (int place : {host, device})
            for (ActorId first : actors[{from, place}]) put_before(first, then);
  }

  void connect_session() {
    for (ActorId a : plan_.actors.ids())
      if (plan_.actors[a].inputs.empty()) connect(session_actor, {a});
    ById<ActorId, bool> followed(plan_.actors.size(), false);
    for (const Register& reg : plan_.registers)
      if (reg.producer != session_actor)
        for (ActorId to : reg.consumers) followed[reg.producer] = followed[reg.producer] || to != session_actor;
    for (ActorId a : followed.ids())
      if (!followed[a]) connect(a, {session_actor});
  }

  void finish_blocks() {
    for (int d = 0; d < static_cast<int>(own_.size()); ++d)
      for (int which : {arena, constants})
        plan_.blocks[block(d, which)].bytes = round_up(plan_.blocks[block(d, which)].bytes, 64);
  }

  // Hashes everything that must be equal on all ranks, without paths and source lines.
  std::uint64_t program_hash() const {
    Graph bare = c_.graph;
    for (Node& node : bare.nodes) node.path.clear(), node.where.clear();
    Hash hash;
    hash.add(print(bare)).add(c_.options.costs.print());
    for (int slots : c_.slot_assignment.slots) hash.add(static_cast<std::uint64_t>(slots));
    for (const std::vector<int>& turns : c_.slot_assignment.turns) hash.add(join(turns, " "));
    hash.add(static_cast<std::uint64_t>(c_.options.team));  // results depend on it
    return hash.value();
  }

  const Compilation& c_;
  Plan plan_;
  std::vector<DeviceName> own_;
  ById<LocalId, bool> crosses_;
  Communicators communicators_;
  ById<ActorId, int> acts_;        // per launch
  std::vector<ActorId> actor_of_;  // by local segment
  ActorId first_fetch_;            // actors before it are numbered in the order of segments
  std::vector<std::pair<ActorId, LocalId>> fetch_;
  ById<LocalId, std::set<ActorId>> readers_, writers_;  // of roots
  std::map<int, ActorId> state_;                        // by device
  ConstantPlaces constants_;
  std::map<LocalId, Operand> locations_;  // of roots
};

}  // namespace

Plan emit(const Compilation& c) { return Emitter(c).run(); }

}  // namespace karez::passes
