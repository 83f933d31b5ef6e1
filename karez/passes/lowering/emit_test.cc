// Tests of the emit pass: the actors and registers of a plan, and the order of actors.
#include "karez/passes/lowering/emit.h"

#include <gtest/gtest.h>

#include <set>

#include "karez/passes/lowering/test_emit.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::compiled;
using testing::meshes;
using testing::table;

TEST(Emit, PlansAreValidAndCanBePrintedAndParsedOnEveryMesh) {
  std::set<std::string> kinds;
  for (const char* mesh : meshes) {
    const Compilation& c = compiled(mesh);
    verify(c.plan);
    EXPECT_EQ(parse_plan(print(c.plan)), c.plan) << mesh;
    for (const Transfer& transfer : c.plan.transfers) kinds.emplace(name_of(transfer.kind));
    EXPECT_EQ(c.plan.transfers.empty(), std::string(mesh).empty());
  }
  EXPECT_GE(kinds.size(), 2u);
}

// Returns the actors whose calls, collective or bound operands use the register, or its block if that is a variable.
std::set<int> users_of(const Plan& plan, RegisterId reg) {
  std::set<int> users;
  for (ActorId a : plan.actors.ids()) {
    auto add_user = [&](const Operand& o) {
      bool is_same_variable =
          o.block.valid() && plan.block(o.block).kind == BlockKind::variable && o.block == plan.reg(reg).block;
      if (o.reg == reg || is_same_variable) users.insert(a.index);
    };
    const Actor& actor = plan.actors[a];
    for (const Call& call : actor.calls) {
      for (const Operand& o : call.in) add_user(o);
      for (const Operand& o : call.out) add_user(o);
    }
    if (actor.collective) add_user(actor.collective->in), add_user(actor.collective->out);
    for (const Operand& o : actor.bound) add_user(o);
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
      std::set<int> expected = users_of(plan, r), ports;
      for (ActorId a : reg.consumers)
        if (a != session_actor) ports.insert(a.index);
      if (reg.producer != session_actor && plan.actor(reg.producer).body != BodyKind::state)
        ports.insert(reg.producer.index);
      EXPECT_EQ(ports, expected) << mesh << " r" << r << "\n" << print(plan);
    }
  }
}

TEST(Emit, EveryActorIsStartedAndTheLastActorsEndTheLaunch) {
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

// No data path orders the fetch of the output and the update.
TEST(Emit, AReaderOfTheOldVersionActsBeforeTheWriter) {
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
    found.push_back(cat(actor.binding, " ", stream.kind, " ", stream.device, " ", actor.bound[0].view,
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
    bool is_ordered = false;
    for (const Register& reg : plan.registers)
      is_ordered |= reg.producer == a &&
                    std::find(reg.consumers.begin(), reg.consumers.end(), ActorId(writer)) != reg.consumers.end();
    EXPECT_TRUE(is_ordered) << plan.actors[a].name;
  }
  EXPECT_EQ(fetches, 3);
}

TEST(Emit, RegistersBetweenActorsHaveTheirAssignedSlots) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {256, 256, 16}, 4096));
  run_passes(c, {"canonicalise", "shard", "box", "order", "segment", "slots", "layout"});
  for (ValueId v : c.graph.values.ids()) c.slot_assignment.slots[v] = 2 + v.index % 3;
  run_passes(c, {"localise", "hoist", "fuse", "in_place", "emit"});
  std::map<int, int> found;  // number of registers, by slots
  int collectives = 0;
  for (const Register& reg : c.plan.registers) {
    if (reg.bytes == 0 || reg.producer == session_actor || c.plan.actor(reg.producer).body == BodyKind::state) continue;
    collectives += c.plan.actor(reg.producer).body == BodyKind::collective;
    ++found[reg.slots];
    EXPECT_EQ(reg.stride, round_up(reg.bytes, 64));
  }
  EXPECT_GT(collectives, 0);
  EXPECT_EQ(found.size(), 3u) << "registers have two, three or four slots";
  EXPECT_EQ(found.count(1), 0u);
}

// The forward pass reads a weight, and its update depends on results of the forward pass.
TEST(Emit, NoRegisterWithoutBytesIsAddedIfDataDeterminesTheOrder) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {256, 256, 16}, 4096));
  c.options.off = {"anchor"};  // anchor adds edges without data
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
  EXPECT_GT(transfers, 0) << "without transfers, the forward pass and the update would be one actor";
  EXPECT_EQ(control, 0) << print(c.plan);
}

}  // namespace
}  // namespace karez::passes
