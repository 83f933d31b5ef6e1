// Tests of the plan verifier's errors.
#include <gtest/gtest.h>

#include <functional>

#include "karez/base/test_error.h"
#include "karez/base/test_golden.h"
#include "karez/plan/acts.h"
#include "karez/plan/dry_run.h"
#include "karez/plan/plan.h"
#include "karez/plan/plan_builder.h"

namespace karez::plan {
namespace {

const View four(DType::f32, {4});

// Two devices, each with a producer, an all_reduce and a consumer.
struct Sample {
  PlanBuilder s{2};
  ActorId p[2], c[2];
  RegisterId in[2], out[2];
  Sample() {
    s.plan.communicators.push_back({{s.plan.devices[DeviceId(0)], s.plan.devices[DeviceId(1)]}, 1024, {"gradient"}});
    for (int d = 0; d < 2; ++d) {
      p[d] = s.actor(cat("make.", d), d, d);
      c[d] = s.actor(cat("reduce.", d), d, d, BodyKind::collective);
      s.start(p[d]);
      in[d] = s.edge(p[d], {c[d]}, 2, 16);
      ActorId end = s.actor(cat("end.", d), d, d);
      out[d] = s.edge(c[d], {end}, 1, 16);
      s.done(end);
      s.call(p[d], "test.make", {}, {in_register(in[d], four)});
      Collective collective;
      collective.communicator = CommunicatorId(0);
      collective.kind = "all_reduce";
      collective.reduce = "sum";
      collective.in = in_register(in[d], four);
      collective.out = in_register(out[d], four);
      s.plan.actors[c[d]].collective = collective;
    }
  }
};

// The dry run handles each act and each message, so it would never finish a launch with too many of them.
TEST(Verify, ALaunchWithTooManyActsAndMessagesIsRejected) {
  auto acts = [](int pieces) {
    PlanBuilder s;
    ActorId a = s.actor("a");
    s.start(a, pieces);
    s.done(a, pieces);
    return s.plan;
  };
  auto messages = [](int pieces) {
    PlanBuilder s;
    ActorId a = s.actor("a"), b = s.actor("b");
    s.start(a, pieces);
    s.edge(a, {b});
    s.done(b, pieces);
    return s.plan;
  };
  EXPECT_EQ(error_of([&] { verify(messages(1000)); }), "no error");
  EXPECT_EQ(error_of([&] { verify(acts(1 << 30)); }),
            "plan 'sketch' has 1073741828 acts and messages in a launch; the limit is 16777216");
  EXPECT_EQ(error_of([&] { verify(messages(1 << 30)); }),
            "plan 'sketch' has 4294967300 acts and messages in a launch; the limit is 16777216");
}

TEST(Verify, AValidPlanPasses) { EXPECT_NO_THROW(verify(Sample().s.plan)); }

// Each row breaks one property; the error must name it.
TEST(Verify, EveryFaultIsReported) {
  using Break = std::function<void(Plan&)>;
  const std::pair<const char*, Break> rows[] = {
      {"transfer of 'w' has -1 bytes",
       [](Plan& p) {
         p.transfers.push_back({"all_reduce", "data", "w", -1});
       }},
      {"size overflows 64 bits",
       [](Plan& p) {
         p.transfers = {{"a", "", "", INT64_MAX}, {"a", "", "", 1}};
       }},
      {"size overflows 64 bits", [](Plan& p) { p.blocks[BlockId(0)].bytes = INT64_MAX; }},
      {"plan: rank 3 is not in a world of size 1", [](Plan& p) { p.rank = 3; }},
      {"device 1 and device 0 are both 0.0", [](Plan& p) { p.devices[DeviceId(1)].device = 0; }},
      {"stream 1 names device 7, of which there are 2", [](Plan& p) { p.streams[StreamId(1)].device = DeviceId(7); }},
      {"block b0 has -1 bytes", [](Plan& p) { p.blocks[BlockId(0)].bytes = -1; }},
      {"is a variable without a name",
       [](Plan& p) {
         p.blocks.push_back({BlockKind::variable, DeviceId(0), 4, "", ""});
       }},
      {"variable 'w' has two blocks on device 0",
       [](Plan& p) {
         for (int i = 0; i < 2; ++i) p.blocks.push_back({BlockKind::variable, DeviceId(0), 4, "w", "f32[1]"});
       }},
      {"names stream 9, of which there are 2", [](Plan& p) { p.actors[ActorId(0)].stream = StreamId(9); }},
      {"register r1 has 0 slots", [](Plan& p) { p.registers[RegisterId(1)].slots = 0; }},
      {"which does not list it", [](Plan& p) { p.actors[ActorId(0)].outputs.clear(); }},
      {"lists register r1 among its inputs, but the register does not name it",
       [](Plan& p) {
         p.actors[ActorId(0)].inputs.push_back({RegisterId(1), 1});
       }},
      {"register r1 has no consumer", [](Plan& p) { p.registers[RegisterId(1)].consumers.clear(); }},
      {"names consumer 1 twice", [](Plan& p) { p.registers[RegisterId(1)].consumers.push_back(ActorId(1)); }},
      {"is a start or done register, but has 4 bytes", [](Plan& p) { p.registers[RegisterId(0)].bytes = 4; }},
      {"has no bytes, but is in block 0", [](Plan& p) { p.registers[RegisterId(1)].bytes = 0; }},
      {"stride 8 for slots of 16 bytes", [](Plan& p) { p.registers[RegisterId(1)].stride = 8; }},
      {"register r1: offset -8, stride 64", [](Plan& p) { p.registers[RegisterId(1)].offset = -8; }},
      {"ends at byte 80 of block b0, which has 79", [](Plan& p) { p.blocks[BlockId(0)].bytes = 79; }},
      {"ends at byte 80 of block b0, which has 40", [](Plan& p) { p.blocks[BlockId(0)].bytes = 40; }},
      {"register r1 and register r2 share bytes 0 to 16 of block b0, but no tokens keep them apart",
       [](Plan& p) { p.registers[RegisterId(2)].block = BlockId(0); }},
      {"register r1 and register r2 share bytes 79 to 80 of block b0, but no tokens keep them apart",
       [](Plan& p) {
         p.blocks[BlockId(0)].bytes = 4096;
         p.registers[RegisterId(2)].block = BlockId(0);
         p.registers[RegisterId(2)].offset = 79;
       }},
      {"an operand f32[4] ends at byte 24 of register r1, which has slots of 16",
       [](Plan& p) { p.actors[ActorId(0)].calls[0].out[0].offset = 8; }},
      {"an operand f32[4] ends at byte 80 of block b1, which has 64",
       [](Plan& p) { p.actors[ActorId(0)].calls[0].out[0] = in_block(BlockId(1), View(DType::f32, {4}), 64); }},
      {"which is not a port of the actor", [](Plan& p) { p.actors[ActorId(0)].calls[0].out[0].reg = RegisterId(2); }},
      {"writes register r1, which it only reads",
       [](Plan& p) { p.actors[ActorId(1)].collective->out.reg = RegisterId(1); }},
      {"an operand f32[4] ends at byte 24 of register r1, which has slots of 16",
       [](Plan& p) { p.actors[ActorId(1)].collective->in.offset = 8; }},
      {"an operand f32[4] ends at byte 24 of register r2, which has slots of 16",
       [](Plan& p) { p.actors[ActorId(1)].collective->out.offset = 8; }},
      {"an operand f32[4] ends at byte 80 of block b1, which has 64",
       [](Plan& p) { p.actors[ActorId(1)].collective->staging = in_block(BlockId(1), four, 64); }},
      {"has a negative stride", [](Plan& p) { p.actors[ActorId(0)].calls[0].out[0].view.strides[0] = -1; }},
      {"has neither register nor block", [](Plan& p) { p.actors[ActorId(0)].calls[0].out[0].reg = RegisterId(); }},
      {"writes the constant block",
       [](Plan& p) {
         p.blocks.push_back({BlockKind::constant, DeviceId(0), 16, "", ""});
         p.actors[ActorId(0)].calls[0].out[0] = in_block(BlockId(p.blocks.size() - 1), View(DType::f32, {4}));
       }},
      {"team must be at least 1, got 0", [](Plan& p) { p.actors[ActorId(0)].calls[0].team = 0; }},
      {"a call has no kernel", [](Plan& p) { p.actors[ActorId(0)].calls[0].kernel.clear(); }},
      {"a set-up call names register r1", [](Plan& p) { p.setup.push_back(p.actors[ActorId(0)].calls[0]); }},
      {"lists register r1 twice",
       [](Plan& p) { p.actors[ActorId(0)].outputs.push_back(p.actors[ActorId(0)].outputs[0]); }},
      {"register r1 has period 0", [](Plan& p) { p.actors[ActorId(0)].outputs[0].period = 0; }},
      {"has calls, but its body is state", [](Plan& p) { p.actors[ActorId(0)].body = BodyKind::state; }},
      {"its body is compute, but it has a collective", [](Plan& p) { p.actors[ActorId(1)].body = BodyKind::compute; }},
      {"has no binding", [](Plan& p) { p.actors[ActorId(2)].body = BodyKind::fetch; }},
      {"has bindings, but its body is compute", [](Plan& p) { p.actors[ActorId(2)].binding = "x"; }},
      {"names communicator 5, of which there are 1",
       [](Plan& p) { p.actors[ActorId(1)].collective->communicator = CommunicatorId(5); }},
      {"turn 1 of communicator 0, which has a sequence of length 1",
       [](Plan& p) { p.actors[ActorId(1)].collective->turns = {1}; }},
      {"device 0.0 is not a member of communicator 0",
       [](Plan& p) { p.communicators[CommunicatorId(0)].members[0].device = 5; }},
      {"1 peer boxes for 2 members", [](Plan& p) { p.actors[ActorId(1)].collective->sends.resize(1); }},
      {"is all_gather sum here, but all_reduce sum for another member",
       [](Plan& p) { p.actors[ActorId(4)].collective->kind = "all_gather"; }},
      {"turn 0 of communicator 0 uses algorithm flat here, but direct for another member",
       [](Plan& p) { p.actors[ActorId(4)].collective->algorithm = "flat"; }},
      {"its sequence has 2 turns, but device 0.0 has 1 collectives",
       [](Plan& p) { p.communicators[CommunicatorId(0)].sequence.push_back("x"); }},
      {"chunks of 0 bytes", [](Plan& p) { p.communicators[CommunicatorId(0)].chunk = 0; }},
      {"link 0 names register 99",
       [](Plan& p) {
         p.links.push_back({RegisterId(99), p.devices[DeviceId(0)], true, 1});
       }},
      {"turn 0 of communicator 0 is all_reduce max here, but all_reduce sum for another member",
       [](Plan& p) { p.actors[ActorId(4)].collective->reduce = "max"; }},
      {"turn 0 of communicator 0 has type f32[2] here, but f32[4] for another member",
       [](Plan& p) {
         p.actors[ActorId(4)].collective->in.view = p.actors[ActorId(4)].collective->out.view = View(DType::f32, {2});
       }},
      {"communicator 0: device 0.0 is a member twice",
       [](Plan& p) {
         p.communicators[CommunicatorId(0)].members.push_back(p.communicators[CommunicatorId(0)].members[0]);
       }},
      {"names communicator -1, of which there are 1",
       [](Plan& p) { p.actors[ActorId(1)].collective->communicator = CommunicatorId(); }},
      {"turn -1 of communicator 0", [](Plan& p) { p.actors[ActorId(1)].collective->turns = {-1}; }},
      {"register r1 has -2 slots", [](Plan& p) { p.registers[RegisterId(1)].slots = -2; }},
      {"register r1 has 40000 slots", [](Plan& p) { p.registers[RegisterId(1)].slots = 40000; }},
      {"register r1 names producer 77", [](Plan& p) { p.registers[RegisterId(1)].producer = ActorId(77); }},
      {"register r1 names consumer -3", [](Plan& p) { p.registers[RegisterId(1)].consumers[0] = ActorId(-3); }},
      {"register r1 is in the constant block b0", [](Plan& p) { p.blocks[BlockId(0)].kind = BlockKind::constant; }},
      {"register r1 has period -1", [](Plan& p) { p.actors[ActorId(1)].inputs[0].period = -1; }},
      {"has a negative size", [](Plan& p) { p.actors[ActorId(0)].calls[0].out[0].view.shape[0] = -4; }},
      {"runs in acts 0..2, but the actor acts 1 times in a launch",
       [](Plan& p) { p.actors[ActorId(0)].calls[0].acts = {0, 2}; }},
      {"runs in acts 1..1, but the actor acts 1 times in a launch",
       [](Plan& p) { p.actors[ActorId(0)].calls[0].acts = {1, 1}; }},
      {"runs in acts -1..1, but the actor acts 1 times in a launch",
       [](Plan& p) { p.actors[ActorId(0)].calls[0].acts = {-1, 1}; }},
      {"has no turn in the sequence of communicator 0",
       [](Plan& p) { p.actors[ActorId(1)].collective->turns.clear(); }},
      {"has turn 0 of communicator 0 twice", [](Plan& p) { p.actors[ActorId(1)].collective->turns = {0, 0}; }},
      {"would act 1 times in a launch, but register", [](Plan& p) { p.actors[ActorId(1)].inputs[0].period = 2; }},
  };
  for (const auto& [says, breaks] : rows) {
    Plan plan = Sample().s.plan;
    breaks(plan);
    std::string error = error_of([&] { verify(plan); });
    EXPECT_NE(error.find(says), std::string::npos) << "expected: " << says << "\nbut: " << error;
  }
}

// An input, a compute actor that reads it twice, and a fetch.
struct InputFetchPlan {
  PlanBuilder s;
  ActorId in, twice, out;
  RegisterId x, y;
  InputFetchPlan() {
    in = s.actor("in", 0, 0, BodyKind::input);
    twice = s.actor("twice");
    out = s.actor("out", 0, 0, BodyKind::fetch);
    s.start(in);
    x = s.edge(in, {twice}, 2, 16);
    y = s.edge(twice, {out}, 1, 16);
    s.done(out);
    s.call(twice, "test.sum", {in_register(x, four), in_register(x, four)}, {in_register(y, four)});
    bind(in, "x", x);
    s.plan.actors[out].binding = "y";
    s.plan.actors[out].bound = {in_register(y, four)};
  }
  void bind(ActorId actor, std::string name, RegisterId reg) {
    Actor& a = s.plan.actors[actor];
    a.binding = std::move(name);
    a.bound = {in_register(reg, four)};
    a.slices = {Attrs{{"begin", Ints{0}}, {"shape", Ints{4}}}};
  }
};

TEST(Verify, ActorsThatServeALaunchMustActBetweenItsStartAndItsEnd) {
  EXPECT_NO_THROW(verify(InputFetchPlan().s.plan));

  InputFetchPlan unfed;  // another actor has the start: the input would read the feed of a launch that has not begun
  unfed.s.plan.actors[unfed.in].inputs.clear();
  ActorId other = unfed.s.actor("other");
  unfed.s.plan.registers[RegisterId(0)].consumers = {other};
  unfed.s.plan.actors[other].inputs.push_back({RegisterId(0), 1});
  unfed.s.done(other);
  EXPECT_NE(error_of([&] { verify(unfed.s.plan); })
                .find("actor a0 'in' (in at sketch.cc:1): its body is input, but no start register leads to it: it "
                      "would act before a launch begins"),
            std::string::npos)
      << error_of([&] { verify(unfed.s.plan); });

  InputFetchPlan fetched_early = InputFetchPlan();  // all actors but one run ahead of the launch
  fetched_early.s.plan.actors[fetched_early.in].body = BodyKind::compute;
  Actor& in = fetched_early.s.plan.actors[fetched_early.in];
  in.binding.clear(), in.bound.clear(), in.slices.clear(), in.inputs.clear();
  ActorId extra = fetched_early.s.actor("extra");
  fetched_early.s.plan.registers[RegisterId(0)].consumers = {extra};
  fetched_early.s.plan.actors[extra].inputs.push_back({RegisterId(0), 1});
  fetched_early.s.done(extra);
  EXPECT_NE(error_of([&] {
              verify(fetched_early.s.plan);
            }).find("'out' (out at sketch.cc:1): its body is fetch, but no start register leads to it"),
            std::string::npos);

  InputFetchPlan unawaited;  // the launch ends with `twice`, although the fetch may not have run
  unawaited.s.plan.actors[unawaited.out].outputs.clear();
  RegisterId done(unawaited.s.plan.registers.size() - 1);
  unawaited.s.plan.registers[done].producer = unawaited.twice;
  unawaited.s.plan.actors[unawaited.twice].outputs.push_back({done, 1});
  EXPECT_NE(error_of([&] {
              verify(unawaited.s.plan);
            }).find("actor a2 'out' (out at sketch.cc:1) leads to no done register: the launch would end before it"),
            std::string::npos);

  InputFetchPlan aside;  // the same for a compute actor: a variable that it writes would change while the host reads it
  ActorId writer = aside.s.actor("writer");
  aside.s.edge(aside.in, {writer});
  EXPECT_NE(error_of([&] { verify(aside.s.plan); }).find("'writer' (writer at sketch.cc:1) leads to no done register"),
            std::string::npos);
}

TEST(Verify, BindingsMustMatchTheFeedsAndOutputsOfALaunch) {
  InputFetchPlan empty;
  empty.s.plan.actors[empty.in].bound.clear();
  empty.s.plan.actors[empty.in].slices.clear();
  EXPECT_NE(error_of([&] { verify(empty.s.plan); }).find("'in' (in at sketch.cc:1) reads input 'x' without an operand"),
            std::string::npos);

  InputFetchPlan both;
  ActorId second = both.s.actor("second", 0, 0, BodyKind::fetch);
  both.s.plan.registers[both.y].consumers.push_back(second);
  both.s.plan.actors[second].inputs.push_back({both.y, 1});
  both.s.plan.actors[second].binding = "y";
  both.s.plan.actors[second].bound = {in_register(both.y, four)};
  both.s.done(second);
  EXPECT_NE(
      error_of([&] {
        verify(both.s.plan);
      }).find("'second' (second at sketch.cc:1) and actor a2 'out' (out at sketch.cc:1) both fetch 'y' on device 0"),
      std::string::npos);
  both.s.plan.actors[second].binding = "z";
  EXPECT_NO_THROW(verify(both.s.plan));

  InputFetchPlan often;  // all act three times
  for (RegisterId r : {RegisterId(0), RegisterId(3)}) {
    const Register& reg = often.s.plan.registers[r];
    if (reg.producer == session_actor) often.s.plan.actors[often.in].inputs[0].period = 3;
    else often.s.plan.actors[often.out].outputs[0].period = 3;
  }
  EXPECT_NE(error_of([&] {
              verify(often.s.plan);
            }).find("'out' (out at sketch.cc:1) acts 3 times in a launch, but 'y' is fetched once"),
            std::string::npos);

  InputFetchPlan uneven;  // a second reader of x takes two pieces, the first takes one
  ActorId more = uneven.s.actor("more", 0, 0, BodyKind::input), sink = uneven.s.actor("sink");
  uneven.s.start(more, 2);
  RegisterId reg = uneven.s.edge(more, {sink}, 1, 16);
  uneven.s.done(sink, 2);
  uneven.bind(more, "x", reg);
  EXPECT_NE(error_of([&] { verify(uneven.s.plan); })
                .find("'more' (more at sketch.cc:1) reads input 'x' 2 times in a launch, but actor a0 'in' (in at "
                      "sketch.cc:1) reads it 1 times"),
            std::string::npos);
  uneven.bind(more, "w", reg);
  EXPECT_NO_THROW(verify(uneven.s.plan));
}

TEST(Verify, PartsOfAnOutputCoverTheWholeAndAreEqualOrDisjoint) {
  struct Parts {
    PlanBuilder s = PlanBuilder(2);
    ActorId out[2];
    Parts() {
      for (int d = 0; d < 2; ++d) {
        ActorId work = s.actor(cat("work.", d), 0, d);
        out[d] = s.actor(cat("out.", d), 0, d, BodyKind::fetch);
        s.start(work);
        RegisterId reg = s.edge(work, {out[d]}, 1, 16);
        s.done(out[d]);
        s.plan.actors[out[d]].binding = "y";
        s.plan.actors[out[d]].bound = {in_register(reg, four)};
      }
    }
    std::string with(std::int64_t first, std::int64_t second, std::int64_t whole, std::int64_t other = 0) {
      for (int d = 0; d < 2; ++d)
        s.plan.actors[out[d]].slices = {
            Attrs{{"begin", Ints{d == 0 ? first : second}}, {"shape", Ints{d == 1 && other > 0 ? other : whole}}}};
      return error_of([&] { verify(s.plan); });
    }
  } parts;
  EXPECT_NO_THROW(verify(parts.s.plan)) << "each has the whole";
  EXPECT_EQ(parts.with(0, 4, 8), "no error");
  EXPECT_EQ(parts.with(4, 0, 8), "no error");
  EXPECT_NE(parts.with(0, 2, 6).find("fetch parts of 'y' that overlap and differ"), std::string::npos);
  EXPECT_EQ(parts.with(0, 0, 8), "plan 'sketch': the fetches of 'y' cover 4 of its 8 elements");
  EXPECT_EQ(parts.with(0, 5, 9), "plan 'sketch': the fetches of 'y' cover 8 of its 9 elements");
  EXPECT_NE(parts.with(0, 4, 7).find("a slice {begin=[4], shape=[7]} of shape [4] is not within the whole"),
            std::string::npos);
  EXPECT_NE(parts.with(0, 4, 8, 9)
                .find("fetches 'y' as a part of f32[9], but actor a1 'out.0' (out.0 at sketch.cc:1) of f32[8]"),
            std::string::npos);
  parts.s.plan.world = 2;
  EXPECT_EQ(parts.with(0, 0, 8), "no error") << "another rank has the rest";
}

TEST(Verify, AHugePeriodIsRejectedBeforeTheDryRun) {
  PlanBuilder s;
  ActorId a = s.actor("a");
  s.start(a, 2'000'000'000);
  s.done(a, 2'000'000'000);
  EXPECT_EQ(error_of([&] { verify(s.plan); }),
            "plan 'sketch' has 2000000004 acts and messages in a launch; the limit is 16777216");
}

TEST(Verify, ACycleWithoutTokensIsReported) {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b");
  s.start(a);
  s.edge(a, {b});
  s.edge(b, {a});
  s.done(b);
  EXPECT_EQ(error_of([&] { verify(s.plan); }),
            "plan 'sketch': a cycle of registers without tokens blocks a0 'a', a1 'b'");
}

TEST(Verify, APlanThatStallsForLackOfSlotsIsRejected) {
  PlanBuilder s;  // a's second piece waits for b, b waits for two pieces of c, and c for a's second
  ActorId a = s.actor("a"), b = s.actor("b"), c = s.actor("c");
  s.start(a, 2);
  RegisterId ab = s.edge(a, {b}, 1, 0, 1, 1);
  s.edge(a, {c}, 2);
  s.edge(c, {b}, 1, 0, 2, 2);
  s.done(b, 2);
  std::string error = error_of([&] { verify(s.plan); });
  EXPECT_NE(error.find("stalls: "), std::string::npos) << error;
  EXPECT_NE(error.find("a0 'a' waits for a free slot of r1"), std::string::npos) << error;
  s.plan.registers[ab].slots = 2;
  EXPECT_NO_THROW(verify(s.plan));
}

TEST(Verify, CollectivesInIncompatibleOrdersAreRejected) {
  PlanBuilder s(2);  // both devices run x before y, which depends on x; later the turns demand y first
  s.plan.communicators.push_back({{s.plan.devices[DeviceId(0)], s.plan.devices[DeviceId(1)]}, 1024, {"x", "y"}});
  for (int d = 0; d < 2; ++d) {
    ActorId x = s.actor(cat("x.", d), 0, d, BodyKind::collective),
            y = s.actor(cat("y.", d), 0, d, BodyKind::collective);
    s.start(x);
    s.edge(x, {y});
    s.done(y);
    Collective c{CommunicatorId(0), "all_reduce", "sum", {0}, {}, {}, {}, {}, {}, ""};
    c.in.view = c.out.view = View(DType::f32, {0});
    s.plan.actors[x].collective = c;
    c.turns = {1};
    s.plan.actors[y].collective = c;
  }
  EXPECT_NO_THROW(verify(s.plan));
  for (auto& actor : s.plan.actors) actor.collective->turns = {1 - actor.collective->turns[0]};
  std::string error = error_of([&] { verify(s.plan); });
  EXPECT_NE(
      error.find(
          "stalls: a0 'x.0' waits for turn 0 of communicator 0 -> a1 'y.0' waits for r1 to be filled -> a0 'x.0'"),
      std::string::npos)
      << error;
}

// Two devices with a collective x that acts three times in a launch, and y that acts once after them.
struct Rates {
  PlanBuilder s{2};
  ActorId x[2], y[2];
  Rates() {
    s.plan.communicators.push_back(
        {{s.plan.devices[DeviceId(0)], s.plan.devices[DeviceId(1)]}, 1024, {"x", "x", "x", "y"}});
    for (int d = 0; d < 2; ++d) {
      x[d] = s.actor(cat("x.", d), 0, d, BodyKind::collective),
      y[d] = s.actor(cat("y.", d), 0, d, BodyKind::collective);
      s.start(x[d], 3);
      s.edge(x[d], {y[d]}, 1, 0, 3, 1);
      s.done(y[d]);
      Collective c{CommunicatorId(0), "all_reduce", "sum", {0, 1, 2}, {}, {}, {}, {}, {}, ""};
      c.in.view = c.out.view = View(DType::f32, {0});
      s.plan.actors[x[d]].collective = c;
      c.turns = {3};
      s.plan.actors[y[d]].collective = c;
    }
  }
  void turns(std::vector<int> of_x, std::vector<int> of_y, int devices = 2) {
    for (int d = 0; d < devices; ++d)
      s.plan.actors[x[d]].collective->turns = of_x, s.plan.actors[y[d]].collective->turns = of_y;
  }
  std::string error() {
    return error_of([&] { verify(s.plan); });
  }
};

TEST(Verify, ACollectiveHasATurnForEachAct) {
  EXPECT_EQ(Rates().error(), "no error");
  Rates few;
  few.turns({0, 1}, {2});
  for (auto* sequence : {&few.s.plan.communicators[CommunicatorId(0)].sequence}) sequence->pop_back();
  EXPECT_NE(few.error().find("acts 3 times in a launch, but has 2 turns"), std::string::npos) << few.error();
}

TEST(Verify, ASequenceThatNoOrderOfActsFollowsIsRejected) {
  Rates early;  // y waits for all acts of x, but the last of them has a later turn
  early.turns({0, 1, 3}, {2});
  EXPECT_NE(early.error().find("stalls: "), std::string::npos) << early.error();
  EXPECT_NE(early.error().find("turn 2 of communicator 0"), std::string::npos) << early.error();
  Rates falling;
  falling.turns({0, 2, 1}, {3});
  EXPECT_NE(falling.error().find("has turn 1 of communicator 0 after turn 2"), std::string::npos) << falling.error();
}

TEST(Verify, MembersAgreeOnAllTurnsOfACollective) {
  Rates apart;
  apart.turns({0, 1, 3}, {2}, 1);
  EXPECT_NE(apart.error().find("it has the turns 0, 1, 2 here, but 0, 1, 3 for another member"), std::string::npos)
      << apart.error();
}

TEST(Verify, SetsOfSlicesDivideTheActsOfAnInput) {
  InputFetchPlan fed;
  Actor& in = fed.s.plan.actors[fed.in];
  in.slices.push_back(in.slices[0]);
  EXPECT_NE(error_of([&] { verify(fed.s.plan); }).find("has 2 sets of slices, but acts 1 times in a launch"),
            std::string::npos);
  in.slices[1].set("shape", Ints{8});
  EXPECT_NE(error_of([&] { verify(fed.s.plan); }).find("slices of operand 0 have different whole shapes, [4] and [8]"),
            std::string::npos);
  in.slices[1].set("begin", Ints{6});
  EXPECT_NE(error_of([&] { verify(fed.s.plan); }).find("is not within the whole"), std::string::npos);
}

}  // namespace
}  // namespace karez::plan
