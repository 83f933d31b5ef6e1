// Tests of the plan verifier's errors about ids, registers, operands and liveness.
#include <gtest/gtest.h>

#include <functional>

#include "karez/base/test_error.h"
#include "karez/base/test_golden.h"
#include "karez/plan/acts.h"
#include "karez/plan/dry_run.h"
#include "karez/plan/plan.h"
#include "karez/plan/test_plan_builder.h"

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
      collective.kind = CollectiveKind::all_reduce;
      collective.reduce = Reduce::sum;
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

// Turns the all_reduce into an all_to_all in which each member sends half of its elements to the other member.
void exchange_halves(Plan& plan) {
  for (int actor : {1, 4}) {
    Collective& c = *plan.actors[ActorId(actor)].collective;
    c.kind = CollectiveKind::all_to_all;
    c.reduce.reset();
    c.sends = c.receives = {{0, {0}, {2}}, {1, {2}, {2}}};
  }
}

TEST(Verify, AValidPlanPasses) {
  Plan plan = Sample().s.plan;
  EXPECT_NO_THROW(verify(plan));
  exchange_halves(plan);
  EXPECT_NO_THROW(verify(plan));
}

// Each row breaks one property of a valid plan. The error must contain the text of the row.
TEST(Verify, EveryFaultIsReported) {
  using Break = std::function<void(Plan&)>;
  const std::pair<const char*, Break> rows[] = {
      {"transfer of 'w': bytes must be at least 0, got -1",
       [](Plan& p) {
         p.transfers.push_back({CollectiveKind::all_reduce, "data", "w", -1});
       }},
      {"size overflows 64 bits",
       [](Plan& p) {
         p.transfers = {{CollectiveKind::all_reduce, "", "", INT64_MAX}, {CollectiveKind::all_reduce, "", "", 1}};
       }},
      {"size overflows 64 bits", [](Plan& p) { p.blocks[BlockId(0)].bytes = INT64_MAX; }},
      {"plan: rank 3 is not in a world of size 1", [](Plan& p) { p.rank = 3; }},
      {"devices 1 and 0 are the same device, 0.0", [](Plan& p) { p.devices[DeviceId(1)].device = 0; }},
      {"stream 1 names device 7, which does not exist (the plan has 2, numbered from 0)",
       [](Plan& p) { p.streams[StreamId(1)].device = DeviceId(7); }},
      {"block b0: bytes must be at least 0, got -1", [](Plan& p) { p.blocks[BlockId(0)].bytes = -1; }},
      {"is a variable without a name",
       [](Plan& p) {
         p.blocks.push_back({BlockKind::variable, DeviceId(0), 4, "", ""});
       }},
      {"variable 'w' has two blocks on device 0",
       [](Plan& p) {
         for (int i = 0; i < 2; ++i) p.blocks.push_back({BlockKind::variable, DeviceId(0), 4, "w", "f32[1]"});
       }},
      {"names stream 9, which does not exist (the plan has 2, numbered from 0)",
       [](Plan& p) { p.actors[ActorId(0)].stream = StreamId(9); }},
      {"register r1 has 0 slots", [](Plan& p) { p.registers[RegisterId(1)].slots = 0; }},
      {"as its producer, but that actor does not list the register",
       [](Plan& p) { p.actors[ActorId(0)].outputs.clear(); }},
      {"lists register r1 among its inputs, but the register does not name it",
       [](Plan& p) {
         p.actors[ActorId(0)].inputs.push_back({RegisterId(1), 1});
       }},
      {"register r1 has no consumer", [](Plan& p) { p.registers[RegisterId(1)].consumers.clear(); }},
      {"names consumer 1 twice", [](Plan& p) { p.registers[RegisterId(1)].consumers.push_back(ActorId(1)); }},
      {"is a start or done register, but has 4 bytes", [](Plan& p) { p.registers[RegisterId(0)].bytes = 4; }},
      {"has no bytes, but is in block 0", [](Plan& p) { p.registers[RegisterId(1)].bytes = 0; }},
      {"stride at least 16, the size of a slot; got offset 0 and stride 8",
       [](Plan& p) { p.registers[RegisterId(1)].stride = 8; }},
      {"register r1: offset must be at least 0 and stride at least 16, the size of a slot; got offset -8",
       [](Plan& p) { p.registers[RegisterId(1)].offset = -8; }},
      {"ends at byte 80 of block b0, which has 79 bytes", [](Plan& p) { p.blocks[BlockId(0)].bytes = 79; }},
      {"ends at byte 80 of block b0, which has 40 bytes", [](Plan& p) { p.blocks[BlockId(0)].bytes = 40; }},
      {"register r1 and register r2 share bytes 0 to 16 of block b0, but no tokens keep them apart",
       [](Plan& p) { p.registers[RegisterId(2)].block = BlockId(0); }},
      {"register r1 and register r2 share bytes 79 to 80 of block b0, but no tokens keep them apart",
       [](Plan& p) {
         p.blocks[BlockId(0)].bytes = 4096;
         p.registers[RegisterId(2)].block = BlockId(0);
         p.registers[RegisterId(2)].offset = 79;
       }},
      {"an operand f32[4] ends at byte 24 of register r1, which has slots of 16 bytes",
       [](Plan& p) { p.actors[ActorId(0)].calls[0].out[0].offset = 8; }},
      {"an operand f32[4] ends at byte 80 of block b1, which has 64 bytes",
       [](Plan& p) { p.actors[ActorId(0)].calls[0].out[0] = in_block(BlockId(1), View(DType::f32, {4}), 64); }},
      {"which is not a port of the actor", [](Plan& p) { p.actors[ActorId(0)].calls[0].out[0].reg = RegisterId(2); }},
      {"an operand writes register r1, which is only an input of the actor",
       [](Plan& p) { p.actors[ActorId(1)].collective->out.reg = RegisterId(1); }},
      {"an operand f32[4] ends at byte 24 of register r1, which has slots of 16 bytes",
       [](Plan& p) { p.actors[ActorId(1)].collective->in.offset = 8; }},
      {"an operand f32[4] ends at byte 24 of register r2, which has slots of 16 bytes",
       [](Plan& p) { p.actors[ActorId(1)].collective->out.offset = 8; }},
      {"an operand f32[4] ends at byte 80 of block b1, which has 64 bytes",
       [](Plan& p) { p.actors[ActorId(1)].collective->staging = in_block(BlockId(1), four, 64); }},
      {"has a negative stride", [](Plan& p) { p.actors[ActorId(0)].calls[0].out[0].view.strides[0] = -1; }},
      {"has neither register nor block", [](Plan& p) { p.actors[ActorId(0)].calls[0].out[0].reg = RegisterId(); }},
      {"writes the constant block",
       [](Plan& p) {
         p.blocks.push_back({BlockKind::constant, DeviceId(0), 16, "", ""});
         p.actors[ActorId(0)].calls[0].out[0] = in_block(BlockId(p.blocks.size() - 1), View(DType::f32, {4}));
       }},
      {"team must be at least 1, got 0", [](Plan& p) { p.actors[ActorId(0)].calls[0].team = 0; }},
      {"the call has no kernel", [](Plan& p) { p.actors[ActorId(0)].calls[0].kernel.clear(); }},
      {"a set-up call names register r1; it may only use blocks",
       [](Plan& p) { p.setup.push_back(p.actors[ActorId(0)].calls[0]); }},
      {"lists register r1 twice",
       [](Plan& p) { p.actors[ActorId(0)].outputs.push_back(p.actors[ActorId(0)].outputs[0]); }},
      {"the period of register r1 must be at least 1, got 0",
       [](Plan& p) { p.actors[ActorId(0)].outputs[0].period = 0; }},
      {"has calls, but its body is state", [](Plan& p) { p.actors[ActorId(0)].body = BodyKind::state; }},
      {"its body is compute, but it has a collective", [](Plan& p) { p.actors[ActorId(1)].body = BodyKind::compute; }},
      {"has no binding", [](Plan& p) { p.actors[ActorId(2)].body = BodyKind::fetch; }},
      {"has bindings, but its body is compute", [](Plan& p) { p.actors[ActorId(2)].binding = "x"; }},
      {"names communicator 5, which does not exist (the plan has 1, numbered from 0)",
       [](Plan& p) { p.actors[ActorId(1)].collective->communicator = CommunicatorId(5); }},
      {"turn 1 of communicator 0 does not exist; its sequence has 1 turn",
       [](Plan& p) { p.actors[ActorId(1)].collective->turns = {1}; }},
      {"device 0.0 is not a member of communicator 0",
       [](Plan& p) { p.communicators[CommunicatorId(0)].members[0].device = 5; }},
      {"expected one peer box for each of the 2 members, got 1",
       [](Plan& p) { p.actors[ActorId(1)].collective->sends.resize(1); }},
      {"which receives a box of [3] from it",
       [](Plan& p) {
         exchange_halves(p);
         p.actors[ActorId(4)].collective->receives[0].size = {3};
       }},
      {"is all_gather sum here, but all_reduce sum for another member",
       [](Plan& p) { p.actors[ActorId(4)].collective->kind = CollectiveKind::all_gather; }},
      {"turn 0 of communicator 0 uses algorithm flat here, but direct for another member",
       [](Plan& p) { p.actors[ActorId(4)].collective->algorithm = CollectiveAlgorithm::flat; }},
      {"its sequence has 2 turns, but device 0.0 has collectives for 1",
       [](Plan& p) { p.communicators[CommunicatorId(0)].sequence.push_back("x"); }},
      {"a chunk of 0 bytes", [](Plan& p) { p.communicators[CommunicatorId(0)].chunk = 0; }},
      {"link 0 names register 99",
       [](Plan& p) {
         p.links.push_back({RegisterId(99), p.devices[DeviceId(0)], true, 1});
       }},
      {"turn 0 of communicator 0 is all_reduce max here, but all_reduce sum for another member",
       [](Plan& p) { p.actors[ActorId(4)].collective->reduce = Reduce::max; }},
      {"turn 0 of communicator 0 has type f32[2] here, but f32[4] for another member",
       [](Plan& p) {
         p.actors[ActorId(4)].collective->in.view = p.actors[ActorId(4)].collective->out.view = View(DType::f32, {2});
       }},
      {"communicator 0: device 0.0 is listed twice",
       [](Plan& p) {
         p.communicators[CommunicatorId(0)].members.push_back(p.communicators[CommunicatorId(0)].members[0]);
       }},
      {"names communicator -1, which does not exist (the plan has 1, numbered from 0)",
       [](Plan& p) { p.actors[ActorId(1)].collective->communicator = CommunicatorId(); }},
      {"turn -1 of communicator 0", [](Plan& p) { p.actors[ActorId(1)].collective->turns = {-1}; }},
      {"register r1 has -2 slots", [](Plan& p) { p.registers[RegisterId(1)].slots = -2; }},
      {"register r1 has 40000 slots", [](Plan& p) { p.registers[RegisterId(1)].slots = 40000; }},
      {"register r1 names producer 77", [](Plan& p) { p.registers[RegisterId(1)].producer = ActorId(77); }},
      {"register r1 names consumer -3", [](Plan& p) { p.registers[RegisterId(1)].consumers[0] = ActorId(-3); }},
      {"register r1 is in the constant block b0", [](Plan& p) { p.blocks[BlockId(0)].kind = BlockKind::constant; }},
      {"the period of register r1 must be at least 1, got -1",
       [](Plan& p) { p.actors[ActorId(1)].inputs[0].period = -1; }},
      {"has a negative size", [](Plan& p) { p.actors[ActorId(0)].calls[0].out[0].view.shape[0] = -4; }},
      {"runs in acts 0..2, but the actor acts once in a launch",
       [](Plan& p) { p.actors[ActorId(0)].calls[0].acts = {0, 2}; }},
      {"runs in acts 1..1, but the actor acts once in a launch",
       [](Plan& p) { p.actors[ActorId(0)].calls[0].acts = {1, 1}; }},
      {"runs in acts -1..1, but the actor acts once in a launch",
       [](Plan& p) { p.actors[ActorId(0)].calls[0].acts = {-1, 1}; }},
      {"has no turn in the sequence of communicator 0",
       [](Plan& p) { p.actors[ActorId(1)].collective->turns.clear(); }},
      {"has turn 0 of communicator 0 twice", [](Plan& p) { p.actors[ActorId(1)].collective->turns = {0, 0}; }},
      {"would act once in a launch, but register", [](Plan& p) { p.actors[ActorId(1)].inputs[0].period = 2; }},
  };
  for (const auto& [expected_error, damage] : rows) {
    Plan plan = Sample().s.plan;
    damage(plan);
    std::string error = error_of([&] { verify(plan); });
    EXPECT_NE(error.find(expected_error), std::string::npos) << "expected: " << expected_error << "\nbut: " << error;
  }
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
  PlanBuilder s;  // a's second act waits for b, b waits for two acts of c, and c's second act waits for a's second act
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

}  // namespace
}  // namespace karez::plan
