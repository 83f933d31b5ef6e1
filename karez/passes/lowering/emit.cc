// Creates actors from local segments, registers for values between actors, blocks, and start and done registers.
#include "karez/passes/lowering/emit.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "karez/base/text.h"
#include "karez/passes/lowering/actor_order.h"
#include "karez/passes/lowering/constant_places.h"
#include "karez/passes/lowering/cross_actor_values.h"
#include "karez/passes/lowering/emit_collective.h"
#include "karez/passes/lowering/plan_streams.h"
#include "karez/passes/lowering/program_hash.h"
#include "karez/passes/node_traits.h"

namespace karez::passes {
namespace {

class Emitter {
 public:
  explicit Emitter(const Compilation& c)
      : c_(c),
        own_devices_(own_devices(c.graph, c.options.rank)),
        crosses_(crosses_actors(c.local, c.segmentation)),
        communicators_(c, plan_) {}

  Plan run() {
    plan_.name = c_.graph.name;
    plan_.world = c_.options.world;
    plan_.rank = c_.options.rank;
    add_devices_and_streams(c_, own_devices_, plan_);
    add_blocks();
    for (std::size_t s = 0; s < c_.local.segments.size(); ++s) actor_of_.push_back(make_actor(s));
    first_fetch_ = ActorId(plan_.actors.size());
    add_fetches();
    find_readers_and_writers();
    place_constants();
    for (LocalId v : c_.local.values.ids())
      if (root(v) == v) place_root(v);
    for (std::size_t s = 0; s < c_.local.segments.size(); ++s)
      if (actor_of_[s].valid()) fill_actor(s);
    for (const auto& [id, fetched] : fetches_) bind_fetch(actor(id), fetched);
    add_setup_calls();
    add_order_edges();
    connect_session();
    finish_blocks();
    for (const Segment& segment : c_.segmentation.segments)
      if (segment.stream == StreamKind::comm) communicators_.transfer(segment.nodes[0]);
    plan_.program_hash = program_hash(c_);
    return std::move(plan_);
  }

 private:
  Actor& actor(ActorId id) { return plan_.actors[id]; }
  const LocalValue& value(LocalId v) const { return c_.local.values[v]; }
  LocalId root(LocalId v) const { return value(v).root; }

  void add_blocks() {
    for (DeviceId d : plan_.devices.ids())
      for (BlockKind kind : {BlockKind::scratch, BlockKind::constant}) plan_.blocks.push_back({kind, d, 0, "", ""});
  }
  // Each device has two blocks: the arena, with registers and values inside actors, and the block of constants. Here no
  // two values share memory; the memory pass decides later which values of the arena share memory.
  static constexpr int arena = 0, constants = 1, blocks_of_device = 2;
  BlockId block(int device, int index) const { return BlockId(std::max(device, 0) * blocks_of_device + index); }
  std::int64_t grow(BlockId id, std::int64_t bytes) {
    std::int64_t& size = plan_.blocks[id].bytes;
    std::int64_t offset = round_up(size, 64);
    size = offset + bytes;
    return offset;
  }

  ActorId add_actor(std::string name, StreamId stream, BodyKind body, int priority, int acts = 1) {
    Actor actor;
    actor.name = std::move(name);
    actor.stream = stream;
    actor.body = body;
    actor.priority = priority;
    acts_per_launch_.push_back(acts);
    return plan_.actors.add(std::move(actor));
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
    ActorId id = add_actor(name, stream_of(plan_, local.device, array ? StreamKind::compute : segment.stream), body,
                           priority_of(c_.graph, c_.segmentation, local.segment), first.acts);
    actor(id).where = first.where;
    if (body == BodyKind::input) actor(id).binding = first.attrs.text("name");
    return id;
  }

  void add_fetches() {
    for (const LocalOutput& fetched : c_.local.outputs) {
      ActorId id = add_actor(cat("fetch ", fetched.output), stream_of(plan_, fetched.device, StreamKind::compute),
                             BodyKind::fetch, static_cast<int>(c_.segmentation.segments.size()) + 1);
      actor(id).binding = fetched.output;
      fetches_.emplace_back(id, fetched.value);
    }
  }

  // Binds the part that the fetch reads. A slice is needed only if the part is not the complete output.
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
  void find_readers_and_writers() {
    readers_.resize(c_.local.values.size());
    writers_.resize(c_.local.values.size());
    for (std::size_t s = 0; s < c_.local.segments.size(); ++s) {
      if (!actor_of_[s].valid()) continue;
      auto add_user = [&](ById<LocalId, std::set<ActorId>>& users, LocalId v) { users[root(v)].insert(actor_of_[s]); };
      for (const LocalCall& call : c_.local.segments[s].calls) {
        for (LocalId in : call.in) add_user(readers_, in);
        for (LocalId out : call.out) add_user(writers_, out);
      }
      for (LocalId in : c_.local.segments[s].reads) add_user(readers_, in);
      for (LocalId out : c_.local.segments[s].writes) add_user(writers_, out);
    }
    for (const auto& [actor, fetched] : fetches_) readers_[root(fetched)].insert(actor);
  }

  // Adds a register that is filled `fills` times per launch; an actor with more acts fills or returns the register on
  // the last act of each period.
  RegisterId connect(ActorId producer, std::vector<ActorId> consumers, int fills = 1) {
    Register reg;
    reg.producer = producer;
    reg.consumers = consumers;
    RegisterId id = plan_.registers.add(std::move(reg));
    if (producer != session_actor) actor(producer).outputs.push_back({id, acts_per_launch_[producer] / fills});
    for (ActorId consumer : consumers)
      if (consumer != session_actor) actor(consumer).inputs.push_back({id, acts_per_launch_[consumer] / fills});
    return id;
  }

  std::string type_text(const LocalValue& v) const {
    if (!v.value.valid()) return print(v.view);
    const Value& logical = c_.graph.value(v.value);
    return print(logical.type, c_.graph.meshes[static_cast<std::size_t>(logical.mesh)], *logical.layout);
  }

  ActorId state_actor(int device) {
    auto [entry, inserted] = state_actors_.try_emplace(device);
    if (inserted)
      entry->second =
          add_actor(cat("state ", device), stream_of(plan_, device, StreamKind::compute), BodyKind::state, 0);
    return entry->second;
  }

  std::int64_t bytes_at_least_one(LocalId v) const { return std::max<std::int64_t>(value(v).view.bytes(), 1); }

  void place_constants() {
    constants_ = passes::place_constants(c_.local, static_cast<int>(own_devices_.size()));
    for (const auto& [v, offset] : constants_.offset) {
      locations_[v].block = block(value(v).device, constants);
      locations_[v].offset = offset;
    }
    for (std::size_t d = 0; d < own_devices_.size(); ++d)
      plan_.blocks[block(static_cast<int>(d), constants)].bytes = constants_.bytes[d];
  }

  // Assigns a root to a variable's block, to scratch or to a register.
  void place_root(LocalId v) {
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
    if (writers_[v].empty()) return;  // an unused alias, which is never written
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
                           local.value.valid() ? fills_per_launch(c_.graph, local.value) : acts_per_launch_[producer]);
    Register& reg = plan_.registers[location.reg];
    reg.slots = local.value.valid() ? c_.slot_assignment.slots[local.value] : 1;
    reg.bytes = bytes;
    reg.stride = round_up(bytes, 64);
    reg.block = block(local.device, arena);
    reg.offset = grow(reg.block, reg.stride * reg.slots);
    reg.type = type_text(local);
  }

  // Returns the operand of a local value. A writer of a variable uses the variable's block, and a reader uses the
  // register, whose slot is the same memory.
  Operand operand(LocalId v, bool is_written) const {
    const Operand& location = locations_.at(root(v));
    Operand result = location;
    if (location.reg.valid() && location.block.valid()) {
      if (is_written) {
        result.reg = {};
      } else {
        result.block = {};
      }
    }
    result.offset += value(v).offset;
    result.view = value(v).view;
    return result;
  }

  static Operand workspace_at(BlockId block, std::int64_t offset, std::int64_t bytes) {
    Operand workspace;
    workspace.block = block;
    workspace.offset = offset;
    workspace.view = View(DType::b8, {bytes});
    return workspace;
  }
  Call call_of_act(const LocalCall& local, int device) {
    const BlockId block_id = block(device, arena);
    return call_from(
        local, workspace_at(block_id, local.workspace > 0 ? grow(block_id, local.workspace) : 0, local.workspace));
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
    if (local.spec.attrs.has("calls")) call.where = cat(local.spec.attrs.integer("calls"), " x ");
    for (NodeId node : local.merged) call.where += cat(c_.graph.node(node).op->name, " + ");
    if (local.node.valid()) call.where += describe(c_.graph, local.node);
    return call;
  }

  void fill_actor(std::size_t s) {
    const LocalSegment& local = c_.local.segments[s];
    Actor& target = actor(actor_of_[s]);
    for (const LocalCall& call : local.calls) target.calls.push_back(call_of_act(call, local.device));
    if (target.body == BodyKind::input) {
      const LocalValue& root = value(local.writes[0]);
      target.bound = {operand(local.writes[0], true)};
      const int acts = acts_per_launch_[actor_of_[s]];
      Box box = root.box;
      Shape total_shape = c_.graph.type(root.value).shape;  // of one act; extended to all acts below
      const std::int64_t rows = total_shape.empty() ? 0 : total_shape[0];
      if (acts > 1) total_shape[0] *= acts;
      for (int act = 0; act < acts; ++act) {
        target.slices.push_back(slice(box, total_shape));
        if (acts > 1) box[0] = {box[0].begin + rows, box[0].end + rows};
      }
    } else if (target.body == BodyKind::collective) {
      std::int64_t staging = 0;
      const DType dtype = c_.graph.type(c_.graph.node(local.collective).outputs[0]).dtype;
      // In a transfer, a device that only sends has no result, and a device that only receives has no operand.
      Operand empty_operand;
      empty_operand.block = block(local.device, arena);
      empty_operand.view = View(dtype, {0});
      Operand in = local.reads.empty() ? empty_operand : operand(local.reads[0], false);
      Operand out = local.writes.empty() ? empty_operand : operand(local.writes[0], true);
      for (Operand* operand : {&in, &out})
        if (operand->view.shape.empty())
          operand->view = View(dtype, {1});  // see Communicators: a scalar is sent as an array of one element
      Collective collective = communicators_.collective(
          local.collective, own_devices_[static_cast<std::size_t>(local.device)], in.view, out.view, staging);
      collective.in = in;
      collective.out = out;
      if (staging > 0) {
        Operand operand;
        operand.block = block(local.device, arena);
        operand.offset = grow(operand.block, staging);
        operand.view = View(DType::b8, {staging});
        collective.staging = operand;
      }
      target.where = collective.where;
      target.collective = std::move(collective);
    }
  }

  void add_setup_calls() {
    for (std::size_t i = 0; i < c_.local.setup.size(); ++i) {
      const LocalCall& local = c_.local.setup[i];
      const BlockId block_id = block(device_of(c_.local, local), constants);
      plan_.setup.push_back(call_from(local, workspace_at(block_id, constants_.workspace[i], local.workspace)));
    }
  }

  // Ensures that every reader of a variable's old version acts before the writer, and that actors follow the control
  // edges of their nodes. If no path of registers ensures such an order, a register without bytes is added.
  void add_order_edges() {
    ActorOrder order(plan_, first_fetch_);
    auto put_before = [&](ActorId earlier, ActorId later) {
      if (earlier == later || order.precedes(earlier, later)) return;
      connect(earlier, {later}, std::gcd(acts_per_launch_[earlier], acts_per_launch_[later]));
      order.add(earlier, later);
    };
    for (LocalId v : c_.local.values.ids()) {
      if (value(v).variable < 0 || root(v) != v) continue;
      for (ActorId writer : writers_[v])
        for (ActorId reader : readers_[v]) put_before(reader, writer);
    }
    std::set<std::pair<SegmentId, SegmentId>> control_edges;
    for (NodeId n : c_.graph.nodes.ids())
      for (NodeId predecessor : c_.graph.node(n).after)
        control_edges.insert({c_.segmentation.segment_of[predecessor], c_.segmentation.segment_of[n]});
    if (control_edges.empty()) return;
    constexpr int host = -1;  // the device of inputs, which any device may read
    std::map<std::pair<SegmentId, int>, std::vector<ActorId>> actors;  // by segment and device
    for (std::size_t s = 0; s < c_.local.segments.size(); ++s)
      if (actor_of_[s].valid())
        actors[{c_.local.segments[s].segment, c_.local.segments[s].device}].push_back(actor_of_[s]);
    for (const auto& [from, to] : control_edges)
      for (int device = 0; device < static_cast<int>(own_devices_.size()); ++device)
        for (ActorId later : actors[{to, device}])
          for (int earlier_device : {host, device})
            for (ActorId earlier : actors[{from, earlier_device}]) put_before(earlier, later);
  }

  void connect_session() {
    for (ActorId a : plan_.actors.ids())
      if (plan_.actors[a].inputs.empty()) connect(session_actor, {a});
    ById<ActorId, bool> has_consumer(plan_.actors.size(), false);
    for (const Register& reg : plan_.registers)
      if (reg.producer != session_actor)
        for (ActorId to : reg.consumers) has_consumer[reg.producer] = has_consumer[reg.producer] || to != session_actor;
    for (ActorId a : has_consumer.ids())
      if (!has_consumer[a]) connect(a, {session_actor});
  }

  void finish_blocks() {
    for (int d = 0; d < static_cast<int>(own_devices_.size()); ++d)
      for (int which : {arena, constants})
        plan_.blocks[block(d, which)].bytes = round_up(plan_.blocks[block(d, which)].bytes, 64);
  }

  const Compilation& c_;
  Plan plan_;
  std::vector<DeviceName> own_devices_;
  ById<LocalId, bool> crosses_;
  Communicators communicators_;
  ById<ActorId, int> acts_per_launch_;  // the acts of each actor per launch
  std::vector<ActorId> actor_of_;       // the actor of each local segment
  ActorId first_fetch_;                 // the actors before this one are numbered in the order of segments
  std::vector<std::pair<ActorId, LocalId>> fetches_;
  ById<LocalId, std::set<ActorId>> readers_, writers_;  // by root
  std::map<int, ActorId> state_actors_;                 // by device
  ConstantPlaces constants_;
  std::map<LocalId, Operand> locations_;  // by root
};

}  // namespace

Plan emit(const Compilation& c) { return Emitter(c).run(); }

}  // namespace karez::passes
