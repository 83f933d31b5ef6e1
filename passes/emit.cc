// emit: actors from local segments, registers from values that cross them, blocks, start and done.
#include "passes/emit.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/hash.h"
#include "passes/emit_collective.h"
#include "passes/memory.h"

namespace karez::passes {
namespace {

class Emitter {
 public:
  explicit Emitter(Compilation& c)
      : c_(c),
        plan_(c.plan),
        own_(own_devices(c.graph, c.options.rank)),
        crosses_(crosses_actors(c)),
        communicators_(c) {}

  void run() {
    plan_ = {};
    plan_.name = c_.graph.name;
    plan_.world = c_.options.world;
    plan_.rank = c_.options.rank;
    devices_and_streams();
    for (std::size_t s = 0; s < c_.local.size(); ++s) actor_of_.push_back(make_actor(s));
    fetches();
    find_users();
    for (std::size_t v = 0; v < c_.locals.size(); ++v)
      if (c_.locals[v].root == static_cast<int>(v)) place(static_cast<int>(v));
    for (std::size_t s = 0; s < c_.local.size(); ++s)
      if (actor_of_[s].valid()) fill(s);
    for (const auto& [actor, fetched] : fetch_) plan_.actors[static_cast<std::size_t>(actor)].bound = {operand(fetched, false)};
    setup();
    order_writers();
    start_and_done();
    finish_blocks();
    for (const Segment& segment : c_.segments)
      if (segment.stream == StreamKind::comm) communicators_.transfer(segment.nodes[0]);
    plan_.program_hash = program_hash();
    verify(plan_);
  }

 private:
  Actor& actor(ActorId id) { return plan_.actors[static_cast<std::size_t>(id.index)]; }
  const LocalValue& value(int v) const { return c_.locals[static_cast<std::size_t>(v)]; }
  int root(int v) const { return value(v).root; }

  void devices_and_streams() {
    int workers = std::max(1, c_.options.workers);
    for (std::size_t d = 0; d < own_.size(); ++d) {
      DeviceName name = own_[d];
      plan_.devices.push_back({name.rank, name.device, "cpu"});
      int worker = static_cast<int>(d) % workers;
      plan_.streams.push_back({DeviceId(d), "compute", worker});
      plan_.streams.push_back({DeviceId(d), "comm", worker});
      for (BlockKind kind : {BlockKind::reg, BlockKind::scratch, BlockKind::constant}) plan_.blocks.push_back({kind, DeviceId(d), 0, "", ""});
    }
    plan_.streams.push_back({DeviceId(0), "host", 0});
  }
  StreamId stream(int device, StreamKind kind) const {
    return kind == StreamKind::host ? StreamId(plan_.streams.size() - 1) : StreamId(device * 2 + (kind == StreamKind::comm ? 1 : 0));
  }
  // By device: registers, scratch of calls, constants.
  BlockId block(int device, int which) const { return BlockId(std::max(device, 0) * 3 + which); }
  // Collectives hold no stream, so two of different communicators may be on their way at once; of one communicator only one is.
  BlockId staging_block(int device, CommunicatorId communicator) {
    auto [at, fresh] = staging_.try_emplace({device, communicator.index}, BlockId(plan_.blocks.size()));
    if (fresh) plan_.blocks.push_back({BlockKind::scratch, DeviceId(device), 0, "", ""});
    return at->second;
  }
  std::int64_t grow(BlockId id, std::int64_t bytes) {
    std::int64_t& size = plan_.blocks[static_cast<std::size_t>(id.index)].bytes;
    std::int64_t offset = round_up(size, 64);
    size = offset + bytes;
    return offset;
  }

  ActorId add_actor(std::string name, StreamId stream, BodyKind body, int priority) {
    Actor made;
    made.name = std::move(name);
    made.stream = stream;
    made.body = body;
    made.priority = priority;
    plan_.actors.push_back(std::move(made));
    return ActorId(plan_.actors.size() - 1);
  }

  ActorId make_actor(std::size_t s) {
    const LocalSegment& local = c_.local[s];
    const Segment& segment = c_.segments[static_cast<std::size_t>(local.segment)];
    if (segment.stream == StreamKind::compute && local.calls.empty()) return {};
    BodyKind body = segment.stream == StreamKind::host   ? BodyKind::input
                    : segment.stream == StreamKind::comm ? BodyKind::collective
                                                         : BodyKind::compute;
    const Node& first = c_.graph.node(segment.nodes[0]);
    std::string name = body == BodyKind::input        ? cat("input ", first.attrs.text("name"))
                       : body == BodyKind::collective ? cat(first.attrs.text("move"), " %", first.outputs[0])
                                                      : cat("compute.", local.segment);
    ActorId id = add_actor(name, stream(local.device, segment.stream), body, local.segment + 1);
    actor(id).where = first.where;
    if (body == BodyKind::input) actor(id).binding = first.attrs.text("name");
    return id;
  }

  void fetches() {
    for (const auto& [name, fetched] : c_.fetched) {
      ActorId id = add_actor(cat("fetch ", name), stream(0, StreamKind::host), BodyKind::fetch, static_cast<int>(c_.segments.size()) + 1);
      actor(id).binding = name;
      fetch_.emplace_back(id.index, fetched);
    }
  }

  // Which actors make, read and write each root.
  void find_users() {
    readers_.resize(c_.locals.size());
    writers_.resize(c_.locals.size());
    for (std::size_t s = 0; s < c_.local.size(); ++s) {
      if (!actor_of_[s].valid()) continue;
      auto note = [&](std::vector<std::set<int>>& who, int v) { who[static_cast<std::size_t>(root(v))].insert(actor_of_[s].index); };
      for (const LocalCall& call : c_.local[s].calls) {
        for (int in : call.in) note(readers_, in);
        for (int out : call.out) note(writers_, out);
      }
      for (int in : c_.local[s].reads) note(readers_, in);
      for (int out : c_.local[s].writes) note(writers_, out);
    }
    for (const auto& [actor, fetched] : fetch_) readers_[static_cast<std::size_t>(root(fetched))].insert(actor);
  }

  RegisterId connect(ActorId producer, std::vector<ActorId> consumers) {
    Register reg;
    reg.producer = producer;
    reg.consumers = consumers;
    RegisterId id(plan_.registers.size());
    plan_.registers.push_back(std::move(reg));
    if (producer != session_actor) actor(producer).outputs.push_back({id, 1});
    for (ActorId consumer : consumers)
      if (consumer != session_actor) actor(consumer).inputs.push_back({id, 1});
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

  // Gives a root its place: constants, variables, scratch or a register.
  void place(int v) {
    const LocalValue& local = value(v);
    auto at = static_cast<std::size_t>(v);
    Operand& home = homes_[v];
    std::int64_t bytes = std::max<std::int64_t>(local.view.bytes(), 1);
    if (local.constant) {
      home.block = block(local.device, 2);
      home.offset = grow(home.block, bytes);
      return;
    }
    std::set<int> users = readers_[at];
    if (local.variable >= 0) {
      users.insert(writers_[at].begin(), writers_[at].end());
      if (users.empty()) return;
      const Variable& variable = c_.graph.variables[static_cast<std::size_t>(local.variable)];
      home.block = BlockId(plan_.blocks.size());
      plan_.blocks.push_back({BlockKind::variable, DeviceId(local.device), bytes, variable.name,
                              print(variable.type, c_.graph.meshes[static_cast<std::size_t>(variable.mesh)], *variable.stored)});
      std::vector<ActorId> consumers(users.begin(), users.end());
      home.reg = connect(state_actor(local.device), std::move(consumers));
      Register& reg = plan_.registers[static_cast<std::size_t>(home.reg.index)];
      reg.bytes = reg.stride = bytes;
      reg.block = home.block;
      reg.type = type_text(local);
      return;
    }
    if (writers_[at].empty()) return;  // never made: an alias chain nobody uses
    ActorId producer(*writers_[at].begin());
    if (!crosses_[at]) {
      home.block = block(local.device, 1);
      home.offset = c_.scratch_offset[at];
      return;
    }
    users.erase(producer.index);
    std::vector<ActorId> consumers(users.begin(), users.end());
    if (consumers.empty()) {  // a member of a collective whose result is read on other devices alone
      home.block = BlockId(plan_.blocks.size());
      plan_.blocks.push_back({BlockKind::scratch, DeviceId(std::max(local.device, 0)), round_up(bytes, 64), "", ""});
      return;
    }
    home.reg = connect(producer, std::move(consumers));
    Register& reg = plan_.registers[static_cast<std::size_t>(home.reg.index)];
    reg.slots = local.value.valid() ? c_.slots[static_cast<std::size_t>(local.value.index)] : 1;
    reg.bytes = bytes;
    reg.stride = round_up(bytes, 64);
    reg.block = block(local.device, 0);
    reg.offset = grow(reg.block, reg.stride * reg.slots);
    reg.type = type_text(local);
  }

  // A variable that is written is named by its block: the writer owns it, and its register's slot is the same bytes.
  Operand operand(int v, bool written) const {
    const Operand& home = homes_.at(root(v));
    Operand out = home;
    if (home.reg.valid() && home.block.valid()) {
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

  Call call_from(const LocalCall& local, std::int64_t workspace_at, int device) const {
    Call call;
    call.kernel = local.kernel;
    call.attrs = local.spec.attrs;
    call.team = local.spec.team;
    for (std::size_t i = 0; i < local.in.size(); ++i) {
      call.in.push_back(operand(local.in[i], false));
      call.in.back().view = local.spec.in[i];
    }
    for (std::size_t i = 0; i < local.out.size(); ++i) {
      call.out.push_back(operand(local.out[i], true));
      call.out.back().view = local.spec.out[i];
    }
    if (local.workspace > 0) {
      Operand workspace;
      workspace.block = block(device, 1);
      workspace.offset = workspace_at;
      workspace.view = View(DType::b8, {local.workspace});
      call.workspace = workspace;
    }
    if (local.node.valid()) call.where = describe(c_.graph, local.node);
    return call;
  }

  void fill(std::size_t s) {
    const LocalSegment& local = c_.local[s];
    Actor& made = actor(actor_of_[s]);
    for (std::size_t i = 0; i < local.calls.size(); ++i) made.calls.push_back(call_from(local.calls[i], c_.workspace_offset[s][i], local.device));
    if (made.body == BodyKind::input) {
      const LocalValue& root = value(local.writes[0]);
      Ints begin;
      for (const Range& range : root.box) begin.push_back(range.begin);
      made.bound = {operand(local.writes[0], true)};
      made.slices = {Attrs().set("begin", begin).set("shape", Ints(root.view.shape))};
    } else if (made.body == BodyKind::collective) {
      std::int64_t staging = 0;
      const View &in = value(local.reads[0]).view, &out = value(local.writes[0]).view;
      Collective collective = communicators_.collective(local.collective, own_[static_cast<std::size_t>(local.device)], in, out, staging);
      collective.in = operand(local.reads[0], false);
      collective.out = operand(local.writes[0], true);
      if (staging > 0) {
        BlockId at = staging_block(local.device, collective.communicator);
        auto& bytes = plan_.blocks[static_cast<std::size_t>(at.index)].bytes;
        bytes = std::max(bytes, staging);
        Operand operand;
        operand.block = at;
        operand.view = View(DType::b8, {staging});
        collective.staging = operand;
      }
      made.where = collective.where;
      made.collective = std::move(collective);
    }
  }

  void setup() {
    for (const LocalCall& local : c_.setup) {
      require(local.workspace == 0, "emit: a constant needs workspace: ", print(local.spec));
      plan_.setup.push_back(call_from(local, 0, 0));
    }
  }

  std::vector<std::set<int>> followers() const {
    std::vector<std::set<int>> next(plan_.actors.size());
    for (const Register& reg : plan_.registers)
      for (ActorId to : reg.consumers)
        if (reg.producer != session_actor && to != session_actor) next[static_cast<std::size_t>(reg.producer.index)].insert(to.index);
    return next;
  }

  // Every reader of a variable's old bytes comes before its writer; where no data path says so, a register without bytes does.
  void order_writers() {
    auto next = followers();
    std::set<std::pair<int, int>> made;
    auto reaches = [&](int from, int to) {
      std::vector<bool> seen(plan_.actors.size(), false);
      std::vector<int> stack = {from};
      while (!stack.empty()) {
        int at = stack.back();
        stack.pop_back();
        if (at == to) return true;
        if (seen[static_cast<std::size_t>(at)]) continue;
        seen[static_cast<std::size_t>(at)] = true;
        for (int n : next[static_cast<std::size_t>(at)]) stack.push_back(n);
      }
      return false;
    };
    for (std::size_t v = 0; v < c_.locals.size(); ++v) {
      if (c_.locals[v].variable < 0 || c_.locals[v].root != static_cast<int>(v)) continue;
      for (int writer : writers_[v]) {
        for (int reader : readers_[v]) {
          if (reader == writer || reaches(reader, writer)) continue;
          connect(ActorId(reader), {ActorId(writer)});
          next[static_cast<std::size_t>(reader)].insert(writer);
        }
      }
    }
  }

  void start_and_done() {
    for (std::size_t a = 0; a < plan_.actors.size(); ++a)
      if (plan_.actors[a].inputs.empty()) connect(session_actor, {ActorId(a)});
    auto next = followers();
    for (std::size_t a = 0; a < plan_.actors.size(); ++a)
      if (next[a].empty()) connect(ActorId(a), {session_actor});
  }

  void finish_blocks() {
    for (std::size_t d = 0; d < own_.size(); ++d) {
      plan_.blocks[d * 3 + 1].bytes = c_.scratch_bytes[d];
      for (std::size_t k = 0; k < 3; ++k) plan_.blocks[d * 3 + k].bytes = round_up(plan_.blocks[d * 3 + k].bytes, 64);
    }
  }

  // Of what all ranks must agree on: no paths, no source lines.
  std::uint64_t program_hash() const {
    Graph bare = c_.graph;
    for (Node& node : bare.nodes) node.path.clear(), node.where.clear();
    Hash hash;
    hash.add(print(bare)).add(c_.options.costs.print());
    for (int slots : c_.slots) hash.add(static_cast<std::uint64_t>(slots));
    for (int turn : c_.turn) hash.add(static_cast<std::uint64_t>(turn + 1));
    hash.add(static_cast<std::uint64_t>(c_.options.team));  // results depend on it
    return hash.value();
  }

  Compilation& c_;
  Plan& plan_;
  std::vector<DeviceName> own_;
  std::vector<bool> crosses_;
  Communicators communicators_;
  std::vector<ActorId> actor_of_;                   // by local segment
  std::vector<std::pair<int, int>> fetch_;          // actor, local value
  std::vector<std::set<int>> readers_, writers_;    // by root: actors
  std::map<int, ActorId> state_;                    // by device
  std::map<std::pair<int, int>, BlockId> staging_;  // by device and communicator
  std::map<int, Operand> homes_;                    // by root
};

}  // namespace

void emit(Compilation& c) { Emitter(c).run(); }

}  // namespace karez::passes
