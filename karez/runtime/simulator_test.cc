// Tests of the simulator: the times of pipelines, random plans with random delays, and the detection of injected
// faults.
#include "karez/runtime/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>

#include "karez/base/philox.h"
#include "karez/base/test_error.h"
#include "karez/plan/acts.h"
#include "karez/runtime/test_plans.h"

namespace karez::runtime {
namespace {

// a -> b -> c, each on its own stream, with `pieces` pieces per launch.
struct Chain {
  PlanBuilder s;
  ActorId a = s.actor("a", 0), b = s.actor("b", 1), c = s.actor("c", 2);
  RegisterId ab, bc;
  Chain(int pieces, int slots, std::int64_t bytes = 0) {
    s.start(a, pieces);
    ab = s.edge(a, {b}, slots, bytes);
    bc = s.edge(b, {c}, slots, bytes);
    s.done(c, pieces);
  }
};

TEST(Simulator, ThreeUnitActorsWithTwoSlotsAreAllActiveAtTimeTwo) {
  Chain chain(6, 2);
  for (Occupancy occupancy : {Occupancy::worker, Occupancy::stream}) {
    Simulation result = simulate(chain.s.plan, {.occupancy = occupancy});
    for (ActorId actor : {chain.a, chain.b, chain.c}) EXPECT_TRUE(is_active(result, actor, 2)) << actor;
    EXPECT_FALSE(is_active(result, chain.c, 1.5));
    EXPECT_EQ(result.makespan, 8) << "expected one unit for each of six pieces, and two units to fill the pipeline";
  }
}

TEST(Simulator, ActorsWithOneSlotBetweenThemTakeTurns) {
  Chain chain(6, 1);
  Simulation result = simulate(chain.s.plan);
  for (double time = 0.5; time < result.makespan; ++time)
    EXPECT_FALSE(is_active(result, chain.a, time) && is_active(result, chain.b, time))
        << "a and b are both active at time " << time;
  EXPECT_GE(result.makespan, 12);
}

TEST(Simulator, OneWorkerServesThreeStreamsInSequence) {
  Chain chain(6, 2);
  EXPECT_EQ(simulate(chain.s.plan, {.workers = 1}).makespan, 18);
  EXPECT_EQ(simulate(chain.s.plan, {.workers = 1, .occupancy = Occupancy::stream}).makespan, 8)
      << "timers do not occupy a worker";
}

TEST(Simulator, TheSlowestActorDeterminesTheMakespan) {
  constexpr int pieces = 200;
  for (int slow : {0, 1, 2}) {
    Chain chain(pieces, 2);
    // Irregular durations; on average 1.3 for the slowest actor and 0.9 for the others.
    auto duration = [&](ActorId actor, std::int64_t act) {
      double jitter =
          unit_double(philox_word(5, static_cast<std::uint64_t>(actor.index), static_cast<std::uint64_t>(act)));
      return actor.index == slow ? 1.2 + 0.2 * jitter : 0.8 + 0.2 * jitter;
    };
    double busy = 0;
    for (int act = 0; act < pieces; ++act) busy += duration(ActorId(slow), act);
    Simulation result = simulate(chain.s.plan, {.duration = duration});
    EXPECT_LE(result.makespan, 1.05 * busy) << "the slowest actor is " << slow;
    EXPECT_GE(result.makespan, busy);
  }
}

TEST(Simulator, AFastProducerUsesNoMoreMemoryThanSlotsTimesSize) {
  constexpr int pieces = 100000;
  Chain chain(pieces, 3, 1024);
  Simulation result =
      simulate(chain.s.plan, {.duration = [&](ActorId actor, std::int64_t) { return actor == chain.b ? 1.0 : 0.1; }});
  EXPECT_EQ(result.acts.size(), 3u * pieces);
  EXPECT_EQ(result.peak_slots[chain.ab], 3);
  EXPECT_LE(peak_bytes(chain.s.plan, result)[DeviceId(0)], 2 * 3 * 1024);
}

// The middle actor overwrites its input with its output, the variable is always in use, and block b2 is never used.
TEST(Simulator, BytesThatTwoSlotsShareCountOnce) {
  const Plan plan = plan::parse_plan(R"(plan "in place" world 1 rank 0 hash 0
device 0: 0 0 "cpu"
device 1: 0 1 "cpu"
stream 0: "compute" device 0 worker 0
block b0: register device 0 bytes 1000
block b1: variable device 0 bytes 40 name "w" layout "f32[10]"
block b2: register device 1 bytes 77
register r0: session -> a0
register r1: a0 -> a1 slots 2 bytes 100 in b0 + 64 stride 128
register r2: a1 -> a2 bytes 100 in b0 + 64 stride 128
register r3: a2 -> session
register r4: session -> a1 bytes 40 in b1 stride 40
actor a0: compute "first" stream 0 in r0 out r1
actor a1: compute "in place" stream 0 in r1, r4 out r2
actor a2: compute "last" stream 0 in r2 out r3
)");
  const Simulation run = simulate(plan);
  EXPECT_EQ(peak_bytes(plan, run), (ById<DeviceId, std::int64_t>{140, 0}));
  Plan shifted = plan;
  shifted.registers[RegisterId(2)].offset = 110;  // 46 bytes of r1's first slot are shared, 54 are not
  EXPECT_EQ(peak_bytes(shifted, simulate(shifted)), (ById<DeviceId, std::int64_t>{186, 0}));
}

TEST(Simulator, TheNumberOfMessagesEqualsThePlannedNumber) {
  Chain chain(7, 2);
  EXPECT_EQ(simulate(chain.s.plan, {.launches = 3}).messages, 3 * messages_per_launch(chain.s.plan));
}

TEST(Simulator, EqualSeedsGiveEqualRuns) {
  RandomGraph graph(11, 3);
  auto run = [&](std::uint64_t seed) { return simulate(graph.s.plan, {.seed = seed, .launches = 2, .delay = 3}).acts; };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(Simulator, RandomPlansWithRandomDelaysViolateNoInvariant) {
  const char* seed_text = std::getenv("KAREZ_SEED");
  const unsigned first = seed_text ? static_cast<unsigned>(std::atoi(seed_text)) : 1,
                 count = std::getenv("KAREZ_ALL") != nullptr ? 1'000'000 : 3000;
  for (unsigned seed = first; seed < first + count; ++seed) {
    RandomGraph graph(seed, 3);
    SimulationOptions options{.seed = seed,
                              .launches = 3,
                              .occupancy = seed % 2 ? Occupancy::worker : Occupancy::stream,
                              .delay = static_cast<double>(seed % 5)};
    options.duration = [&](ActorId actor, std::int64_t act) {
      return 2 *
             unit_double(philox_word(seed, static_cast<std::uint64_t>(actor.index), static_cast<std::uint64_t>(act)));
    };
    try {
      EXPECT_EQ(simulate(graph.s.plan, options).messages, 3 * messages_per_launch(graph.s.plan));
    } catch (const Error& error) { FAIL() << "KAREZ_SEED=" << seed << ": " << error.what(); }
  }
}

TEST(Simulator, LostAndDuplicateMessagesAreDetected) {
  for (int times : {0, 2}) {
    int detected = 0;
    for (int faulty = 0; faulty < 40; ++faulty) {
      Chain chain(10, 2);
      int seen = 0;
      SimulationOptions options{.inject_fault = [&](const Message&) { return seen++ == faulty ? times : 1; }};
      detected += error_of([&] { simulate(chain.s.plan, options); }) != "no error";
    }
    EXPECT_EQ(detected, 40) << "in each run one message arrives " << times << " times";
  }
}

TEST(Simulator, MessagesBetweenTwoWorkersNeverOvertakeEachOther) {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b", 1);
  s.start(a, 50);
  s.edge(a, {b}, 4);
  s.done(b, 50);
  for (std::uint64_t seed = 1; seed <= 20; ++seed)  // a delay may be five times as long as an act
    EXPECT_EQ(error_of([&] { simulate(s.plan, {.seed = seed, .delay = 5}); }), "no error") << "seed " << seed;
}

TEST(Simulator, ASlotThatIsFilledWhileAReaderHoldsItIsDetected) {
  PlanBuilder s;  // the quick reader returns its slot twice, so a takes the second return for that of the slow one
  ActorId a = s.actor("a"), quick = s.actor("quick", 1), slow = s.actor("slow", 2);
  s.start(a, 2);
  RegisterId r = s.edge(a, {quick, slow});
  s.done(quick, 2);
  s.done(slow, 2);
  SimulationOptions options{
      .duration = [&](ActorId actor, std::int64_t) { return actor == slow ? 50.0 : 1.0; },
      .inject_fault = [&](const Message& m) { return m.reg == r && m.kind == Message::Kind::returned ? 2 : 1; }};
  std::string error = error_of([&] { simulate(s.plan, options); });
  EXPECT_NE(error.find("slot 0 of r1 is overwritten while it is in use"), std::string::npos) << error;
}

TEST(Simulator, ADeadlockIsReportedWithItsCycle) {
  PlanBuilder s;  // b waits for two pieces of c, c for the second piece of a, and a for b to return its slot
  ActorId a = s.actor("a"), b = s.actor("b"), c = s.actor("c");
  s.start(a, 2);
  s.edge(a, {b});
  s.edge(a, {c}, 2);
  s.edge(c, {b}, 1, 0, 2, 2);
  s.done(b, 2);
  std::string error = error_of([&] { simulate(s.plan); });
  EXPECT_NE(error.find("stalls at 2.0: a0 'a' waits for a free slot of r1 -> a1 'b' waits for r3 to be filled -> "
                       "a2 'c' waits for r2 to be "
                       "filled -> a0 'a'"),
            std::string::npos)
      << error;
}

// Two devices, each with the same two collectives of one communicator. Their operands are produced in opposite orders.
struct TwoMembers {
  PlanBuilder s{2};
  ActorId x[2], y[2];
  TwoMembers() {
    s.plan.communicators.push_back({{s.plan.devices[DeviceId(0)], s.plan.devices[DeviceId(1)]}, 1024, {"x", "y"}});
    for (int d = 0; d < 2; ++d)
      for (int turn = 0; turn < 2; ++turn) {
        ActorId make = s.actor(cat("make", turn, ".", d), 2 * d, d),
                all = s.actor(cat("reduce", turn, ".", d), 2 * d + 1, d, BodyKind::collective);
        s.plan.actors[make].priority = d == 0 ? turn : 1 - turn;
        s.start(make);
        s.edge(make, {all}, 1);
        s.done(all);
        Collective c{CommunicatorId(0), CollectiveKind::all_reduce, Reduce::sum, {turn}, {}, {}, {}, {}, {}, ""};
        c.in.view = c.out.view = View(DType::f32, {0});
        s.plan.actors[all].collective = c;
        (turn == 0 ? x : y)[d] = all;
      }
  }
};

TEST(Simulator, CollectivesRunInTheirTurnsAndTheirDurationBeginsWithTheLastMember) {
  TwoMembers two;
  Simulation result = simulate(two.s.plan, {.launches = 2, .duration = [&](ActorId a, std::int64_t) {
                                              return a == two.x[1] || a == two.x[0] ? 2.0 : 1.0;
                                            }});
  std::vector<ActorId> collectives;
  for (const SimulatedAct& act : result.acts)
    if (two.s.plan.actor(act.actor).collective) collectives.push_back(act.actor);
  ASSERT_EQ(collectives.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    bool is_x = collectives[i] == two.x[0] || collectives[i] == two.x[1];
    EXPECT_EQ(is_x, i % 4 < 2) << "expected x on both devices, then y on both";
  }
  // Device 1 produces x second, at time 2, and the collective takes two units from then on.
  for (const SimulatedAct& act : result.acts)
    EXPECT_TRUE(act.actor != two.x[0] || act.act != 0 || act.end == 4) << act.end;
}

}  // namespace
}  // namespace karez::runtime
