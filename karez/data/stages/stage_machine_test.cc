// Runs random data sets under random schedules: acts of several lanes at the same time, delayed messages, restarts,
// errors and resumed streams. The elements are compared with lists.
#include "karez/data/stages/stage_machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>

#include "karez/data/stages/sequential_reader.h"
#include "karez/data/stages/test_random_datasets.h"
#include "karez/data/stages/test_schedule.h"
#include "karez/data/test_folder.h"

namespace karez::data {
namespace {

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

// The elements are scalars of 8 bytes and batches of them, so most limits are lower than what stages need.
DatasetOptions random_limits(Draw& draw) {
  DatasetOptions options;
  if (draw.chance(0.8)) options.bytes = draw.chance(0.5) ? draw.between(1, 8) : draw.between(9, 60);
  if (draw.chance(0.5)) options.cpu = static_cast<int>(draw.between(1, 2));
  return options;
}

TEST(StageMachine, LimitsOfBytesAndActsChangeNoElementAndStopNoStream) {
  for (std::uint64_t seed = 0; seed < pipelines(); ++seed) {
    Draw draw(seed);
    const ModelledDataset random = random_dataset(draw);
    const Dataset limited = random.dataset.with_options(random_limits(draw));
    SCOPED_TRACE(cat("seed ", seed, "\n", limited.text()));
    Schedule schedule(limited, seed);
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      schedule.start({epoch});
      for (std::int64_t n = draw.below(8); n > 0 && schedule.next(); --n) continue;
      if (draw.chance(0.3)) schedule.stop();
      schedule.work(draw.below(20));
      schedule.start({epoch + 3});
      ASSERT_EQ(rest(schedule), random.model(epoch + 3));
    }
    schedule.drain();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(StageMachine, ElementsOfEqualSizeNeverExceedTheLimitOfBytes) {
  for (std::int64_t limit : {1, 8, 9, 16, 40, 1000}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Dataset chain = range(60)
                                .filter([](const Element&) { return true; })
                                .prefetch(5)
                                .map([](const Element& e) { return e; }, {3})
                                .prefetch(4)
                                .filter([](const Element& e) { return number_of(e) % 2 == 0; })
                                .with_options({.bytes = limit});
      Schedule schedule(chain, seed);
      schedule.start({});
      ASSERT_EQ(rest(schedule).size(), 30u);
      schedule.most_bytes = 0;  // the first elements were of unknown size
      schedule.start({1});
      schedule.work(1000);  // without the reader
      ASSERT_EQ(rest(schedule).size(), 30u);
      EXPECT_LE(schedule.most_bytes, std::max<std::int64_t>(limit, 8)) << "limit " << limit << ", seed " << seed;
      EXPECT_GE(schedule.most_bytes, std::min<std::int64_t>(limit - 7, 40)) << "limit " << limit << ", seed " << seed;
      schedule.drain();
    }
  }
}

TEST(StageMachine, AnElementLargerThanTheLimitPassesAlone) {
  const auto big = [](const Element& e) {
    return element(HostArray(TensorType{DType::i64, {number_of(e) % 3 * 100}}));
  };
  Schedule schedule(
      range(30).map(big, {2}).prefetch(6).map([](const Element& e) { return e; }, {2}).with_options({.bytes = 100}), 1);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    schedule.start({epoch});
    std::int64_t count = 0;
    for (; std::optional<Element> element = schedule.next(); ++count)
      EXPECT_EQ(array_of(*element).type().bytes(), count % 3 * 800);
    EXPECT_EQ(count, 30);
    if (epoch == 1) { EXPECT_EQ(schedule.most_bytes, 1600); }
    schedule.most_bytes = 0;  // the first elements were of unknown size
  }
  schedule.drain();
}

TEST(StageMachine, ActsAtTheSameTimeAreLimited) {
  for (int cpu : {1, 2, 5, 100}) {
    Schedule schedule(range(300)
                          .map([](const Element& e) { return e; }, {3})
                          .filter([](const Element&) { return true; }, {3})
                          .with_options({.cpu = cpu}),
                      7);
    schedule.start({});
    ASSERT_EQ(rest(schedule).size(), 300u);
    EXPECT_LE(schedule.most_acts, cpu);
    EXPECT_GE(schedule.most_acts, std::min(cpu, 5));
    schedule.drain();
  }
}

// In random_test_datasets the order of elements matters to later stages, so this test has its own data sets.
TEST(StageMachine, UnorderedInterleavePassesOnTheSameElementsInAnyOrder) {
  std::int64_t other_orders = 0;
  for (std::uint64_t seed = 0; seed < pipelines() / 3; ++seed) {
    Draw draw(seed);
    const std::int64_t outer = draw.below(8);
    const auto inner = [](const Element& e) {
      const std::int64_t number = number_of(e);
      return range(10 * number, 10 * number + number % 4);
    };
    const InterleaveOptions interleave{static_cast<int>(draw.between(1, 4)), static_cast<int>(draw.between(1, 2)),
                                       true};
    Dataset ordered = range(outer).filter([](const Element&) { return true; });
    if (draw.chance(0.5)) ordered = ordered.prefetch(2);
    ordered = ordered.interleave(inner, interleave);
    if (draw.chance(0.5)) ordered = ordered.filter([](const Element&) { return true; });
    const Dataset unordered = ordered.with_options({.deterministic = false});
    SCOPED_TRACE(cat("seed ", seed, "\n", unordered.text()));
    const Numbers expected = read_all(ordered);
    Schedule schedule(unordered, seed);
    for (int time = 0; time < 2; ++time) {
      schedule.start({});
      for (std::int64_t n = draw.below(6); n > 0 && schedule.next(); --n) continue;
      schedule.start({});
      Numbers numbers = rest(schedule), sorted = expected;
      other_orders += numbers != expected;
      std::sort(numbers.begin(), numbers.end());
      std::sort(sorted.begin(), sorted.end());
      ASSERT_EQ(numbers, sorted);
      Schedule repeated(unordered.with_options({.deterministic = true}), seed + 1);
      repeated.start({});
      ASSERT_EQ(rest(repeated), expected);
    }
    schedule.drain();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(other_orders, static_cast<std::int64_t>(pipelines() / 10));
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

TEST(StageMachine, AStreamResumesWithAnyNumberOfLanes) {
  for (std::uint64_t seed = 0; seed < pipelines(); ++seed) {
    Draw others(seed + 1'000'000);
    const auto draw_dataset = [&] {
      Draw draw(seed);
      RandomDatasetOptions options;
      options.lanes = &others;
      return random_dataset(draw, options);
    };
    const std::int64_t epoch = others.below(3);
    const ModelledDataset first = draw_dataset();
    const Numbers expected = first.model(epoch);
    StreamStateRef state;
    std::size_t read = 0;
    for (int program = 0; program < 3; ++program) {
      const ModelledDataset random = draw_dataset();
      SCOPED_TRACE(cat("seed ", seed, ", state ", print(state), "\n", random.dataset.text()));
      Schedule schedule(random.dataset, seed);
      schedule.start({epoch, parse_stream_state(print(state))});
      for (std::int64_t n = program == 2 ? 1'000'000 : others.below(15); n > 0; --n) {
        std::optional<Element> element = schedule.next();
        if (!element) break;
        ASSERT_LT(read, expected.size());
        ASSERT_EQ(number_of(*element), expected[read++]);
        state = element->state;
      }
      schedule.stop();
      schedule.drain();
    }
    ASSERT_EQ(read, expected.size());
    if (testing::Test::HasFailure()) return;
  }
}

// The file of a snapshot may appear or disappear between the two programs.
TEST(StageMachine, AStreamResumesWithOrWithoutTheFileOfASnapshot) {
  const TestFolder folder;
  int with_file = 0;
  for (std::uint64_t seed = 0; seed < pipelines() / 3; ++seed) {
    const auto draw_dataset = [&](const char* file) {
      Draw draw(seed);
      RandomDatasetOptions options;
      options.snapshot = folder.path(file);
      return random_dataset(draw, options);
    };
    Draw draw(seed + 1'000'000);
    for (const char* file : {"first", "model", "second"}) std::filesystem::remove(folder.path(file));
    const std::int64_t epoch = draw.below(3);
    const ModelledDataset model = draw_dataset("model");
    const Numbers expected = model.model(epoch);
    SCOPED_TRACE(cat("seed ", seed, "\n", model.dataset.text()));
    StreamStateRef state;
    std::size_t read = 0;
    for (int program = 0; program < 3; ++program) {
      Schedule schedule(draw_dataset(draw.chance(0.5) ? "first" : "second").dataset, seed);
      if (draw.chance(0.3)) {  // an epoch that is complete, unless a later stage ends it early
        schedule.start({epoch});
        ASSERT_EQ(rest(schedule), expected);
      }
      schedule.start({epoch, parse_stream_state(print(state))});
      for (std::int64_t n = program == 2 ? 1'000'000 : draw.below(15); n > 0; --n) {
        std::optional<Element> element = schedule.next();
        if (!element) break;
        ASSERT_LT(read, expected.size());
        ASSERT_EQ(number_of(*element), expected[read++]) << "state " << print(state);
        state = element->state;
      }
      schedule.stop();
      schedule.drain();
    }
    ASSERT_EQ(read, expected.size());
    with_file += std::filesystem::exists(folder.path("first")) || std::filesystem::exists(folder.path("second"));
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(with_file, static_cast<int>(pipelines() / 10));
}

}  // namespace
}  // namespace karez::data
