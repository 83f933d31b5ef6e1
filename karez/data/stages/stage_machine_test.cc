// Runs random data sets under random schedules: acts of several lanes at the same time, delayed messages, restarts,
// errors and resumed streams. The elements are compared with lists.
#include "karez/data/stages/stage_machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>

#include "karez/data/stages/sequential_reader.h"
#include "karez/data/stages/test_random_datasets.h"

namespace karez::data {
namespace {

using plan::StageId;
using plan::StageMessage;

// Drives a machine with one thread: each step delivers a message, begins an act or ends a running act, at random.
// Messages from one stage to another keep their order.
class Schedule {
 public:
  Schedule(const Dataset& dataset, std::uint64_t seed)
      : machine(stage_tree(dataset.node(), static_cast<int>(1 + seed % 3))),
        draw_(seed) {}

  // The next element for the reader; nothing at the end of the run.
  std::optional<Element> next() {
    while (machine.reading() && !machine.readable()) require(step(), "deadlock: ", text());
    if (!machine.reading()) return std::nullopt;
    std::optional<Element> element = machine.read();
    collect();
    return element;
  }
  void start(const RunStart& run) {
    machine.start(run);
    collect();
  }
  void stop() {
    machine.stop();
    collect();
  }
  // Executes random steps.
  void work(std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i)
      if (!step()) return;
  }
  // Delivers and executes everything that is left; then no stage may hold an element or a slot.
  void drain() {
    collect();
    while (step()) continue;
    EXPECT_EQ(machine.elements_held(), 0);
    for (StageId id : machine.graph().stages.ids()) {
      EXPECT_EQ(machine.ports(id).free_slots(), machine.ports(id).slots()) << machine.graph().stages[id].name;
      EXPECT_FALSE(machine.ports(id).active());
    }
  }
  std::string text() const {
    std::string out;
    for (StageId id : machine.graph().stages.ids())
      out += cat("\n  ", machine.graph().stages[id].name, ": ", machine.ports(id).text());
    return out;
  }

  StageMachine machine;

 private:
  bool step() {
    std::vector<std::function<void()>> choices;
    for (auto& [to, channel] : channels_)
      if (!channel.empty())
        choices.push_back([&, c = &channel] {
          const StageMessage message = c->front();
          c->pop_front();
          machine.deliver(message);
        });
    for (StageId id : machine.graph().stages.ids())
      if (machine.ready(id))
        choices.push_back([this, id] {
          running_.push_back(machine.begin(id));
          machine.execute(running_.back());
        });
    for (std::size_t i = 0; i < running_.size(); ++i)
      choices.push_back([this, i] {
        StageExecution execution = std::move(running_[i]);
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
        machine.complete(execution);
      });
    if (choices.empty()) return false;
    choices[static_cast<std::size_t>(draw_.below(static_cast<std::int64_t>(choices.size())))]();
    collect();
    return true;
  }
  void collect() {
    for (const StageMessage& message : machine.sent())
      channels_[{message.to, message.kind == StageMessage::Kind::filled ? message.port : -1}].push_back(message);
    machine.sent().clear();
  }

  Draw draw_;
  std::map<std::pair<StageId, int>, std::deque<StageMessage>> channels_;
  std::vector<StageExecution> running_;
};

std::uint64_t pipelines() { return std::getenv("KAREZ_ALL") != nullptr ? 100'000 : 1'000; }

Numbers rest(Schedule& schedule) {
  Numbers out;
  while (std::optional<Element> element = schedule.next()) out.push_back(number_of(*element));
  return out;
}

TEST(StageMachine, EverySchedulePassesOnTheSameElements) {
  for (std::uint64_t seed = 0; seed < pipelines(); ++seed) {
    Draw draw(seed);
    const ModelledDataset random = random_dataset(draw);
    SCOPED_TRACE(cat("seed ", seed, "\n", random.dataset.text()));
    Schedule schedule(random.dataset, seed);
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      schedule.start({epoch});
      ASSERT_EQ(rest(schedule), random.model(epoch)) << "epoch " << epoch;
    }
    schedule.drain();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(StageMachine, UnorderedLanesPassOnTheSameElementsInAnyOrder) {
  for (std::uint64_t seed = 0; seed < pipelines() / 3; ++seed) {
    Draw draw(seed);
    RandomDatasetOptions options;
    ModelledDataset random = random_dataset(draw, options);
    const Dataset unordered = random.dataset.map([](const Element& e) { return e; }, {3, false});
    SCOPED_TRACE(cat("seed ", seed, "\n", random.dataset.text()));
    Schedule schedule(unordered, seed);
    schedule.start({});
    Numbers numbers = rest(schedule), expected = random.model(0);
    std::sort(numbers.begin(), numbers.end());
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(numbers, expected);
    schedule.drain();
  }
}

TEST(StageMachine, AStreamCanStopAndStartAgainAtAnyMoment) {
  for (std::uint64_t seed = 0; seed < pipelines() / 3; ++seed) {
    Draw draw(seed);
    const ModelledDataset random = random_dataset(draw);
    SCOPED_TRACE(cat("seed ", seed, "\n", random.dataset.text()));
    Schedule schedule(random.dataset, seed);
    for (std::int64_t i = 0; i < 3; ++i) {
      schedule.start({i});
      for (std::int64_t n = draw.below(8); n > 0 && schedule.next(); --n) continue;
      schedule.work(draw.below(30));
      if (draw.chance(0.3)) schedule.stop();
      schedule.work(draw.below(10));
    }
    schedule.start({5});
    ASSERT_EQ(rest(schedule), random.model(5));
    schedule.start({6});
    schedule.stop();
    schedule.drain();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(StageMachine, AnErrorComesAfterThePrecedingElementsAndEndsTheRun) {
  std::int64_t failed = 0;
  for (std::uint64_t seed = 0; seed < pipelines() / 3; ++seed) {
    Draw draw(seed);
    RandomDatasetOptions options;
    options.errors = true;
    ModelledDataset random = random_dataset(draw, options);
    random.dataset = random.dataset.batch(1).prefetch(2).unbatch();
    SCOPED_TRACE(cat("seed ", seed, "\n", random.dataset.text()));
    Schedule schedule(random.dataset, seed);
    schedule.start({});
    Numbers numbers;
    bool error = false;
    try {
      while (std::optional<Element> element = schedule.next()) numbers.push_back(number_of(*element));
    } catch (const Error& e) {
      error = true;
      EXPECT_STREQ(e.what(), "planted error");
    }
    Numbers expected = random.model(0);
    if (error) expected.resize(std::min(expected.size(), numbers.size()));
    ASSERT_EQ(numbers, expected);
    EXPECT_FALSE(schedule.next());
    schedule.drain();
    failed += error;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(failed, static_cast<std::int64_t>(pipelines() / 20));
}

TEST(StageMachine, AStreamResumesFromTheStateOfAnyElement) {
  for (std::uint64_t seed = 0; seed < pipelines(); ++seed) {
    Draw draw(seed);
    const ModelledDataset random = random_dataset(draw);
    SCOPED_TRACE(cat("seed ", seed, "\n", random.dataset.text()));
    const std::int64_t epoch = draw.below(3);
    const Numbers expected = random.model(epoch);
    Schedule schedule(random.dataset, seed);
    schedule.start({epoch});
    StreamStateRef state;
    std::size_t read = 0;
    // Resumes two times, from states that were printed and parsed.
    for (int time = 0; time < 2; ++time) {
      for (std::int64_t n = draw.below(20); n > 0; --n) {
        std::optional<Element> element = schedule.next();
        if (!element) break;
        ASSERT_EQ(number_of(*element), expected.at(read));
        state = element->state;
        ++read;
      }
      schedule.start({epoch, parse_stream_state(print(state))});
    }
    ASSERT_EQ(rest(schedule), Numbers(expected.begin() + static_cast<std::ptrdiff_t>(read), expected.end()))
        << "after " << read << " elements, state " << print(state);
    schedule.drain();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace karez::data
