// Tests of the bound of live bytes and of the sharing verifier, on hand-written plans.
#include "karez/plan/live_bytes.h"

#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/plan/plan_builder.h"

namespace karez::plan {
namespace {

const View line(DType::f32, {16});

// a -> b -> c -> d, one slot each, and a guard with a register that makes a's next act wait for `last`.
struct Chain {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b"), c = s.actor("c", 1), d = s.actor("d"),
          guard = s.actor("guard", 0, 0, BodyKind::state);
  RegisterId ab = s.edge(a, {b}, 1, 64), bc = s.edge(b, {c}, 1, 64), cd = s.edge(c, {d}, 1, 64);
  explicit Chain(ActorId last) {
    s.edge(guard, {a, last});
    s.start(guard);
    s.done(d);
    s.call(a, "test.any", {}, {in_register(ab, line)});
    s.call(b, "test.any", {in_register(ab, line)}, {in_register(bc, line)});
    s.call(c, "test.any", {in_register(bc, line)}, {in_register(cd, line)});
    s.call(d, "test.any", {in_register(cd, line)}, {});
  }
  void share(RegisterId one, RegisterId other) { s.plan.registers[one].block = s.plan.registers[other].block; }
  std::string error() const {
    try {
      verify(s.plan);
    } catch (const Error& error) { return error.what(); }
    return "";
  }
};

TEST(LiveBytes, CountsFromTheWriteToTheLastRead) {
  Chain chain(ActorId(3));
  EXPECT_EQ(live_bytes(chain.s.plan)[DeviceId(0)], 128) << "two of three are live at once";
  EXPECT_EQ(arena_bytes(chain.s.plan)[DeviceId(0)], 192);
  chain.share(chain.cd, chain.ab);
  EXPECT_EQ(live_bytes(chain.s.plan)[DeviceId(0)], 128) << "independent of placement";
  chain.s.plan.registers[chain.bc].slots = 3;
  chain.s.plan.blocks[chain.s.plan.registers[chain.bc].block].bytes = 192;
  EXPECT_EQ(live_bytes(chain.s.plan)[DeviceId(0)], 128) << "one piece per launch";
  EXPECT_EQ(run_ahead_bytes(chain.s.plan)[DeviceId(0)], 128);
}

TEST(LiveBytes, AGapBetweenTwoValuesInTheSameBytesIsNotLive) {
  Chain chain(ActorId(3));
  BlockId x = chain.s.block(BlockKind::scratch, 0, 64), y = chain.s.block(BlockKind::scratch, 0, 128);
  chain.s.call(chain.a, "test.any", {}, {in_block(x, line)});
  chain.s.call(chain.a, "test.any", {in_block(x, line)}, {});
  chain.s.call(chain.a, "test.any", {}, {in_block(y, View(DType::f32, {32}))});
  chain.s.call(chain.a, "test.any", {}, {in_block(x, line)});
  EXPECT_EQ(live_bytes(chain.s.plan)[DeviceId(0)], 64 + 128) << "ab, and y while x is not live";
}

TEST(Sharing, RegistersMayShareBytesIfTokensSeparateThem) {
  Chain chain(ActorId(3));
  chain.share(chain.cd, chain.ab);
  EXPECT_EQ(chain.error(), "");
  chain.s.plan.registers[chain.ab].slots = 1;
  Chain open(ActorId(1));  // a's next act waits for b alone: d may still read
  open.share(open.cd, open.ab);
  EXPECT_NE(
      open.error().find("register r0 and register r2 share bytes 0 to 64 of block b0, but no tokens keep them apart"),
      std::string::npos)
      << open.error();
  Chain neighbours(ActorId(3));
  neighbours.share(neighbours.bc, neighbours.ab);
  EXPECT_NE(neighbours.error().find("no tokens keep them apart"), std::string::npos) << neighbours.error();
}

TEST(Sharing, TwoSlotsOfTheGuardSeparateNothing) {
  Chain chain(ActorId(3));
  chain.share(chain.cd, chain.ab);
  chain.s.plan.registers[RegisterId(3)].slots = 2;
  EXPECT_NE(chain.error().find("no tokens keep them apart"), std::string::npos) << chain.error();
}

TEST(Sharing, PiecesOfOneLaunchAreSeparatedLikeLaunches) {
  auto twice = [](Chain& chain) {
    for (Register& r : chain.s.plan.registers) {
      if (r.producer == session_actor) chain.s.plan.actors[r.consumers[0]].inputs.back().period = 2;
      else if (r.consumers[0] == session_actor) chain.s.plan.actors[r.producer].outputs.back().period = 2;
    }
  };
  Chain chain(ActorId(3)), open(ActorId(1));
  for (Chain* c : {&chain, &open}) twice(*c), c->share(c->cd, c->ab);
  EXPECT_EQ(chain.error(), "");
  EXPECT_NE(open.error().find("no tokens keep them apart"), std::string::npos) << open.error();
}

TEST(Sharing, TheRestOfASplitRangeKeepsItsOwner) {
  // ab holds both lines until b has read it; afterwards cd uses the first line, and yz, which waits for nothing unless
  // `kept`, the second.
  for (const bool kept : {true, false}) {
    PlanBuilder s;
    ActorId a = s.actor("a"), b = s.actor("b"), c = s.actor("c"), d = s.actor("d"),
            guard = s.actor("guard", 0, 0, BodyKind::state);
    ActorId before = s.actor("before0", 1);
    s.start(before);
    for (int i = 1; i < 8; ++i) {
      ActorId next = s.actor(cat("before", i), 1);
      s.edge(before, {next});
      before = next;
    }
    ActorId y = s.actor("y", 1), z = s.actor("z", 1);
    const View two(DType::f32, {32});
    RegisterId ab = s.edge(a, {b}, 1, 128), cd = s.edge(c, {d}, 1, 64), yz = s.edge(y, {z}, 1, 64);
    s.edge(before, {y});
    s.edge(b, {c});
    if (kept) s.edge(b, {y});
    s.edge(guard, {a, d, z});
    s.start(guard);
    s.done(d), s.done(z);
    s.call(a, "test.any", {}, {in_register(ab, two)});
    s.call(b, "test.any", {in_register(ab, two)}, {});
    s.call(c, "test.any", {}, {in_register(cd, line)});
    s.call(d, "test.any", {in_register(cd, line)}, {});
    s.call(y, "test.any", {}, {in_register(yz, line)});
    s.call(z, "test.any", {in_register(yz, line)}, {});
    s.plan.registers[cd].block = s.plan.registers[yz].block = s.plan.registers[ab].block;
    s.plan.registers[yz].offset = 64;
    if (kept) EXPECT_NO_THROW(verify(s.plan));
    else EXPECT_NE(error_of([&] { verify(s.plan); }).find("share bytes 64 to 128"), std::string::npos);
  }
}

TEST(Sharing, ValuesAccumulatedOverActsShareNothing) {
  // With period 2, z waits for two acts of x, so x acts twice before z does; yz shares the bytes of xy, which y has
  // read.
  auto plan_with = [](int period) {
    PlanBuilder s;
    ActorId x = s.actor("x"), y = s.actor("y", 1), z = s.actor("z", 2);
    RegisterId xy = s.edge(x, {y}, 1, 64), yz = s.edge(y, {z}, 1, 64);
    s.edge(x, {z}, 1, 0, period, period);
    s.start(x, 2);
    s.done(z, 2);
    s.call(x, "test.any", {}, {in_register(xy, line)});
    s.call(y, "test.any", {in_register(xy, line)}, {});
    s.call(y, "test.any", {}, {in_register(yz, line)});
    s.call(z, "test.any", {in_register(yz, line)}, {});
    s.plan.registers[yz].block = s.plan.registers[xy].block;
    return s.plan;
  };
  EXPECT_NO_THROW(verify(plan_with(1)));
  EXPECT_NE(error_of([&] { verify(plan_with(2)); }).find("no tokens keep them apart"), std::string::npos);

  // x and z read one piece of p in two acts each, so both wait for p but not for each other.
  PlanBuilder s;
  ActorId p = s.actor("p"), x = s.actor("x", 1), y = s.actor("y", 2), z = s.actor("z", 3);
  RegisterId xy = s.edge(x, {y}, 1, 64), yz = s.edge(y, {z}, 1, 64);
  s.edge(p, {x, z}, 1, 0, 1, 2);
  s.start(p);
  s.done(z, 2);
  s.call(x, "test.any", {}, {in_register(xy, line)});
  s.call(y, "test.any", {in_register(xy, line)}, {});
  s.call(y, "test.any", {}, {in_register(yz, line)});
  s.call(z, "test.any", {in_register(yz, line)}, {});
  EXPECT_NO_THROW(verify(s.plan));
  s.plan.registers[yz].block = s.plan.registers[xy].block;
  EXPECT_NE(error_of([&] { verify(s.plan); }).find("no tokens keep them apart"), std::string::npos);

  Chain whole(ActorId(3));  // b's value is written in some of its acts only
  whole.s.call(whole.b, "test.any", {in_register(whole.ab, line)},
               {in_block(whole.s.plan.registers[whole.cd].block, line)});
  EXPECT_EQ(whole.error(), "");
  whole.s.plan.actors[whole.b].calls.back().acts = {0, 1};
  EXPECT_NE(whole.error().find("no tokens keep them apart"), std::string::npos) << whole.error();

  Chain last(ActorId(
      3));  // a value that the last actor keeps from act to act may not share bytes with the first actor's output
  last.s.call(last.d, "test.any", {in_register(last.cd, line)}, {in_block(last.s.plan.registers[last.ab].block, line)});
  EXPECT_EQ(last.error(), "");
  last.s.plan.actors[last.d].calls.back().acts = {0, 1};
  EXPECT_NE(last.error().find("no tokens keep them apart"), std::string::npos) << last.error();
}

TEST(Sharing, ARegisterAccessedInSomeActsIsInUseForTheWholeAct) {
  Chain chain(ActorId(3));
  auto& calls = chain.s.plan.actors[chain.b].calls;
  calls.clear();
  chain.s.call(chain.b, "test.any", {in_register(chain.ab, line)}, {});
  chain.s.call(chain.b, "test.any", {}, {in_register(chain.bc, line)});
  chain.share(chain.bc, chain.ab);
  EXPECT_EQ(chain.error(), "");
  calls.back().acts = {0, 1};
  EXPECT_NE(chain.error().find("no tokens keep them apart"), std::string::npos) << chain.error();
}

// x, y: collectives of one sequence position that act twice and share the bytes of their staging.
TEST(Sharing, TurnsSeparatePieces) {
  auto plan_with = [](std::vector<int> x_turns, std::vector<int> y_turns) {
    PlanBuilder s;
    s.plan.communicators.push_back({{s.plan.devices[DeviceId(0)]}, 1024, {"x", "y", "x", "y"}});
    ActorId begin = s.actor("begin"), end = s.actor("end");
    ActorId x = s.actor("x", 1, 0, BodyKind::collective), y = s.actor("y", 1, 0, BodyKind::collective);
    for (auto& [actor, turns] : {std::pair(x, x_turns), std::pair(y, y_turns)}) {
      RegisterId in = s.edge(begin, {actor}, 2, 64), out = s.edge(actor, {end}, 2, 64);
      Collective c;
      c.communicator = CommunicatorId(0);
      c.kind = "all_gather";
      c.turns = turns;
      c.in = in_register(in, line), c.out = in_register(out, line);
      c.staging = in_block(BlockId(0), line);
      s.plan.actors[actor].collective = c;
      s.call(begin, "test.any", {}, {in_register(in, line)});
      s.call(end, "test.any", {in_register(out, line)}, {});
    }
    const BlockId both = s.block(BlockKind::scratch, 0, 64);
    for (ActorId a : {x, y}) s.plan.actors[a].collective->staging = in_block(both, line);
    s.start(begin, 2);
    s.done(end, 2);
    return s.plan;
  };
  EXPECT_NO_THROW(verify(plan_with({0, 2}, {1, 3})));
  for (const auto& [x, y] : {std::pair<std::vector<int>, std::vector<int>>{{0, 1}, {2, 3}}, {{0, 3}, {1, 2}}})
    EXPECT_NE(error_of([&] { verify(plan_with(x, y)); }).find("no tokens keep them apart"), std::string::npos) << x[1];
}

TEST(Sharing, ValuesOfTwoActorsShareOnOneStreamOnly) {
  Chain chain(ActorId(3));
  BlockId x = chain.s.block(BlockKind::scratch, 0, 64);
  chain.s.call(chain.a, "test.any", {}, {in_block(x, line)});
  chain.s.call(chain.b, "test.any", {}, {in_block(x, line)});
  EXPECT_EQ(chain.error(), "");
  Chain apart(ActorId(1));
  BlockId y = apart.s.block(BlockKind::scratch, 0, 64);
  apart.s.call(apart.a, "test.any", {}, {in_block(y, line)});
  apart.s.call(apart.c, "test.any", {}, {in_block(y, line)});  // on another stream, and a may be an act ahead
  EXPECT_NE(apart.error().find("the value of actor a0 'a' at bytes 0 to 64"), std::string::npos) << apart.error();
}

TEST(Sharing, ValuesKeptFromActToActShareNothingOnTheirStream) {
  Chain read(ActorId(3));  // a reads the value of its previous act, and b writes to the same bytes
  BlockId x = read.s.block(BlockKind::scratch, 0, 64);
  read.s.call(read.a, "test.any", {in_block(x, line)}, {in_block(x, line)});
  EXPECT_EQ(read.error(), "");
  read.s.call(read.b, "test.any", {}, {in_block(x, line)});
  EXPECT_NE(read.error().find("the value of actor a0 'a' at bytes 0 to 64"), std::string::npos) << read.error();

  Chain begun(ActorId(3));  // written in some acts only
  BlockId y = begun.s.block(BlockKind::scratch, 0, 64);
  begun.s.call(begun.a, "test.any", {}, {in_block(y, line)});
  begun.s.call(begun.b, "test.any", {}, {in_block(y, line)});
  EXPECT_EQ(begun.error(), "");
  begun.s.plan.actors[begun.b].calls.back().acts = {0, 1};
  EXPECT_NE(begun.error().find("no tokens keep them apart"), std::string::npos) << begun.error();
}

}  // namespace
}  // namespace karez::plan
