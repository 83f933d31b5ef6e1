// Tests of emit: the plan's registers, collectives, hashes and bytes, on meshes of one to twelve devices.
#include "karez/passes/lowering/emit.h"

#include <gtest/gtest.h>

#include <set>

#include "karez/passes/compile.h"
#include "karez/passes/lowering/emit_collective.h"
#include "karez/passes/lowering/memory.h"
#include "karez/passes/pipeline.h"
#include "karez/passes/sharding/layout_rules.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

constexpr const char* meshes[] = {"", "data=2", "model=3", "data=4", "model=4", "data=2,model=2", "a=2,b=2,c=2"};

// A step with layouts that need several kinds of transfer: the batch on the first axis, weights on the last.
const Compilation& compiled(const char* mesh) {
  static std::map<std::string, Compilation> known;
  auto found = known.find(mesh);
  if (found != known.end()) return found->second;
  Graph graph = testing::mlp_step(Mesh::parse(mesh), {6, 9, 5}, 10);
  if (!graph.meshes[0].axes.empty()) {
    Layout x = broadcast_layout(graph.meshes[0]);
    x[0] = S(0);
    graph.value(graph.nodes[NodeId(0)].outputs[0]).layout = x;
    LayoutRule rules[] = {{"fc1.weight", {graph.meshes[0].axes.back().name}}};
    apply_rules(graph, rules);
  }
  Compilation c = testing::compilation(std::move(graph));
  c.options.costs.link = {1e-12, 1e-12};  // messages cost nothing: bytes decide
  compile(c);
  return known.emplace(mesh, std::move(c)).first->second;
}

TEST(Emit, PlansVerifyAndReadBackOnEveryMesh) {
  std::set<std::string> kinds;
  for (const char* mesh : meshes) {
    const Compilation& c = compiled(mesh);
    verify(c.plan);
    EXPECT_EQ(parse_plan(print(c.plan)), c.plan) << mesh;
    for (const Transfer& transfer : c.plan.transfers) kinds.insert(transfer.kind);
    EXPECT_EQ(c.plan.transfers.empty(), std::string(mesh).empty());
  }
  EXPECT_GE(kinds.size(), 2u);
}

// The actors whose calls, collective or bound operands name the register or its variable block.
std::set<int> users_of(const Plan& plan, RegisterId reg) {
  std::set<int> users;
  for (ActorId a : plan.actors.ids()) {
    auto see = [&](const Operand& o) {
      bool same_variable =
          o.block.valid() && plan.block(o.block).kind == BlockKind::variable && o.block == plan.reg(reg).block;
      if (o.reg == reg || same_variable) users.insert(a.index);
    };
    const Actor& actor = plan.actors[a];
    for (const Call& call : actor.calls) {
      for (const Operand& o : call.in) see(o);
      for (const Operand& o : call.out) see(o);
    }
    if (actor.collective) see(actor.collective->in), see(actor.collective->out);
    for (const Operand& o : actor.bound) see(o);
  }
  return users;
}

TEST(Emit, RegistersHaveOnlyTheirReadersAsConsumers) {
  for (const char* mesh : meshes) {
    const Compilation& c = compiled(mesh);
    const Plan& plan = c.plan;
    for (RegisterId r : plan.registers.ids()) {
      const Register& reg = plan.registers[r];
      if (reg.bytes == 0) continue;
      std::set<int> wanted = users_of(plan, r), named;
      for (ActorId a : reg.consumers)
        if (a != session_actor) named.insert(a.index);
      if (reg.producer != session_actor && plan.actor(reg.producer).body != BodyKind::state)
        named.insert(reg.producer.index);
      EXPECT_EQ(named, wanted) << mesh << " r" << r << "\n" << print(plan);
    }
  }
}

TEST(Emit, EveryActorIsStartedAndTheLastOnesEndTheLaunch) {
  for (const char* mesh : meshes) {
    const Compilation& c = compiled(mesh);
    int starts = 0, dones = 0;
    for (const Register& reg : c.plan.registers) {
      bool start = reg.producer == session_actor,
           done = std::find(reg.consumers.begin(), reg.consumers.end(), session_actor) != reg.consumers.end();
      starts += start, dones += done;
      if (start) {
        ASSERT_EQ(reg.consumers.size(), 1u);
        EXPECT_EQ(c.plan.actor(reg.consumers[0]).inputs.size(), 1u) << "an actor that waits for others needs no start";
      }
    }
    EXPECT_GT(starts, 0);
    EXPECT_GT(dones, 0);
    for (const Actor& actor : c.plan.actors) EXPECT_FALSE(actor.inputs.empty() || actor.outputs.empty()) << actor.name;
  }
}

TEST(Emit, TheProgramHashDoesNotDependOnPathsAndLines) {
  auto hash = [](auto change, CompileOptions options = {}) {
    Graph graph = testing::mlp_step(Mesh::parse("data=2"), {6, 9, 5}, 10);
    change(graph);
    Compilation c = testing::compilation(std::move(graph));
    c.options = options;
    compile(c);
    return c.plan.program_hash;
  };
  auto nothing = [](Graph&) {};
  std::uint64_t plain = hash(nothing);
  EXPECT_EQ(hash(nothing), plain);
  EXPECT_EQ(hash([](Graph& g) {
              for (Node& node : g.nodes) node.where = "/other/place.cc:99", node.path += ".x";
            }),
            plain);
  EXPECT_NE(hash([](Graph& g) { g.outputs[0].name = "cost"; }), plain);
  EXPECT_NE(hash([](Graph& g) { g.variables[0].stored = Layout{S(0)}; }), plain);
  CompileOptions slots, team, costs;
  slots.slots = 1, team.team = 2, costs.costs.memory_bytes *= 2;
  auto read_ahead = [](Graph& g) {
    for (Node& node : g.nodes)
      if (node.op->name == "input") node.attrs.set("ahead", true);
  };
  EXPECT_NE(hash(read_ahead), plain);
  EXPECT_NE(hash(read_ahead, slots), hash(read_ahead));
  EXPECT_NE(hash(nothing, team), plain) << "results depend on the team's size";
  EXPECT_NE(hash(nothing, costs), plain);
  const Compilation& other = compiled("data=2");
  EXPECT_NE(other.plan.program_hash, plain);
}

TEST(Emit, MembersOfACommunicatorHaveTheSameTurns) {
  for (const char* mesh : meshes) {
    const Compilation& c = compiled(mesh);
    // By communicator and turn: the collective of each member.
    std::map<std::pair<int, int>, std::vector<const Collective*>> turns;
    for (const Actor& actor : c.plan.actors)
      if (actor.collective)
        turns[{actor.collective->communicator.index, actor.collective->turns[0]}].push_back(&*actor.collective);
    for (const auto& [turn, members] : turns) {
      const Communicator& group = c.plan.communicators[CommunicatorId(turn.first)];
      EXPECT_EQ(members.size(), group.members.size());
      EXPECT_LT(turn.second, static_cast<int>(group.sequence.size()));
      for (const Collective* one : members)
        EXPECT_EQ(one->kind + one->reduce + one->where, members[0]->kind + members[0]->reduce + members[0]->where);
    }
  }
}

// Bytes that a member sends by its pieces; an all_reduce sends its flat memory twice, except the member's own range. On
// a ring a member first sends its own part and forwards every part that it receives except the last, which is that of
// the next member.
std::int64_t sent_by(const Plan& plan, const Collective& c, int member) {
  auto members = static_cast<std::int64_t>(plan.communicators[c.communicator].members.size());
  std::int64_t size = size_of(c.in.view.dtype), total = 0;
  const bool ring = c.algorithm == "ring";
  const int next = (member + 1) % static_cast<int>(members);
  if (ring && c.kind == "all_gather") {
    for (const PeerBox& piece : c.receives)
      if (piece.peer != next) total += count_of(piece.size) * size;
    return total;
  }
  if (ring && c.kind == "all_reduce") {
    for (int range = 0; range < static_cast<int>(members); ++range) {
      const std::int64_t bytes = part_of({0, c.in.view.count()}, static_cast<int>(members), range).size() * size;
      total += (range == member ? 0 : bytes) +
               (range == next ? 0 : bytes);  // when it is reduced, and when the result is distributed
    }
    return total;
  }
  if (c.kind == "all_reduce") {
    std::int64_t count = c.in.view.count(), own = part_of({0, count}, static_cast<int>(members), member).size();
    return (count - own + (members - 1) * own) * size;
  }
  for (const PeerBox& piece : c.sends)
    if (piece.peer != member) total += count_of(piece.size) * size;
  return total;
}

TEST(Emit, PlannedBytesAreTheSumOfThePieces) {
  for (const char* mesh : meshes) {
    const Compilation& c = compiled(mesh);
    std::int64_t planned = 0, sent = 0;
    for (const Transfer& transfer : c.plan.transfers) planned += transfer.bytes;
    for (const Actor& actor : c.plan.actors) {
      if (!actor.collective) continue;
      const PlanDevice& device = c.plan.devices[c.plan.stream(actor.stream).device];
      const auto& members = c.plan.communicators[actor.collective->communicator].members;
      sent += sent_by(c.plan, *actor.collective,
                      static_cast<int>(std::find(members.begin(), members.end(), device) - members.begin()));
    }
    EXPECT_EQ(planned, sent) << mesh;
  }
}

TEST(Emit, SentAndReceivedPiecesMatchAndCoverTheResult) {
  for (const char* mesh : meshes) {
    const Compilation& c = compiled(mesh);
    std::map<std::pair<int, int>, std::map<int, const Collective*>> by_turn;
    for (const Actor& actor : c.plan.actors) {
      if (!actor.collective) continue;
      const auto& members = c.plan.communicators[actor.collective->communicator].members;
      const PlanDevice& device = c.plan.devices[c.plan.stream(actor.stream).device];
      int member = static_cast<int>(std::find(members.begin(), members.end(), device) - members.begin());
      by_turn[{actor.collective->communicator.index, actor.collective->turns[0]}][member] = &*actor.collective;
    }
    for (const auto& [turn, members] : by_turn)
      for (const auto& [m, mine] : members) {
        if (mine->kind == "all_reduce") continue;
        std::int64_t arrives = 0;
        for (const auto& [k, theirs] : members) {
          EXPECT_EQ(mine->sends[static_cast<std::size_t>(k)].size, theirs->receives[static_cast<std::size_t>(m)].size);
          arrives += count_of(mine->receives[static_cast<std::size_t>(k)].size);
        }
        EXPECT_EQ(arrives, mine->out.view.count() *
                               (mine->kind == "reduce_scatter" ? static_cast<std::int64_t>(members.size()) : 1));
      }
  }
}

// The staging that a collective requires if none of its pieces is contiguous: see the formulas in its documentation.
std::int64_t staging_wanted(const Communicator& group, const Collective& c, int member) {
  auto r64 = [](std::int64_t bytes) { return round_up(bytes, 64); };
  auto n = static_cast<std::int64_t>(group.members.size());
  if (n == 1) return 0;
  std::int64_t size = size_of(c.in.view.dtype), chunk = std::max(group.chunk / size, std::int64_t{1}) * size;
  std::int64_t in = c.in.view.count() * size, out = c.out.view.count() * size;
  auto sum = [&](const std::vector<PeerBox>& pieces, bool own) {
    std::int64_t total = 0;
    for (const PeerBox& p : pieces)
      if (own || p.peer != member) total += r64(count_of(p.size) * size);
    return total;
  };
  std::int64_t largest = 0;
  for (const PeerBox& p : c.sends) largest = std::max(largest, r64(count_of(p.size) * size));
  bool direct = c.algorithm == "direct";
  if (c.kind == "all_reduce" && c.algorithm == "flat") return (n - 1) * r64(in);
  if (c.kind == "all_reduce") return direct ? (n - 1) * r64(std::min(chunk, ceil_div(c.in.view.count(), n) * size)) : 0;
  if (c.kind == "reduce_scatter")
    return sum(c.sends, true) + r64(out) + (direct ? (n - 1) * r64(std::min(chunk, out)) : 2 * largest);
  if (c.kind == "all_gather") return r64(in) + sum(c.receives, false);
  return sum(c.sends, false) + sum(c.receives, false);
}

// A program with one transfer, of which the box nodes are added by hand.
Compilation one_transfer(const Mesh& mesh, std::string move, Sbp from, Sbp to, Shape shape, int rank = 0,
                         const CostTable& costs = {}) {
  Graph graph;
  graph.meshes = {mesh};
  Builder b(graph, table());
  ValueId x = build::input(b, "x", {DType::f32, std::move(shape)});
  graph.value(x).layout = Layout{B()};
  if (!from.is_broadcast()) {
    x = b.one("box", {x},
              Attrs()
                  .set("axis", 0)
                  .set("move", from.is_partial() ? "to_partial" : "slice")
                  .set("from", "B")
                  .set("to", print(from)));
    graph.value(x).layout = Layout{from};
  }
  ValueId y = b.one("box", {x}, Attrs().set("axis", 0).set("move", move).set("from", print(from)).set("to", print(to)));
  graph.value(y).layout = Layout{to};
  ValueId z = build::exp(b, y);
  graph.value(z).layout = Layout{to};
  graph.outputs = {{"z", z}};
  Compilation c = testing::compilation(std::move(graph));
  c.options.rank = rank;
  c.options.costs = costs;
  for (const DeviceName& device : mesh.devices) c.options.world = std::max(c.options.world, device.rank + 1);
  std::string_view skipped[] = {"canonicalise", "shard", "box"};
  for (const Pass& pass : pipeline())
    if (std::find(std::begin(skipped), std::end(skipped), pass.name) == std::end(skipped)) pass.run(c);
  return c;
}

TEST(Emit, StagingIsAtLeastThatOfTheCollectiveAndAtMostTwiceThat) {
  struct Case {
    const char* move;
    Sbp from, to;
  };
  int checked = 0;
  for (Case k : {Case{"all_gather", S(1), B()},
                 {"all_to_all", S(0), S(1)},
                 {"reduce_scatter", P(), S(1)},
                 {"all_reduce", P(), B()}})
    for (const char* mesh : {"d=2", "d=3", "d=9"}) {  // nine members use the ring
      Compilation c = one_transfer(Mesh::parse(mesh), k.move, k.from, k.to, {10, 11});
      for (const Actor& actor : c.plan.actors) {
        if (!actor.collective) continue;
        const Communicator& group = c.plan.communicators[CommunicatorId(0)];
        int member = c.plan.stream(actor.stream).device.index;
        std::int64_t wanted = staging_wanted(group, *actor.collective, member),
                     given = actor.collective->staging ? actor.collective->staging->view.bytes() : 0;
        EXPECT_GE(given, wanted) << k.move << " " << mesh;
        EXPECT_LE(given, 2 * std::max<std::int64_t>(wanted, 64 * 9)) << k.move << " " << mesh;
        ++checked;
      }
    }
  EXPECT_EQ(checked, 4 * (2 + 3 + 9));
}

// A world of two ranks with half of the devices each: every rank compiles separately and plans the bytes of its own
// devices. Their sum is the total of the step.
TEST(Emit, PlannedBytesAreThoseOfOneRankAndAddUpToTheTotal) {
  struct Case {
    const char* mesh;
    Move move;
    Sbp from, to;
    Shape shape;
  };
  for (const Case& k :
       {Case{"d=4", Move::all_gather, S(1), B(), {6, 7}},
        {"d=4", Move::all_to_all, S(0), S(1), {5, 7}},
        {"d=4", Move::reduce_scatter, P(), S(0), {6, 3}},
        {"d=4", Move::all_reduce, P(Reduce::max), B(), {5, 3}},
        {"d=12", Move::all_gather, S(0), B(), {17, 2}},
        {"d=12", Move::all_reduce, P(), B(), {5, 7}},
        {"d=12", Move::all_reduce, P(), B(), {5, 3}},           // parts of 2 and 1: the ranks send different amounts
        {"d=12", Move::reduce_scatter, P(), S(0), {17, 2}}}) {  // twelve members use the ring
    Mesh mesh = Mesh::parse(k.mesh);
    const int per_rank = mesh.size() / 2;
    for (int p = 0; p < mesh.size(); ++p) mesh.devices[static_cast<std::size_t>(p)] = {p / per_rank, p % per_rank};
    std::int64_t total = 0;
    for (int rank = 0; rank < 2; ++rank) {
      Compilation c = one_transfer(mesh, std::string(name_of(k.move)), k.from, k.to, k.shape, rank);
      ASSERT_EQ(c.plan.transfers.size(), 1u) << print(c.plan);
      std::int64_t sent = 0;
      for (const Actor& actor : c.plan.actors) {
        if (!actor.collective || actor.collective->kind != name_of(k.move)) continue;
        const PlanDevice& device = c.plan.devices[c.plan.stream(actor.stream).device];
        EXPECT_EQ(device.rank, rank);
        const auto& members = c.plan.communicators[actor.collective->communicator].members;
        sent += sent_by(c.plan, *actor.collective,
                        static_cast<int>(std::find(members.begin(), members.end(), device) - members.begin()));
      }
      EXPECT_EQ(c.plan.transfers[0].bytes, sent) << k.mesh << " " << name_of(k.move) << " on rank " << rank;
      total += c.plan.transfers[0].bytes;
    }
    // Each member receives all elements of all other members: computed here only from sizes.
    const std::int64_t n = mesh.size(), all = 4 * count_of(k.shape);
    const std::int64_t stays = 4 * (2 * 2 + 1 * 2 + 1 * 2 + 1 * 1);  // rows split into 2 1 1 1, columns into 2 2 2 1
    const std::int64_t whole = k.move == Move::all_to_all   ? all - stays
                               : k.move == Move::all_reduce ? 2 * (n - 1) * all
                                                            : (n - 1) * all;
    EXPECT_EQ(total, whole) << k.mesh << " " << name_of(k.move);
  }
}

// A worker is blocked while an act of a compute stream runs; an otherwise idle worker continues transfers meanwhile.
TEST(Emit, TransfersBetweenRanksHaveASeparateWorkerIfTheyAreLong) {
  auto workers = [](int ranks, double beta) {
    Mesh mesh = Mesh::parse("d=4");
    for (int p = 0; p < 4; ++p) mesh.devices[static_cast<std::size_t>(p)] = {p * ranks / 4, p % (4 / ranks)};
    CostTable costs;
    costs.link = {1e-5, beta};
    std::vector<int> out;
    for (const Stream& stream : one_transfer(mesh, "all_reduce", P(), B(), {100, 100}, 0, costs).plan.streams)
      out.push_back(stream.worker);
    return out;
  };
  const std::vector<int> shared{0, 0, 0, 0, 0}, apart{0, 1, 0, 1, 0};  // compute and comm of both devices, host
  EXPECT_EQ(workers(2, 1e-7), apart) << "6 ms";
  EXPECT_EQ(workers(2, 1e-10), shared) << "a few microseconds";
  EXPECT_EQ(workers(1, 1e-7), std::vector<int>(9, 0)) << "within one rank the worker copies the data itself";
}

TEST(Emit, AReaderOfTheOldVersionActsBeforeTheWriter) {  // no data path orders the output's fetch and the update
  Graph graph;
  Builder b(graph, table());
  ValueId w = testing::parameter(b, "w", {DType::f32, {4}}), m = testing::parameter(b, "m", {DType::f32, {4}});
  auto next = build::sgd(b, w, m, build::input(b, "g", {DType::f32, {4}}), build::input(b, "lr", {DType::f32, {}}),
                         {.momentum = 0.9});
  graph.variables[0].updated = next.w, graph.variables[1].updated = next.m;
  graph.outputs = {{"old", w}};
  Compilation c = testing::compilation(std::move(graph));
  compile(c);
  int fetch = -1, update = -1;
  for (ActorId a : c.plan.actors.ids()) {
    if (c.plan.actors[a].body == BodyKind::fetch) fetch = a.index;
    if (c.plan.actors[a].body == BodyKind::compute) update = a.index;
  }
  bool ordered = false;
  for (const Register& reg : c.plan.registers)
    ordered |= reg.bytes == 0 && reg.producer == ActorId(fetch) &&
               std::find(reg.consumers.begin(), reg.consumers.end(), ActorId(update)) != reg.consumers.end();
  EXPECT_TRUE(ordered) << print(c.plan);
}

TEST(Emit, EachDeviceReadsItsPartOfAnArrayAndFetchesItsPartOfAnOutput) {
  Graph graph;
  graph.meshes = {Mesh::parse("data=2")};
  Builder b(graph, table());
  ValueId x = build::array_input(b, "x", {DType::f32, {5, 3}}, {S(0)});
  graph.outputs = {{"rows", build::exp(b, x), Layout{S(0)}}, {"sum", build::reduce_sum(b, x, {0, 1})}};
  Compilation c = testing::compilation(std::move(graph));
  compile(c);
  std::vector<std::string> found;
  for (const Actor& actor : c.plan.actors) {
    if (actor.binding.empty()) continue;
    const Stream& stream = c.plan.stream(actor.stream);
    found.push_back(cat(actor.binding, " ", stream.name, " ", stream.device, " ", actor.bound[0].view,
                        actor.slices.empty() ? "" : actor.slices[0].print()));
  }
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found,
            (std::vector<std::string>{"rows compute 0 f32[3, 3]{begin=[0, 0], shape=[5, 3]}",
                                      "rows compute 1 f32[2, 3]{begin=[3, 0], shape=[5, 3]}", "sum compute 0 f32[]",
                                      "sum compute 1 f32[]", "x compute 0 f32[3, 3]{begin=[0, 0], shape=[5, 3]}",
                                      "x compute 1 f32[2, 3]{begin=[3, 0], shape=[5, 3]}"}));
  EXPECT_EQ(parse_plan(print(c.plan)), c.plan);
}

TEST(Emit, AnOldVersionFetchedUnderTwoNamesIsFetchedTwiceBeforeItIsOverwritten) {
  Graph graph;
  Builder b(graph, table());
  ValueId w = testing::parameter(b, "w", {DType::f32, {4}}), m = testing::parameter(b, "m", {DType::f32, {4}});
  auto next = build::sgd(b, w, m, build::input(b, "g", {DType::f32, {4}}), build::input(b, "lr", {DType::f32, {}}),
                         {.momentum = 0.9});
  graph.variables[0].updated = next.w, graph.variables[1].updated = next.m;
  graph.outputs = {{"one", w}, {"other", w}, {"flat", build::reshape(b, w, {2, 2})}};
  Compilation c = testing::compilation(std::move(graph));
  compile(c);
  const Plan& plan = c.plan;
  int writer = -1, fetches = 0;
  for (ActorId a : plan.actors.ids())
    for (const Call& call : plan.actors[a].calls)
      if (call.kernel == "any.sgd") writer = a.index;
  ASSERT_GE(writer, 0);
  for (ActorId a : plan.actors.ids()) {
    if (plan.actors[a].body != BodyKind::fetch) continue;
    ++fetches;
    bool before = false;
    for (const Register& reg : plan.registers)
      before |= reg.producer == a &&
                std::find(reg.consumers.begin(), reg.consumers.end(), ActorId(writer)) != reg.consumers.end();
    EXPECT_TRUE(before) << plan.actors[a].name;
  }
  EXPECT_EQ(fetches, 3);
}

TEST(Emit, RegistersBetweenActorsHaveTheirAssignedSlots) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {256, 256, 16}, 4096));
  run_passes(c, {"canonicalise", "shard", "box", "order", "segment", "slots", "layout"});
  for (ValueId v : c.graph.values.ids()) c.slot_assignment.slots[v] = 2 + v.index % 3;
  run_passes(c, {"localise", "hoist", "fuse", "in_place", "emit"});
  std::map<int, int> found;  // registers by slots
  int collectives = 0;
  for (const Register& reg : c.plan.registers) {
    if (reg.bytes == 0 || reg.producer == session_actor || c.plan.actor(reg.producer).body == BodyKind::state) continue;
    collectives += c.plan.actor(reg.producer).body == BodyKind::collective;
    ++found[reg.slots];
    EXPECT_EQ(reg.stride, round_up(reg.bytes, 64));
  }
  EXPECT_GT(collectives, 0);
  EXPECT_EQ(found.size(), 3u) << "two, three and four";
  EXPECT_EQ(found.count(1), 0u);
}

// The forward pass reads a weight, and its update depends on results of the forward pass.
TEST(Emit, NoRegisterWithoutBytesIsAddedIfDataDeterminesTheOrder) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {256, 256, 16}, 4096));
  c.options.off = {"anchor"};  // it adds edges without data
  compile(c);
  int updates = 0, transfers = 0, control = 0;
  for (const Actor& actor : c.plan.actors) {
    transfers += actor.collective.has_value();
    for (const Call& call : actor.calls) updates += call.kernel == "any.sgd";
  }
  for (const Register& reg : c.plan.registers) {
    bool of_session = reg.producer == session_actor || reg.consumers[0] == session_actor;
    control += reg.bytes == 0 && !of_session;
  }
  EXPECT_GT(updates, 0);
  EXPECT_GT(transfers, 0) << "otherwise the forward pass and the update are one actor";
  EXPECT_EQ(control, 0) << print(c.plan);
}

}  // namespace
}  // namespace karez::passes
