// Tests that slots and priorities alone produce pipeline schedules. Each stage has one stash slot for itself and one
// for each following stage, and backward actors have priority. Then acts follow the 1F1B schedule, in the simulator and
// in the engine, although nothing in the plan names a schedule.
#include <gtest/gtest.h>

#include "karez/runtime/session.h"
#include "karez/runtime/simulator.h"
#include "karez/runtime/test_plans.h"

namespace karez::runtime {
namespace {

// The forward and backward actors of each stage, on the stage's stream, and an update after the last backward act.
struct Pipeline {
  PlanBuilder s;
  std::vector<ActorId> forward, backward;
  std::vector<RegisterId> stash;

  // `removed_slots`: the number of slots that are removed from the stash of stage 0.
  Pipeline(int stages, int pieces, int removed_slots = 0) : s(1, cat("pipeline.", stages, ".", pieces)) {
    for (int i = 0; i < stages; ++i) {
      forward.push_back(s.actor(cat("F", i), i));
      backward.push_back(s.actor(cat("B", i), i));
      s.plan.actors[forward.back()].priority = 1;  // backward actors act first
    }
    s.start(forward[0], pieces);
    for (int i = 0; i < stages; ++i) {
      const auto at = static_cast<std::size_t>(i);
      stash.push_back(s.edge(forward[at], {backward[at]}, std::min(stages - i, pieces) - (i == 0 ? removed_slots : 0)));
      if (i + 1 < stages) s.edge(forward[at], {forward[at + 1]}, 2);
      if (i > 0) s.edge(backward[at], {backward[at - 1]}, 2);
      ActorId update = s.actor(cat("U", i), i);
      s.edge(backward[at], {update}, 1, 0, pieces);
      s.done(update);
    }
    for (const auto* list : {&forward, &backward})
      for (ActorId actor : *list) s.call(actor, "test.timer", {}, {});
  }

  // Returns the 1F1B schedule of a stage, "F0 F1 B0 F2 B1 ...": one forward act for the stage itself and for each
  // following stage, then alternately a backward act and a forward act, then the remaining backward acts.
  static std::string one_f_one_b(int stage, int stages, int pieces) {
    std::string text;
    int forwards = 0, backwards = 0;
    while (forwards < std::min(stages - stage, pieces)) text += cat("F", forwards++, " ");
    while (backwards < pieces) {
      text += cat("B", backwards++, " ");
      if (forwards < pieces) text += cat("F", forwards++, " ");
    }
    return text;
  }
};

double seconds_of(const Pipeline& pipeline, ActorId actor, double forward, double backward) {
  for (ActorId f : pipeline.forward)
    if (f == actor) return forward;
  for (ActorId b : pipeline.backward)
    if (b == actor) return backward;
  return 0;
}

TEST(Pipeline, ActsFollowThe1F1BScheduleInVirtualTime) {
  for (int p : {2, 3, 4})
    for (int m : {4, 8})
      for (std::uint64_t seed : {1u, 2u, 3u}) {
        Pipeline pipeline(p, m);
        SimulationOptions options{.seed = seed};
        options.duration = [&](ActorId actor, std::int64_t) { return seconds_of(pipeline, actor, 1, 2); };
        Simulation result = simulate(pipeline.s.plan, options);
        for (int i = 0; i < p; ++i) {
          const auto at = static_cast<std::size_t>(i);
          std::string text;
          for (const SimulatedAct& act : result.acts) {
            if (act.actor == pipeline.forward[at]) text += cat("F", act.act, " ");
            if (act.actor == pipeline.backward[at]) text += cat("B", act.act, " ");
          }
          EXPECT_EQ(text, Pipeline::one_f_one_b(i, p, m)) << p << " stages, stage " << i;
          EXPECT_EQ(result.peak_slots[pipeline.stash[at]], std::min(p - i, m));
        }
        EXPECT_DOUBLE_EQ(result.makespan, 3.0 * (m + p - 1));
      }
}

TEST(Pipeline, TheBubbleHasTheTheoreticalSizeAndOneSlotLessIsSlower) {
  for (int p = 2; p <= 8; ++p)
    for (int m : {4, 5, 8, 16, 33, 64}) {
      auto makespan = [&](int removed_slots) {
        Pipeline pipeline(p, m, removed_slots);
        SimulationOptions options;
        options.duration = [&](ActorId actor, std::int64_t) { return seconds_of(pipeline, actor, 1, 2); };
        return simulate(pipeline.s.plan, options).makespan;
      };
      const double bubble = 1 - 3.0 * m / makespan(0), expected_bubble = static_cast<double>(p - 1) / (m + p - 1);
      EXPECT_NEAR(bubble, expected_bubble, 0.05 * expected_bubble) << p << " stages, " << m << " pieces";
      if (m > p) { EXPECT_GT(makespan(1), makespan(0)) << p << " stages, " << m << " pieces"; }
    }
}

// A timer ends the acts. It ticks when the engine has begun all acts that run in the simulator at that time.
TEST(Pipeline, ActsFollowThe1F1BScheduleInTheEngine) {
  for (int p : {2, 3, 4})
    for (int m : {4, 8}) {
      Pipeline pipeline(p, m);
      SimulationOptions options;
      options.duration = [&](ActorId actor, std::int64_t) { return seconds_of(pipeline, actor, 1, 1); };
      const Simulation simulated = simulate(pipeline.s.plan, options);
      ManualTimer timer;
      KernelTable table({});
      std::vector<std::string> schedules(static_cast<std::size_t>(p));
      Session session({.workers = 2}, table);
      session.add(timer.kernel());
      Launch launch = session.launch(session.load(pipeline.s.plan));
      for (int time = 0; time < static_cast<int>(simulated.makespan); ++time) {
        std::size_t due = 0;
        for (int i = 0; i < p; ++i)
          for (ActorId actor :
               {pipeline.forward[static_cast<std::size_t>(i)], pipeline.backward[static_cast<std::size_t>(i)]})
            due += is_active(simulated, actor, time);
        ASSERT_TRUE(timer.active(due)) << "expected " << due << " active actors at time " << time << "\n"
                                       << session.wait_graph();
        timer.tick();
      }
      launch.wait();
      std::vector<std::pair<std::int64_t, std::pair<std::size_t, std::string>>> acts;
      for (const EventLog& log : session.events())
        for (const Event& event : log.events)
          for (std::size_t i = 0; i < schedules.size() && event.kind == EventKind::began; ++i) {
            if (event.actor == pipeline.forward[i]) acts.push_back({event.time, {i, cat("F", event.piece, " ")}});
            if (event.actor == pipeline.backward[i]) acts.push_back({event.time, {i, cat("B", event.piece, " ")}});
          }
      std::stable_sort(acts.begin(), acts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const auto& act : acts) schedules[act.second.first] += act.second.second;
      for (int i = 0; i < p; ++i)
        EXPECT_EQ(schedules[static_cast<std::size_t>(i)], Pipeline::one_f_one_b(i, p, m))
            << p << " stages, stage " << i;
    }
}

}  // namespace
}  // namespace karez::runtime
