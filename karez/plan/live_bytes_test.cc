// Tests of the live-bytes bound and of the sharing verifier, on hand-written plans.
#include "karez/plan/live_bytes.h"

#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/plan/test_plan_builder.h"

namespace karez::plan {
namespace {

const View line(DType::f32, {16});

// A chain a -> b -> c -> d with one slot each, and an actor `guard` whose register makes the next act of `a` wait for
// `last_reader`.
struct Chain {
  PlanBuilder builder;
  ActorId a = builder.actor("a"), b = builder.actor("b"), c = builder.actor("c", 1), d = builder.actor("d"),
          guard = builder.actor("guard", 0, 0, BodyKind::state);
  RegisterId ab = builder.edge(a, {b}, 1, 64), bc = builder.edge(b, {c}, 1, 64), cd = builder.edge(c, {d}, 1, 64);
  explicit Chain(ActorId last_reader) {
    builder.edge(guard, {a, last_reader});
    builder.start(guard);
    builder.done(d);
    builder.call(a, "test.any", {}, {in_register(ab, line)});
    builder.call(b, "test.any", {in_register(ab, line)}, {in_register(bc, line)});
    builder.call(c, "test.any", {in_register(bc, line)}, {in_register(cd, line)});
    builder.call(d, "test.any", {in_register(cd, line)}, {});
  }
  void share(RegisterId reg, RegisterId owner) {
    builder.plan.registers[reg].block = builder.plan.registers[owner].block;
  }
  std::string error() const {
    try {
      verify(builder.plan);
    } catch (const Error& error) { return error.what(); }
    return "";
  }
};

TEST(LiveBytes, BytesAreLiveFromTheWriteToTheLastRead) {
  Chain chain(ActorId(3));
  EXPECT_EQ(live_bytes(chain.builder.plan)[DeviceId(0)], 128) << "two of the three registers are live at the same time";
  EXPECT_EQ(arena_bytes(chain.builder.plan)[DeviceId(0)], 192);
  chain.share(chain.cd, chain.ab);
  EXPECT_EQ(live_bytes(chain.builder.plan)[DeviceId(0)], 128) << "the bound must not depend on the placement";
  chain.builder.plan.registers[chain.bc].slots = 3;
  chain.builder.plan.blocks[chain.builder.plan.registers[chain.bc].block].bytes = 192;
  EXPECT_EQ(live_bytes(chain.builder.plan)[DeviceId(0)], 128) << "a launch fills only one of the three slots";
  EXPECT_EQ(run_ahead_bytes(chain.builder.plan)[DeviceId(0)], 128);
}

TEST(LiveBytes, OperandsAndStagingOfACollectiveAreLiveTogether) {
  PlanBuilder builder;
  const ActorId begin = builder.actor("begin"), end = builder.actor("end"),
                x = builder.actor("x", 1, 0, BodyKind::collective);
  const RegisterId in = builder.edge(begin, {x}, 1, 64), out = builder.edge(x, {end}, 1, 64);
  builder.call(begin, "test.any", {}, {in_register(in, line)});
  builder.call(end, "test.any", {in_register(out, line)}, {});
  Collective c;
  c.in = in_register(in, line), c.out = in_register(out, line);
  builder.plan.actors[x].collective = c;
  builder.start(begin);
  builder.done(end);
  EXPECT_EQ(live_bytes(builder.plan)[DeviceId(0)], 128);
  builder.plan.actors[x].collective->staging = in_block(builder.block(BlockKind::scratch, 0, 64), line);
  EXPECT_EQ(live_bytes(builder.plan)[DeviceId(0)], 192);
}

TEST(LiveBytes, AGapBetweenTwoValuesInTheSameBytesIsNotLive) {
  Chain chain(ActorId(3));
  BlockId x = chain.builder.block(BlockKind::scratch, 0, 64), y = chain.builder.block(BlockKind::scratch, 0, 128);
  chain.builder.call(chain.a, "test.any", {}, {in_block(x, line)});
  chain.builder.call(chain.a, "test.any", {in_block(x, line)}, {});
  chain.builder.call(chain.a, "test.any", {}, {in_block(y, View(DType::f32, {32}))});
  chain.builder.call(chain.a, "test.any", {}, {in_block(x, line)});
  EXPECT_EQ(live_bytes(chain.builder.plan)[DeviceId(0)], 64 + 128) << "ab and y are live while x is not";
}

TEST(Sharing, RegistersMayShareBytesIfTokensSeparateThem) {
  Chain chain(ActorId(3));
  chain.share(chain.cd, chain.ab);
  EXPECT_EQ(chain.error(), "");
  chain.builder.plan.registers[chain.ab].slots = 1;
  Chain unordered(ActorId(1));  // a's next act waits only for b, so d may still read cd
  unordered.share(unordered.cd, unordered.ab);
  EXPECT_NE(unordered.error().find(
                "register r0 and register r2 share bytes 0 to 64 of block b0, but no tokens keep them apart"),
            std::string::npos)
      << unordered.error();
  Chain neighbours(ActorId(3));
  neighbours.share(neighbours.bc, neighbours.ab);
  EXPECT_NE(neighbours.error().find("no tokens keep them apart"), std::string::npos) << neighbours.error();
}

TEST(Sharing, AGuardWithTwoSlotsDoesNotSeparateRegisters) {
  Chain chain(ActorId(3));
  chain.share(chain.cd, chain.ab);
  chain.builder.plan.registers[RegisterId(3)].slots = 2;
  EXPECT_NE(chain.error().find("no tokens keep them apart"), std::string::npos) << chain.error();
}

TEST(Sharing, PiecesOfOneLaunchAreSeparatedLikeLaunches) {
  auto twice = [](Chain& chain) {
    for (Register& r : chain.builder.plan.registers) {
      if (r.producer == session_actor) chain.builder.plan.actors[r.consumers[0]].inputs.back().period = 2;
      else if (r.consumers[0] == session_actor) chain.builder.plan.actors[r.producer].outputs.back().period = 2;
    }
  };
  Chain chain(ActorId(3)), unordered(ActorId(1));
  for (Chain* c : {&chain, &unordered}) twice(*c), c->share(c->cd, c->ab);
  EXPECT_EQ(chain.error(), "");
  EXPECT_NE(unordered.error().find("no tokens keep them apart"), std::string::npos) << unordered.error();
}

TEST(Sharing, TheRemainderOfASplitRangeKeepsItsOwner) {
  // ab occupies 128 bytes until b has read it. Afterwards cd uses the first half of these bytes and yz the second half.
  // If `ordered`, yz waits for b; otherwise it waits for nothing.
  for (const bool ordered : {true, false}) {
    PlanBuilder builder;
    ActorId a = builder.actor("a"), b = builder.actor("b"), c = builder.actor("c"), d = builder.actor("d"),
            guard = builder.actor("guard", 0, 0, BodyKind::state);
    ActorId delay = builder.actor("before0", 1);
    builder.start(delay);
    for (int i = 1; i < 8; ++i) {
      ActorId next = builder.actor(cat("before", i), 1);
      builder.edge(delay, {next});
      delay = next;
    }
    ActorId y = builder.actor("y", 1), z = builder.actor("z", 1);
    const View whole_range(DType::f32, {32});
    RegisterId ab = builder.edge(a, {b}, 1, 128), cd = builder.edge(c, {d}, 1, 64), yz = builder.edge(y, {z}, 1, 64);
    builder.edge(delay, {y});
    builder.edge(b, {c});
    if (ordered) builder.edge(b, {y});
    builder.edge(guard, {a, d, z});
    builder.start(guard);
    builder.done(d), builder.done(z);
    builder.call(a, "test.any", {}, {in_register(ab, whole_range)});
    builder.call(b, "test.any", {in_register(ab, whole_range)}, {});
    builder.call(c, "test.any", {}, {in_register(cd, line)});
    builder.call(d, "test.any", {in_register(cd, line)}, {});
    builder.call(y, "test.any", {}, {in_register(yz, line)});
    builder.call(z, "test.any", {in_register(yz, line)}, {});
    builder.plan.registers[cd].block = builder.plan.registers[yz].block = builder.plan.registers[ab].block;
    builder.plan.registers[yz].offset = 64;
    if (ordered) EXPECT_NO_THROW(verify(builder.plan));
    else EXPECT_NE(error_of([&] { verify(builder.plan); }).find("share bytes 64 to 128"), std::string::npos);
  }
}

TEST(Sharing, ValuesAccumulatedOverActsShareNoBytes) {
  // With period 2, z waits for two acts of x, so x acts twice before z does; yz shares the bytes of xy, which y has
  // read.
  auto plan_with = [](int period) {
    PlanBuilder builder;
    ActorId x = builder.actor("x"), y = builder.actor("y", 1), z = builder.actor("z", 2);
    RegisterId xy = builder.edge(x, {y}, 1, 64), yz = builder.edge(y, {z}, 1, 64);
    builder.edge(x, {z}, 1, 0, period, period);
    builder.start(x, 2);
    builder.done(z, 2);
    builder.call(x, "test.any", {}, {in_register(xy, line)});
    builder.call(y, "test.any", {in_register(xy, line)}, {});
    builder.call(y, "test.any", {}, {in_register(yz, line)});
    builder.call(z, "test.any", {in_register(yz, line)}, {});
    builder.plan.registers[yz].block = builder.plan.registers[xy].block;
    return builder.plan;
  };
  EXPECT_NO_THROW(verify(plan_with(1)));
  EXPECT_NE(error_of([&] { verify(plan_with(2)); }).find("no tokens keep them apart"), std::string::npos);

  // x and z read one piece of p in two acts each, so both wait for p but not for each other.
  PlanBuilder builder;
  ActorId p = builder.actor("p"), x = builder.actor("x", 1), y = builder.actor("y", 2), z = builder.actor("z", 3);
  RegisterId xy = builder.edge(x, {y}, 1, 64), yz = builder.edge(y, {z}, 1, 64);
  builder.edge(p, {x, z}, 1, 0, 1, 2);
  builder.start(p);
  builder.done(z, 2);
  builder.call(x, "test.any", {}, {in_register(xy, line)});
  builder.call(y, "test.any", {in_register(xy, line)}, {});
  builder.call(y, "test.any", {}, {in_register(yz, line)});
  builder.call(z, "test.any", {in_register(yz, line)}, {});
  EXPECT_NO_THROW(verify(builder.plan));
  builder.plan.registers[yz].block = builder.plan.registers[xy].block;
  EXPECT_NE(error_of([&] { verify(builder.plan); }).find("no tokens keep them apart"), std::string::npos);

  Chain written_in_one_act(ActorId(3));  // b's value is written in some of its acts only
  written_in_one_act.builder.call(
      written_in_one_act.b, "test.any", {in_register(written_in_one_act.ab, line)},
      {in_block(written_in_one_act.builder.plan.registers[written_in_one_act.cd].block, line)});
  EXPECT_EQ(written_in_one_act.error(), "");
  written_in_one_act.builder.plan.actors[written_in_one_act.b].calls.back().acts = {0, 1};
  EXPECT_NE(written_in_one_act.error().find("no tokens keep them apart"), std::string::npos)
      << written_in_one_act.error();

  // A value that the last actor keeps from act to act may not share bytes with the first actor's output.
  Chain kept_value(ActorId(3));
  kept_value.builder.call(kept_value.d, "test.any", {in_register(kept_value.cd, line)},
                          {in_block(kept_value.builder.plan.registers[kept_value.ab].block, line)});
  EXPECT_EQ(kept_value.error(), "");
  kept_value.builder.plan.actors[kept_value.d].calls.back().acts = {0, 1};
  EXPECT_NE(kept_value.error().find("no tokens keep them apart"), std::string::npos) << kept_value.error();
}

TEST(Sharing, ARegisterAccessedOnlyInSomeActsIsInUseForTheWholeAct) {
  Chain chain(ActorId(3));
  auto& calls = chain.builder.plan.actors[chain.b].calls;
  calls.clear();
  chain.builder.call(chain.b, "test.any", {in_register(chain.ab, line)}, {});
  chain.builder.call(chain.b, "test.any", {}, {in_register(chain.bc, line)});
  chain.share(chain.bc, chain.ab);
  EXPECT_EQ(chain.error(), "");
  calls.back().acts = {0, 1};
  EXPECT_NE(chain.error().find("no tokens keep them apart"), std::string::npos) << chain.error();
}

// x and y are collectives of the same communicator and device. They act twice and share the bytes of their staging.
TEST(Sharing, TurnsOfCollectivesSeparatePieces) {
  auto plan_with = [](std::vector<int> x_turns, std::vector<int> y_turns) {
    PlanBuilder builder;
    builder.plan.communicators.push_back({{builder.plan.devices[DeviceId(0)]}, 1024, {"x", "y", "x", "y"}});
    ActorId begin = builder.actor("begin"), end = builder.actor("end");
    ActorId x = builder.actor("x", 1, 0, BodyKind::collective), y = builder.actor("y", 1, 0, BodyKind::collective);
    for (auto& [actor, turns] : {std::pair(x, x_turns), std::pair(y, y_turns)}) {
      RegisterId in = builder.edge(begin, {actor}, 2, 64), out = builder.edge(actor, {end}, 2, 64);
      Collective c;
      c.communicator = CommunicatorId(0);
      c.kind = CollectiveKind::all_gather;
      c.turns = turns;
      c.in = in_register(in, line), c.out = in_register(out, line);
      c.staging = in_block(BlockId(0), line);
      builder.plan.actors[actor].collective = c;
      builder.call(begin, "test.any", {}, {in_register(in, line)});
      builder.call(end, "test.any", {in_register(out, line)}, {});
    }
    const BlockId shared = builder.block(BlockKind::scratch, 0, 64);
    for (ActorId a : {x, y}) builder.plan.actors[a].collective->staging = in_block(shared, line);
    builder.start(begin, 2);
    builder.done(end, 2);
    return builder.plan;
  };
  EXPECT_NO_THROW(verify(plan_with({0, 2}, {1, 3})));
  for (const auto& [x, y] : {std::pair<std::vector<int>, std::vector<int>>{{0, 1}, {2, 3}}, {{0, 3}, {1, 2}}})
    EXPECT_NE(error_of([&] { verify(plan_with(x, y)); }).find("no tokens keep them apart"), std::string::npos)
        << "second turn of x: " << x[1];
}

TEST(Sharing, ValuesOfTwoActorsMayShareBytesOnlyOnTheSameStream) {
  Chain chain(ActorId(3));
  BlockId x = chain.builder.block(BlockKind::scratch, 0, 64);
  chain.builder.call(chain.a, "test.any", {}, {in_block(x, line)});
  chain.builder.call(chain.b, "test.any", {}, {in_block(x, line)});
  EXPECT_EQ(chain.error(), "");
  Chain two_streams(ActorId(1));
  BlockId y = two_streams.builder.block(BlockKind::scratch, 0, 64);
  two_streams.builder.call(two_streams.a, "test.any", {}, {in_block(y, line)});
  // c is on another stream, and a may be one act ahead of it.
  two_streams.builder.call(two_streams.c, "test.any", {}, {in_block(y, line)});
  EXPECT_NE(two_streams.error().find("the value of actor a0 'a' at bytes 0 to 64"), std::string::npos)
      << two_streams.error();
}

TEST(Sharing, ValuesKeptFromActToActShareNoBytesOnTheirStream) {
  Chain read(ActorId(3));  // a reads the value of its previous act, and b writes to the same bytes
  BlockId x = read.builder.block(BlockKind::scratch, 0, 64);
  read.builder.call(read.a, "test.any", {in_block(x, line)}, {in_block(x, line)});
  EXPECT_EQ(read.error(), "");
  read.builder.call(read.b, "test.any", {}, {in_block(x, line)});
  EXPECT_NE(read.error().find("the value of actor a0 'a' at bytes 0 to 64"), std::string::npos) << read.error();

  Chain written_in_some_acts(ActorId(3));  // b writes the shared bytes in some acts only
  BlockId y = written_in_some_acts.builder.block(BlockKind::scratch, 0, 64);
  written_in_some_acts.builder.call(written_in_some_acts.a, "test.any", {}, {in_block(y, line)});
  written_in_some_acts.builder.call(written_in_some_acts.b, "test.any", {}, {in_block(y, line)});
  EXPECT_EQ(written_in_some_acts.error(), "");
  written_in_some_acts.builder.plan.actors[written_in_some_acts.b].calls.back().acts = {0, 1};
  EXPECT_NE(written_in_some_acts.error().find("no tokens keep them apart"), std::string::npos)
      << written_in_some_acts.error();
}

}  // namespace
}  // namespace karez::plan
