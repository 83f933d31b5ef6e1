// Tests of the memory pass: values that are live at the same time share no byte, in random programs and in plans that
// are built by hand.
#include "karez/passes/lowering/memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "karez/base/test_golden.h"
#include "karez/passes/compile.h"
#include "karez/passes/lowering/cross_actor_values.h"
#include "karez/passes/test_programs.h"
#include "karez/plan/live_bytes.h"
#include "karez/plan/test_plan_builder.h"

namespace karez::passes {
namespace {

using testing::table;

// A catalog whose matmul needs workspace.
class LargeWorkspaceCatalog : public testing::AnyCatalog {
 public:
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    auto choice = AnyCatalog::find(call);
    if (choice && call.op == "matmul") choice->workspace = 100 + call.out[0].bytes() / 3;
    return choice;
  }
};

Graph random_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Graph graph;
  const char* meshes[] = {"", "data=2", "data=3", "data=2,model=2"};
  graph.meshes = {Mesh::parse(meshes[random() % 4])};
  Builder b(graph, table());
  std::vector<ValueId> pool = {build::input(b, "x", {DType::f32, {7, 5}}), build::input(b, "y", {DType::f32, {7, 5}})};
  pool.push_back(testing::parameter(b, "w", {DType::f32, {7, 5}}));
  auto any = [&] { return pool[static_cast<std::size_t>(random() % pool.size())]; };
  for (int step = 0; step < 20; ++step) {
    ValueId x = any(), y = any();
    switch (random() % 8) {
      case 0: pool.push_back(build::matmul(b, build::matmul(b, x, y, {.transpose_b = true}), any())); break;
      case 1: pool.push_back(build::broadcast(b, build::reduce_sum(b, x, {0}), {7, 5}, {1})); break;
      case 2: pool.push_back(build::reshape(b, build::transpose(b, x, {1, 0}), {7, 5})); break;
      case 3: pool.push_back(build::pad(b, build::slice(b, x, {1, 0}, {4, 5}), {1, 0}, {2, 0})); break;
      case 4: pool.push_back(build::tanh(b, x)); break;
      default: pool.push_back(random() % 2 ? build::add(b, x, y) : build::mul(b, x, y)); break;
    }
  }
  graph.variables[0].updated = any();
  graph.outputs = {{"a", any()}, {"b", pool.back()}};
  return graph;
}

// An access of a call to the bytes of an operand.
struct OperandAccess {
  const Operand *bare, *packed;
  std::int64_t begin, end;
  bool writes;
};

// In the bare plan no two values share memory. Every read in the packed plan must find the value that the same actor
// wrote at this address last. Returns a description of the first read or write that breaks this rule, or "" if there is
// none.
std::string find_overwrite(const Actor& bare, const Actor& packed, BlockId arena) {
  std::map<std::int64_t, std::int64_t> holds;  // the byte of the bare plan, by byte / 4 of the packed plan
  for (std::size_t i = 0; i < bare.calls.size(); ++i) {
    std::vector<OperandAccess> accesses;
    auto add = [&](const Operand& bare_operand, const Operand& packed_operand, bool writes) {
      if (bare_operand.block.valid() && packed_operand.block == arena)
        accesses.push_back({&bare_operand, &packed_operand, packed_operand.offset,
                            packed_operand.offset + packed_operand.view.bytes(), writes});
    };
    for (std::size_t k = 0; k < bare.calls[i].in.size(); ++k) add(bare.calls[i].in[k], packed.calls[i].in[k], false);
    for (std::size_t k = 0; k < bare.calls[i].out.size(); ++k) add(bare.calls[i].out[k], packed.calls[i].out[k], true);
    if (bare.calls[i].workspace) add(*bare.calls[i].workspace, *packed.calls[i].workspace, true);
    for (bool writes : {false, true})
      for (const OperandAccess& access : accesses) {
        if (access.writes != writes) continue;
        for (std::int64_t byte = access.begin; byte < access.end; byte += 4) {
          const std::int64_t expected_byte = access.bare->offset + byte - access.begin;
          if (writes) holds[byte / 4] = expected_byte;
          else if (holds.count(byte / 4) == 0 || holds[byte / 4] != expected_byte)
            return cat(packed.name, " call ", i, " reads byte ", byte, " of another value");
        }
        for (const OperandAccess& read_access : accesses)  // a call may overwrite its own operand only in place
          if (writes && !read_access.writes && access.begin < read_access.end && read_access.begin < access.end &&
              access.begin - access.bare->offset != read_access.begin - read_access.bare->offset)
            return cat(packed.name, " call ", i, " overwrites its own operand");
      }
  }
  return "";
}

TEST(Memory, ValuesThatAreLiveAtTheSameTimeDoNotOverlap) {
  const char* given_seed = std::getenv("KAREZ_SEED");
  std::uint64_t seed = given_seed ? std::strtoull(given_seed, nullptr, 10) : 31;
  RecordProperty("seed", std::to_string(seed));
  LargeWorkspaceCatalog catalog;
  double peak_sum = 0, live_sum = 0, unshared_sum = 0;
  for (std::uint64_t round = 0; round < 30; ++round) {
    Compilation c = testing::compilation(random_program(seed + round)),
                bare = testing::compilation(random_program(seed + round));
    c.catalog = bare.catalog = &catalog;
    bare.options.off = {"memory"};
    compile(c);
    compile(bare);
    ASSERT_EQ(c.plan.actors.size(), bare.plan.actors.size());
    for (ActorId a : c.plan.actors.ids()) {
      const DeviceId device = c.plan.stream(c.plan.actor(a).stream).device;
      BlockId arena;
      for (BlockId b : c.plan.blocks.ids())
        if (c.plan.blocks[b].kind == BlockKind::scratch && c.plan.blocks[b].device == device) arena = b;
      EXPECT_EQ(find_overwrite(bare.plan.actor(a), c.plan.actor(a), arena), "") << "KAREZ_SEED=" << seed + round;
    }
    const auto peak = plan::arena_bytes(c.plan), live = plan::live_bytes(c.plan),
               unshared = plan::arena_bytes(bare.plan);
    EXPECT_EQ(live, plan::live_bytes(bare.plan)) << "the bound depends on values, not on their offsets";
    for (DeviceId d : c.plan.devices.ids()) {
      ASSERT_GE(peak[d], live[d]);
      peak_sum += static_cast<double>(peak[d]), live_sum += static_cast<double>(live[d]),
          unshared_sum += static_cast<double>(unshared[d]);
    }
  }
  std::printf("bytes / live bytes: %.3f; %.3f without sharing\n", peak_sum / live_sum, unshared_sum / live_sum);
  EXPECT_LT(peak_sum, unshared_sum * 0.75);
}

// Packing by clocks is used for very large plans; memory() verifies the result.
TEST(Memory, PackingByClocksAllowsNoSharingThatTokensForbid) {
  LargeWorkspaceCatalog catalog;
  double by_times = 0, by_pairs = 0, unshared_sum = 0;
  for (std::uint64_t round = 0; round < 40; ++round) {
    Compilation c = testing::compilation(random_program(700 + round));
    c.catalog = &catalog;
    c.options.off = {"memory"};
    compile(c);
    const Plan by_clocks_plan = memory(c.plan, {}, 0), by_pairs_plan = memory(c.plan);
    const auto clock_bytes = plan::arena_bytes(by_clocks_plan), pair_bytes = plan::arena_bytes(by_pairs_plan),
               unshared = plan::arena_bytes(c.plan), live = plan::live_bytes(c.plan);
    for (DeviceId d : c.plan.devices.ids()) {
      EXPECT_GE(clock_bytes[d], live[d]);
      by_times += static_cast<double>(clock_bytes[d]), by_pairs += static_cast<double>(pair_bytes[d]),
          unshared_sum += static_cast<double>(unshared[d]);
    }
  }
  std::printf("bytes by clocks / bytes by pairs: %.3f; %.3f without sharing\n", by_times / by_pairs,
              unshared_sum / by_pairs);
  EXPECT_LT(by_times, unshared_sum);
}

// A plan a -> b -> c -> d, where each edge is a register. `guard` orders a's next act after the act of `last`.
struct Chain {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b"), c = s.actor("c", 1), d = s.actor("d"),
          guard = s.actor("guard", 0, 0, BodyKind::state);
  RegisterId ab, bc, cd;
  Chain(int slots, ActorId last) {
    ab = s.edge(a, {b}, slots, 64), bc = s.edge(b, {c}, slots, 64), cd = s.edge(c, {d}, slots, 64);
    s.edge(guard, {a, last});
    s.start(guard);
    s.done(d);
    const View view(DType::f32, {16});
    s.call(a, "test.any", {}, {in_register(ab, view)});
    s.call(b, "test.any", {in_register(ab, view)}, {in_register(bc, view)});
    s.call(c, "test.any", {in_register(bc, view)}, {in_register(cd, view)});
    s.call(d, "test.any", {in_register(cd, view)}, {});
  }
};

TEST(Memory, RegistersShareBytesIfTokensSeparateThemInThisLaunchAndTheNext) {
  Chain closed(1, ActorId(3));
  Plan packed = memory(closed.s.plan);
  EXPECT_EQ(packed.reg(closed.ab).offset, packed.reg(closed.cd).offset)
      << "b, which reads ab, comes before c, which writes cd";
  EXPECT_NE(packed.reg(closed.ab).offset, packed.reg(closed.bc).offset) << "b reads ab while it writes bc";
  EXPECT_EQ(packed.blocks.size(), 1u);
  EXPECT_EQ(packed.blocks[BlockId(0)].bytes, 128);

  Chain open(1, ActorId(1));  // a's next act waits only for b: cd may still be read when ab is filled again
  packed = memory(open.s.plan);
  EXPECT_EQ(packed.blocks[BlockId(0)].bytes, 192);
  EXPECT_NE(packed.reg(open.ab).offset, packed.reg(open.cd).offset);
}

TEST(Memory, SlotsThatCanNeverBeUsedAreRemoved) {
  Chain closed(2, ActorId(3));
  Plan packed = memory(closed.s.plan);
  for (RegisterId r : {closed.ab, closed.bc, closed.cd}) EXPECT_EQ(packed.reg(r).slots, 1) << r;
  Chain open(2, ActorId(1));
  packed = memory(open.s.plan);
  EXPECT_EQ(packed.reg(open.ab).slots, 1) << "b comes before a's next act";
  EXPECT_EQ(packed.reg(open.bc).slots, 2) << "b may act while c reads its previous result";
  EXPECT_EQ(packed.reg(open.cd).slots, 2);
}

// Builds a chain whose actors act twice per launch.
Chain twice(ActorId last) {
  Chain chain(1, last);
  for (Register& r : chain.s.plan.registers) {
    if (r.producer == session_actor) chain.s.plan.actors[r.consumers[0]].inputs.back().period = 2;
    else if (r.consumers[0] == session_actor) chain.s.plan.actors[r.producer].outputs.back().period = 2;
  }
  return chain;
}

TEST(Memory, RegistersWithSeveralPiecesPerLaunchShareBytesIfTokensSeparateThePieces) {
  Chain closed = twice(ActorId(3));
  EXPECT_EQ(memory(closed.s.plan).blocks[BlockId(0)].bytes, 128);
  Chain open = twice(ActorId(1));
  EXPECT_EQ(memory(open.s.plan).blocks[BlockId(0)].bytes, 192);

  // x accumulates `sum` over two acts and z reads it in two acts, so x's second act comes before z's first, although xy
  // and yz carry single pieces.
  PlanBuilder s;
  ActorId x = s.actor("x"), y = s.actor("y", 1), z = s.actor("z", 2);
  RegisterId xy = s.edge(x, {y}, 1, 64), yz = s.edge(y, {z}, 1, 64), sum = s.edge(x, {z}, 1, 64, 2, 2);
  s.start(x, 2);
  s.done(z, 2);
  const View view(DType::f32, {16});
  s.call(x, "test.any", {}, {in_register(xy, view), in_register(sum, view)});
  s.call(y, "test.any", {in_register(xy, view)}, {});
  s.call(y, "test.any", {}, {in_register(yz, view)});
  s.call(z, "test.any", {in_register(yz, view), in_register(sum, view)}, {});
  EXPECT_EQ(memory(s.plan).blocks[BlockId(0)].bytes, 192);
  for (ActorId a : {x, z})
    for (auto* ports : {&s.plan.actors[a].inputs, &s.plan.actors[a].outputs})
      for (Port& port : *ports)
        if (port.reg == sum) port.period = 1;
  EXPECT_EQ(memory(s.plan).blocks[BlockId(0)].bytes, 128)
      << "with single pieces, x waits for z, and yz may use the bytes of xy";
}

TEST(Memory, BytesThatOnlySomeActsAccessAreInUseForTheWholeAct) {
  for (bool some : {false, true}) {
    Chain chain = twice(ActorId(3));
    const View view(DType::f32, {16});
    std::vector<Call>& calls = chain.s.plan.actors[chain.b].calls;
    calls.clear();
    chain.s.call(chain.b, "test.any", {in_register(chain.ab, view)}, {});
    for (int act : {0, 1}) {
      chain.s.call(chain.b, "test.any", {}, {in_register(chain.bc, view)});
      if (some) calls.back().acts = {act, act + 1};
    }
    const Plan packed = memory(chain.s.plan);
    EXPECT_EQ(packed.reg(chain.ab).offset == packed.reg(chain.bc).offset, !some);
  }
}

TEST(Memory, ActorsThatReadOneVersionInSeveralActsDoNotWaitForEachOther) {
  PlanBuilder s;  // x and z read p's register in two acts each
  ActorId p = s.actor("p"), x = s.actor("x", 1), y = s.actor("y", 2), z = s.actor("z", 3);
  RegisterId xy = s.edge(x, {y}, 1, 64), yz = s.edge(y, {z}, 1, 64);
  s.edge(p, {x, z}, 1, 0, 1, 2);
  s.start(p);
  s.done(z, 2);
  const View view(DType::f32, {16});
  s.call(x, "test.any", {}, {in_register(xy, view)});
  s.call(y, "test.any", {in_register(xy, view)}, {});
  s.call(y, "test.any", {}, {in_register(yz, view)});
  s.call(z, "test.any", {in_register(yz, view)}, {});
  EXPECT_EQ(memory(s.plan).blocks[BlockId(0)].bytes, 128);
}

// x and y have two turns each. Their staging may share bytes if each act of x comes before the same act of y and after
// the preceding act of y.
TEST(Memory, StagingSharesBytesIfTurnsAlternate) {
  auto bytes = [](std::vector<int> x_turns, std::vector<int> y_turns) {
    PlanBuilder s;
    s.plan.communicators.push_back({{s.plan.devices[DeviceId(0)]}, 1024, {"x", "y", "x", "y"}});
    ActorId begin = s.actor("begin"), end = s.actor("end");
    const View view(DType::f32, {16});
    const BlockId input_block = s.block(BlockKind::constant, 0, 64),
                  output_block = s.block(BlockKind::variable, 0, 64, "v", "f32[16;]");
    for (const auto& turns : {x_turns, y_turns}) {
      ActorId a = s.actor(cat("at ", turns[0]), 1, 0, BodyKind::collective);
      s.edge(begin, {a}, 2), s.edge(a, {end}, 2);
      Collective c;
      c.communicator = CommunicatorId(0);
      c.kind = CollectiveKind::all_gather;
      c.turns = turns;
      c.in = in_block(input_block, view), c.out = in_block(output_block, view),
      c.staging = in_block(s.block(BlockKind::scratch, 0, 64), view);
      s.plan.actors[a].collective = c;
    }
    s.start(begin, 2);
    s.done(end, 2);
    const Plan packed = memory(s.plan);
    return packed.block(packed.actor(ActorId(2)).collective->staging->block).bytes;
  };
  EXPECT_EQ(bytes({0, 2}, {1, 3}), 64);
  EXPECT_EQ(bytes({0, 1}, {2, 3}), 128);
  EXPECT_EQ(bytes({0, 3}, {1, 2}), 128);
}

TEST(Memory, RegistersOfLinksAndBlocksThatTwoActorsUseShareNoMemory) {
  Chain linked(1, ActorId(3));
  linked.s.plan.links.push_back({linked.ab, {0, 0, "cpu"}, false, 1024});
  EXPECT_EQ(memory(linked.s.plan).blocks[BlockId(0)].bytes, 192) << "cd can share bytes with no other register";

  Chain shared(1, ActorId(3));  // d reads scratch that c wrote
  BlockId scratch = shared.s.block(BlockKind::scratch, 0, 64);
  const View view(DType::f32, {16});
  shared.s.call(shared.c, "test.any", {}, {in_block(scratch, view)});
  shared.s.call(shared.d, "test.any", {in_block(scratch, view)}, {});
  shared.s.plan.actors[shared.c].stream = shared.s.plan.actors[shared.d].stream;
  Plan packed = memory(shared.s.plan);
  ASSERT_EQ(packed.blocks.size(), 2u) << "a block that two actors access is not packed";
  EXPECT_EQ(packed.actor(shared.d).calls[1].in[0].offset, 0);
  EXPECT_EQ(packed.actor(shared.d).calls[1].in[0].block, packed.actor(shared.c).calls[1].out[0].block);
}

TEST(Memory, ValuesInsideAnActorReuseTheBytesOfOperandsThatItHasRead) {
  Chain chain(1, ActorId(3));
  PlanBuilder& s = chain.s;
  BlockId scratch = s.block(BlockKind::scratch, 0, 128);
  const View view(DType::f32, {16});
  s.call(chain.b, "test.any", {}, {in_block(scratch, view)});
  s.call(chain.b, "test.any", {in_block(scratch, view)}, {in_block(scratch, view, 64)});
  Plan packed = memory(s.plan);
  EXPECT_EQ(packed.blocks[BlockId(0)].bytes, 192) << "bc and two values, of which the first one reuses the bytes of ab";
  EXPECT_EQ(packed.actor(chain.b).calls[1].out[0].offset, packed.reg(chain.ab).offset);
}

TEST(Memory, ValuesThatAnotherActorOrTheHostReadsAreNotInScratch) {
  Graph graph;
  graph.meshes = {Mesh::parse("data=2")};
  Builder b(graph, table());
  ValueId x = build::input(b, "x", {DType::f32, {4}});
  graph.value(x).layout = Layout{S(0)};
  ValueId output_exp = build::exp(b, x), inner_neg = build::neg(b, output_exp), output_tanh = build::tanh(b, inner_neg);
  for (ValueId v : {output_exp, inner_neg, output_tanh}) graph.value(v).layout = Layout{S(0)};
  graph.outputs = {{"kept", output_exp}, {"shown", output_tanh}};
  Compilation c = testing::compilation(std::move(graph));
  compile(c);
  auto crosses = crosses_actors(c.local, c.segmentation);
  std::string text;
  for (LocalId v : c.local.values.ids())
    if (c.local.values[v].root == v && c.local.values[v].device <= 0)
      text += cat(c.graph.node(c.graph.value(c.local.values[v].value).producer).op->name,
                  crosses[v] ? " crosses\n" : " stays\n");
  EXPECT_TRUE(golden(text, "input crosses\nexp crosses\nbox crosses\nneg stays\ntanh crosses\nbox crosses\n"));
}

}  // namespace
}  // namespace karez::passes
