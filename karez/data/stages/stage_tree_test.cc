// Tests of automatic numbers of lanes and slots: which stages have them, and that changes of them only delay acts.
#include "karez/data/stages/stage_tree.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "karez/base/text.h"
#include "karez/data/stages/test_random_datasets.h"
#include "karez/data/stages/test_schedule.h"

namespace karez::data {
namespace {

std::uint64_t pipelines() { return std::getenv("KAREZ_ALL") != nullptr ? 100'000 : 1'000; }

Element same(const Element& e) { return e; }
bool any(const Element&) { return true; }

Numbers rest(Schedule& schedule) {
  Numbers out;
  while (std::optional<Element> element = schedule.next()) out.push_back(number_of(*element));
  return out;
}

// The elements are scalars of 8 bytes and batches of them, so most limits are lower than what stages need.
DatasetOptions random_limits(Draw& draw) {
  DatasetOptions options;
  if (draw.chance(0.8)) options.bytes = draw.chance(0.5) ? draw.between(1, 8) : draw.between(9, 60);
  if (draw.chance(0.5)) options.cpu = static_cast<int>(draw.between(1, 2));
  return options;
}

// The units of a tree: "stages: lanes, slots".
std::string units_of(const Dataset& dataset, int slots = automatic) {
  const StageTree tree = stage_tree(dataset.node(), slots);
  std::string out;
  for (const TunedUnit& unit : tree.tuned) {
    out += cat(out.empty() ? "" : "; ", join(unit.stages, " "), ": 1-", unit.most_lanes, ", ", unit.least_slots, "-",
               unit.most_slots, unit.consumer < 0 ? "" : cat(" for ", unit.consumer));
    for (StageId stage : unit.stages) EXPECT_LE(unit.most_slots, tree.graph.stages[stage].slots);
  }
  return out;
}

TEST(AutomaticNumbers, ATreeNamesTheStagesWhoseNumbersAreChosen) {
  const Dataset numbers = range(9).filter(any);
  EXPECT_EQ(units_of(numbers.map(same, {3})), "") << "the slots of the reader stay 2";
  EXPECT_EQ(stage_tree(numbers.map(same).node()).graph.stages.back().slots, 2);
  EXPECT_EQ(units_of(range(9).map(same, {automatic})), "0: 1-1, 1-256 for 1; 1: 1-64, 1-256");
  EXPECT_EQ(units_of(range(9).map(same, {automatic}).batch(2)), "0: 1-1, 1-256 for 1; 1: 1-64, 1-256; 2: 1-1, 1-256");
  EXPECT_EQ(units_of(numbers.map(same, {automatic}).batch(2), 5), "0: 1-1, 1-256 for 1; 1: 1-64, 1-256")
      << "the slots of the reader are given";
  EXPECT_EQ(units_of(numbers.map(same, {automatic}), 5), "0: 1-1, 1-256 for 1; 1: 1-64, 5-256");
  EXPECT_EQ(units_of(numbers.prefetch(7).filter(any, {automatic})), "0: 1-1, 7-256 for 1; 1: 1-64, 1-256");
  EXPECT_EQ(units_of(numbers.map(same, {automatic}).map(same, {automatic})),
            "0: 1-1, 1-256 for 1; 1: 1-64, 1-256 for 2; 2: 1-64, 1-256");
  EXPECT_EQ(units_of(numbers.map(same, {3}).map(same, {automatic})), "1: 1-1, 6-256 for 1; 2: 1-64, 1-256");
  EXPECT_EQ(units_of(numbers.map(same, {automatic}).map(same, {3}), 2), "0: 1-1, 1-256 for 1; 1: 1-64, 4-256");
  EXPECT_EQ(units_of(numbers.prefetch(automatic).batch(2), 2), "0: 1-1, 1-256");
  EXPECT_EQ(units_of(numbers.map(same, {.parallel = automatic, .lanes = 4}), 2), "0: 1-1, 1-256 for 1; 1: 1-4, 2-256");
  const auto inner = [](const Element&) { return range(3); };
  EXPECT_EQ(units_of(range(9).interleave(inner, {.cycle = 3, .tuned = true})), "0 1 2: 1-3, 2-256; 3: 1-1, 1-256");
  EXPECT_EQ(units_of(range(9).interleave(inner, {.cycle = 1, .tuned = true})), "") << "there is nothing to choose";
  EXPECT_EQ(numbers.map(same, {.parallel = automatic, .name = "f"}).prefetch(automatic).text(),
            "prefetch(auto)\nmap(f, parallel=auto)\nfilter\nrange(0, 9, 1)\n");
  EXPECT_EQ(range(9).interleave(inner, {.cycle = 3, .tuned = true}).text(),
            "interleave(cycle=3, block=1, parallel=auto)\nrange(0, 9, 1)\n");
  EXPECT_THROW(numbers.map(same, {-1}), Error);
  EXPECT_THROW(numbers.prefetch(0), Error);
}

TEST(AutomaticNumbers, ChangesAtAnyTimeChangeNoElementAndStopNoStream) {
  std::int64_t changed = 0;
  for (std::uint64_t seed = 0; seed < pipelines(); ++seed) {
    Draw draw(seed);
    ModelledDataset random = random_dataset(draw, {.automatic = true});
    if (draw.chance(0.3)) random.dataset = random.dataset.with_options(random_limits(draw));
    SCOPED_TRACE(cat("seed ", seed, "\n", random.dataset.text()));
    CoreBudget budget{.cores = static_cast<int>(1000 * draw.between(1, 3))};
    Schedule schedule(random.dataset, seed, budget);
    changed += !schedule.machine.tree().tuned.empty();
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      schedule.start({epoch});
      for (std::int64_t n = draw.below(8); n > 0 && schedule.next(); --n) continue;
      if (draw.chance(0.3)) schedule.stop();
      schedule.work(draw.below(20));
      schedule.start({epoch + 3});
      ASSERT_EQ(rest(schedule), random.model(epoch + 3));
    }
    schedule.drain();
    EXPECT_EQ(budget.used, 0);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(changed, static_cast<std::int64_t>(pipelines() / 3));
}

TEST(AutomaticNumbers, ALowerNumberOfLanesHoldsFromTheNextActOnAndSoDoTheCores) {
  const Dataset dataset = range(400).map([](const Element& e) { return e; }, {automatic});
  CoreBudget budget{.cores = 1'000'000};
  StageMachine machine(stage_tree(dataset.node(), 4));
  machine.set_core_budget(&budget);
  const StageId source(0), lanes(1);
  ASSERT_EQ(machine.tree().tuned.size(), 2u);
  const auto fill = [&] {
    for (; machine.ready(source); machine.deliver_all()) {
      StageExecution act = machine.begin(source);
      machine.execute(act);
      machine.complete(act);
    }
  };
  const auto begin_all = [&](std::vector<StageExecution>& acts) {
    for (fill(); machine.ready(lanes); fill()) {
      acts.push_back(machine.begin(lanes));
      machine.execute(acts.back());
    }
  };
  const auto end_first = [&](std::vector<StageExecution>& acts) {
    machine.complete(acts.front());
    acts.erase(acts.begin());
    machine.deliver_all();
    while (machine.readable()) {
      machine.read();
      machine.deliver_all();
    }
  };
  machine.start({});
  machine.deliver_all();
  for (const StageId stage : {lanes, source}) {  // the starts
    StageExecution act = machine.begin(stage);
    machine.execute(act);
    machine.complete(act);
    machine.deliver_all();
  }
  std::vector<StageExecution> acts;
  machine.set_numbers(0, 1, 20, 1);
  machine.set_numbers(1, 5, 10, 1);
  begin_all(acts);
  EXPECT_EQ(acts.size(), 5u);
  machine.set_numbers(1, 2, 10, 1);
  for (int running : {4, 3, 2, 2, 2}) {  // acts that run already end, and no other one begins before fewer than 2 run
    end_first(acts);
    begin_all(acts);
    EXPECT_EQ(acts.size(), static_cast<std::size_t>(running));
  }
  machine.set_numbers(1, 8, 16, 0.5);
  begin_all(acts);
  EXPECT_EQ(acts.size(), 8u);
  budget.cores = 3000;  // the two acts that began before count as a core each
  for (int i = 0; i < 8; ++i) end_first(acts);
  begin_all(acts);
  EXPECT_EQ(acts.size(), 6u);
  machine.set_numbers(1, 8, 3, 0);  // fewer slots than are taken
  for (int running : {5, 4, 3, 3, 3}) {
    end_first(acts);
    begin_all(acts);
    EXPECT_EQ(acts.size(), static_cast<std::size_t>(running));
  }
  while (!acts.empty()) end_first(acts);
  EXPECT_EQ(budget.used, 0);
}

}  // namespace
}  // namespace karez::data
