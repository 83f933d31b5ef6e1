// Tests of automatic numbers of lanes and slots with threads: by the clock, with several streams, and of the cores.
#include "karez/data/tuning/stream_tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "karez/data/stages/test_random_datasets.h"
#include "karez/runtime/stages/dataset_reader.h"

namespace karez::runtime {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void compute(std::chrono::microseconds time) {
  const double end = now() + std::chrono::duration<double>(time).count();
  while (now() < end) continue;
}

// The largest number of calls at the same time.
struct Concurrency {
  std::atomic<int> inside{0}, most{0};
  void enter() {
    const int count = ++inside;
    for (int seen = most; seen < count && !most.compare_exchange_weak(seen, count);) continue;
  }
  void leave() { --inside; }
};

// Reads until the number of calls at the same time has been at least `least`; the numbers must be in order.
bool reads_until(DatasetReader& reader, const Concurrency& calls, int least) {
  const double end = now() + 30;
  for (std::int64_t next = 0; now() < end; ++next) {
    const std::optional<Element> element = reader.next();
    if (!element || number_of(*element) != next) return false;
    if (calls.most >= least) return true;
  }
  return false;
}

TEST(StreamTunerByTheClock, LanesThatWaitBecomeManyMoreThanTheCores) {
  DataThreads threads(64, {}, 1);
  Concurrency calls;
  const auto wait = [&](const Element& e) {
    calls.enter();
    std::this_thread::sleep_for(2ms);
    calls.leave();
    return e;
  };
  DatasetReader reader(range(1'000'000).map(wait, {automatic}), threads);
  reader.start();
  ASSERT_TRUE(reads_until(reader, calls, 20)) << reader.explain();
  EXPECT_THAT(reader.explain(), HasSubstr("of at most 6"));
  EXPECT_THAT(reader.explain(), HasSubstr("% of the time while the reader waited"));
  // The next stream of the data set begins with the numbers of this one, and both run at the same time.
  DatasetReader second(range(1'000'000).map(wait, {automatic}), threads);
  second.start();
  for (std::int64_t i = 0; i < 20; ++i) ASSERT_EQ(number_of(*second.next()), i);
  reader.start();
  ASSERT_TRUE(reads_until(reader, calls, 1));
}

TEST(StreamTunerByTheClock, TheNextStreamOfADataSetBeginsWithTheNumbersOfTheLast) {
  DataThreads threads(64, {}, 1);
  Concurrency calls;
  const Dataset dataset = range(1'000'000).map(
      [&](const Element& e) {
        calls.enter();
        std::this_thread::sleep_for(2ms);
        calls.leave();
        return e;
      },
      {automatic});
  {
    DatasetReader reader(dataset, threads);
    reader.start();
    ASSERT_TRUE(reads_until(reader, calls, 20)) << reader.explain();
  }
  calls.most = 0;
  DatasetReader reader(dataset, threads);
  EXPECT_THAT(reader.explain(), Not(HasSubstr("lanes 1 of")));
  reader.start();
  for (std::int64_t i = 0; i < 50; ++i) ASSERT_EQ(number_of(*reader.next()), i);
  EXPECT_GE(calls.most, 10) << reader.explain();
}

TEST(StreamTunerByTheClock, ActsThatComputeNeverUseMoreCoresThanGivenWhateverTheNumberOfStreams) {
  for (const int cores : {1, 2}) {
    DataThreads threads(64, {}, cores);
    Concurrency calls;
    const auto busy = [&](const Element& e) {
      calls.enter();
      compute(300us);
      calls.leave();
      return e;
    };
    const Dataset dataset = range(400).map(busy, {automatic}).filter([](const Element&) { return true; });
    DatasetReader first(dataset.map(busy, {automatic}), threads), second(dataset, threads);
    first.start(), second.start();
    std::thread other([&] {
      while (second.next()) continue;
    });
    std::int64_t count = 0;
    while (first.next()) ++count;
    other.join();
    EXPECT_EQ(count, 400);
    EXPECT_LE(calls.most, cores) << first.explain();
    EXPECT_GE(calls.most, 1);
    EXPECT_THAT(first.explain(), HasSubstr(cores == 1 ? "and there is 1 core" : "and there are 2 cores"));
  }
}

TEST(StreamTunerByTheClock, AnActThatReadsAnotherStreamUsesNoCoreWhileItWaits) {
  for (const int limit : {0, 1, 8}) {
    DataThreads threads(limit, {}, 1);
    const auto inner = [&](const Element& e) {
      DatasetReader reader(range(3).map(
                               [](const Element& x) {
                                 compute(50us);
                                 return x;
                               },
                               {automatic}),
                           threads);
      reader.start();
      while (reader.next()) continue;
      return e;
    };
    DatasetReader reader(range(60).map(inner, {automatic}), threads);
    reader.start();
    std::int64_t count = 0;
    while (reader.next()) ++count;
    EXPECT_EQ(count, 60);
  }
}

TEST(StreamTunerByTheClock, AnErrorAClosedStreamAndANewEpochLeaveTheCoresFree) {
  DataThreads threads(8, {}, 1);
  const auto fails = [](const Element& e) {
    compute(20us);
    require(ErrorKind::data, number_of(e) != 10, "planted error");
    return e;
  };
  for (int i = 0; i < 3; ++i) {
    DatasetReader reader(range(40).map(fails, {automatic}), threads);
    for (int epoch = 0; epoch < 2; ++epoch) {
      reader.start({epoch});
      for (int n = 0; n < 10; ++n) ASSERT_EQ(number_of(*reader.next()), n);
      EXPECT_THROW(reader.next(), Error);
      EXPECT_EQ(reader.next(), std::nullopt);
    }
    reader.start();
    reader.next();
    reader.close(i != 1);
  }
  DatasetReader reader(range(9).map(fails, {automatic}).prefetch(automatic), threads);
  reader.start();
  std::int64_t count = 0;
  while (reader.next()) ++count;
  EXPECT_EQ(count, 9);
}

// So long that functions which do nothing are short on every machine.
constexpr double long_wake_ns = 100'000;

// Reads until explain() contains the text; the numbers must be in order.
bool reads_until(DatasetReader& reader, const std::string& text, std::int64_t first = 0) {
  const double end = now() + 30;
  for (std::int64_t next = first; now() < end; ++next) {
    const std::optional<Element> element = reader.next();
    if (!element || number_of(*element) != next) return false;
    if (next % 64 == 0 && reader.explain().find(text) != std::string::npos) return true;
  }
  return false;
}

TEST(StreamTunerByTheClock, AShortFunctionIsCalledByTheActorOfOtherStagesUntilItTakesLong) {
  DataThreads threads(8, {}, 2, long_wake_ns);
  std::atomic<bool> slow{false};
  const auto f = [&](const Element& e) {
    if (slow) std::this_thread::sleep_for(500us);
    return e;
  };
  const Dataset dataset = range(1'000'000'000).map(f, {automatic});
  const std::string fused = "it calls functions with automatic lanes itself";
  DatasetReader reader(dataset, threads);
  reader.start({3});
  ASSERT_TRUE(reads_until(reader, fused)) << reader.explain();
  std::int64_t next = reader.state()->numbers.at(0);
  slow = true;
  ASSERT_TRUE(reads_until(reader, "lanes 7 of", next)) << reader.explain();
  next = reader.state()->numbers.at(0);
  EXPECT_EQ(number_of(*reader.next()), next);
  EXPECT_EQ(reader.next()->epoch, 3) << "the epoch goes on";
}

TEST(StreamTunerByTheClock, AStreamThatWouldReadElementsAgainGetsOtherActorsInTheNextEpoch) {
  DataThreads threads(8, {}, 2, long_wake_ns);
  std::atomic<int> generators{0};
  std::atomic<bool> ends{false};
  const auto make = [&](std::int64_t) {
    ++generators;
    auto next = std::make_shared<std::int64_t>(0);
    return Generator{[&, next]() -> std::optional<Element> {
      if (ends) return std::nullopt;
      return element(HostArray::of<std::int64_t>({}, {(*next)++}));
    }};
  };
  DatasetReader reader(from_generator(make).map([](const Element& e) { return e; }, {automatic}), threads);
  int epoch = 0;
  for (const double end = now() + 30; now() < end && reader.explain().find("itself") == std::string::npos; ++epoch) {
    ends = false;
    reader.start({epoch});
    const double epoch_end = now() + 0.2;
    std::int64_t next = 0;
    for (; now() < epoch_end; ++next) ASSERT_EQ(number_of(*reader.next()), next);
    ends = true;
    for (; reader.next(); ++next) continue;
    EXPECT_EQ(generators, epoch + 1) << "no epoch begins again";
    EXPECT_EQ(reader.next(), std::nullopt);
  }
  EXPECT_THAT(reader.explain(), HasSubstr("itself"));
  EXPECT_GE(epoch, 2);
  reader.close();
  EXPECT_EQ(reader.next(), std::nullopt);
}

TEST(StreamTunerByTheClock, AnInterruptWhileActorsAreReplacedLeavesTheReaderUsable) {
  DataThreads threads(8, {}, 2, long_wake_ns);
  int interrupts = 0;
  // Several acts in a row take longer than the time between two calls of `while_waiting`: the tuner chooses after the
  // first one, and the reader then waits for the next one to end.
  const auto f = [&](const Element& e) {
    if (number_of(e) % 20'000 > 19'995) std::this_thread::sleep_for(120ms);
    return true;
  };
  DatasetReader reader(range(1'000'000'000).filter(f).map([](const Element& e) { return e; }, {automatic}), threads,
                       {.while_waiting = [&] {
                         if (++interrupts % 2 != 0) throw std::runtime_error("interrupted");
                       }});
  reader.start();
  std::int64_t next = 0;
  for (const double end = now() + 60; now() < end && reader.explain().find("itself") == std::string::npos;)
    for (const std::int64_t last = next + 20'000; next < last;) try {
        ASSERT_EQ(number_of(*reader.next()), next);
        ++next;
      } catch (const std::runtime_error& error) { ASSERT_THAT(error.what(), HasSubstr("interrupted")); }
  EXPECT_GT(interrupts, 2) << next << reader.explain();
  EXPECT_THAT(reader.explain(), HasSubstr("itself"));
}

TEST(StreamTunerByTheClock, ReadersOfAnInterleaveActAtTheSameTimeIfThatHelps) {
  DataThreads threads(64, {}, 1);
  Concurrency calls;
  const auto inner = [&](const Element& file) {
    return range(1'000'000).map([&, number = number_of(file)](const Element& e) {
      calls.enter();
      std::this_thread::sleep_for(2ms);
      calls.leave();
      return element(HostArray::of<std::int64_t>({}, {8 * number_of(e) + number}));
    });
  };
  DatasetReader reader(range(8).interleave(inner, {.cycle = 8, .tuned = true}), threads);
  reader.start();
  EXPECT_TRUE(reads_until(reader, calls, 8)) << reader.explain();
  EXPECT_THAT(reader.explain(), HasSubstr("actors 0 to 7: lanes 8 of at most 8"));
}

}  // namespace
}  // namespace karez::runtime
