// Tests of the stalls of streams: their sums, the stage that is named, and when a warning is logged.
#include "karez/runtime/stages/stream_stalls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <regex>
#include <thread>

#include "karez/data/stages/stage_scope.h"
#include "karez/data/stages/test_random_datasets.h"
#include "karez/runtime/stages/dataset_reader.h"
#include "karez/runtime/stages/thread_usage.h"

namespace karez::runtime {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

bool any(const Element&) { return true; }

// A stage that takes as long as the test wants.
struct Delay {
  std::atomic<int> microseconds{0};
  Dataset of(const Dataset& dataset, const char* name) {
    return dataset.map(
        [this](const Element& e) {
          std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
          return e;
        },
        {.name = name});
  }
};

// A program that makes a launch of 2 ms with each element and waits for it.
struct Steps {
  DataThreads& pool;
  DatasetReader& reader;
  bool step(std::chrono::microseconds time = 2ms) {
    if (!reader.next()) return false;
    pool.idle_clock()->launched(ticks());
    std::this_thread::sleep_for(time);
    pool.idle_clock()->ended(ticks());
    return true;
  }
};

// "0.3 s of 12.1 s" as numbers.
std::pair<double, double> stall_of(const std::string& report) {
  static const std::regex pattern(R"(waited for data for ([0-9.]+) s of ([0-9.]+) s)");
  std::smatch match;
  if (!std::regex_search(report, match, pattern)) return {-1, -1};
  return {std::stod(match[1]), std::stod(match[2])};
}

// A stream in virtual time, whose source takes as long as the test says. A step of 100 ticks uses each element.
struct VirtualProgram {
  ServedStream stream{data::stage_tree(data::range(100'000)
                                           .filter(any)
                                           .map([](const Element& e) { return e; }, {.name = "read"})
                                           .prefetch(1)
                                           .map([](const Element& e) { return e; }, {.name = "parse"})
                                           .node(),
                                       1),
                      1};
  std::int64_t now = 1'000'000, launches = 0;
  VirtualProgram() { stream.machine->start({}); }
  // Reads an element after the acts of the stages have taken this long, and returns the warning.
  std::string step(std::int64_t read_ticks, std::int64_t parse_ticks = 0) {
    data::StageMachine& machine = *stream.machine;
    const std::int64_t begin = now;
    for (note(); !machine.readable(); note()) {
      plan::StageId ready = machine.ready(plan::StageId(1)) ? plan::StageId(1) : plan::StageId(0);
      data::StageExecution execution = machine.begin(ready);
      stream.note_activity(ready, now);
      if (execution.act.kind == plan::StageAct::Kind::element) now += ready.index == 0 ? read_ticks : parse_ticks;
      machine.execute(execution);
      machine.complete(execution);
    }
    machine.read();
    note();
    std::string warning = note_read(stream, now, now - begin, launches++);
    now += 100;
    return warning;
  }
  void note() {
    stream.machine->deliver_all();
    for (plan::StageId id : stream.machine->graph().stages.ids()) stream.note_activity(id, now);
  }
};

TEST(StreamStalls, EachStageThatLimitsIsNamedOnceUntilTheDataSetHasRecovered) {
  VirtualProgram program;
  for (int i = 0; i < 40; ++i) EXPECT_EQ(program.step(5), "") << "a twentieth of the time";
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(program.step(900), "");
    EXPECT_EQ(program.step(900), "");
    EXPECT_THAT(program.step(900), testing::AllOf(testing::StartsWith("the devices wait for a data set for 90 % of the "
                                                                      "time; it is limited by range(0, 100000, 1) (by "
                                                                      "index), filter, map(read), which acted "),
                                                  HasSubstr("; give the slowest of filter, map(read) parallel=4")));
    for (int i = 0; i < 30; ++i) EXPECT_EQ(program.step(900), "");
    std::vector<std::string> warnings;
    for (int i = 0; i < 30; ++i)
      if (std::string warning = program.step(0, 900); !warning.empty()) warnings.push_back(warning);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr("limited by map(parse), which acted "));
    for (int i = 0; i < 15; ++i) EXPECT_EQ(program.step(0), "");
    for (int i = 0; i < 10; ++i) EXPECT_EQ(program.step(900), "") << "15 steps are too few";
    EXPECT_NE(program.stream.limit, "");
    for (int i = 0; i < 16; ++i) EXPECT_EQ(program.step(0), "");
    EXPECT_EQ(program.stream.limit, "");
  }
}

TEST(StreamStalls, TheReportIsThatOfTheWholeStreamUnlessAStageLimitsItNow) {
  VirtualProgram program;
  const auto text = [&] {
    StreamReport report;
    for (plan::StageId id : program.stream.machine->graph().stages.ids()) {
      report.stages.emplace_back();
      const auto ticks = program.stream.ticks_of(id, program.now);
      for (std::size_t i = 0; i < ticks.size(); ++i) report.stages.back().seconds[i] = static_cast<double>(ticks[i]);
    }
    return stalls_text(program.stream, report, 1e-3, program.now);
  };
  EXPECT_EQ(text(), "");
  program.step(50);
  EXPECT_EQ(text(), "the devices waited for data for 0.000 s of 0.100 s (0.0 %)\n");
  for (int i = 0; i < 10; ++i) program.step(5);
  EXPECT_EQ(text(), "the devices waited for data for 0.050 s of 1.150 s (4.3 %)\n");
  for (int i = 0; i < 5; ++i) program.step(900);
  EXPECT_THAT(text(), HasSubstr("s of 6.150 s (74.0 %); the data set is limited by range"));
  for (int i = 0; i < 16; ++i) program.step(0);
  EXPECT_THAT(text(), HasSubstr("s of 7.750 s (58.7 %); the data set was limited by range"));
}

// Delays by other programs may let the stage or the share differ, but the devices wait in any case.
TEST(StreamStalls, ASourceThatBecomesSlowIsNamedWithinTenLaunches) {
  for (int threads : {3, 0}) {
    DataThreads pool(threads);
    Delay source, model;
    DatasetReader reader(model.of(source.of(data::range(100'000).filter(any), "read").prefetch(2), "parse").prefetch(2),
                         pool, {.slots = 1});
    Steps steps{pool, reader};
    reader.start();
    testing::internal::CaptureStderr();
    for (int i = 0; i < 30; ++i) steps.step();
    source.microseconds = 20'000;
    int launches = 0;
    for (; reader.explain().find("; the data set is limited by") == std::string::npos && launches < 100; ++launches)
      steps.step(0us);
    EXPECT_LE(launches, 10) << reader.explain();
    for (int i = 0; i < 5; ++i) steps.step(0us);
    EXPECT_THAT(reader.explain(), testing::ContainsRegex("the data set is limited by [^\n]*map.read., which acted "));
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the devices wait for a data set for "));
  }
}

TEST(StreamStalls, AProgramWithoutLaunchesHasNone) {
  DataThreads pool(2);
  Delay source;
  source.microseconds = 3000;
  DatasetReader reader(source.of(data::range(20), "read"), pool);
  testing::internal::CaptureStderr();
  reader.start();
  while (reader.next()) continue;
  EXPECT_THAT(reader.explain(), Not(HasSubstr("devices")));
  pool.idle_clock()->launched(ticks());  // such as to initialise a model
  pool.idle_clock()->ended(ticks());
  reader.start({1});
  while (reader.next()) continue;
  const auto [stall, seconds] = stall_of(reader.explain());
  EXPECT_LE(stall, 0.8 * seconds) << "only the elements around the launch count";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(StreamStalls, TheSumIsTheTimeWithoutALaunch) {
  DataThreads pool(1);
  Delay source;
  source.microseconds = 10'000;
  DatasetReader reader(source.of(data::range(12).filter(any), "read"), pool);
  Steps steps{pool, reader};
  pool.idle_clock()->launched(ticks());
  pool.idle_clock()->ended(ticks());
  reader.start();
  testing::internal::CaptureStderr();
  EXPECT_FALSE(pool.stalls_of_launch().take());
  while (steps.step(0us)) continue;
  const auto [all, all_seconds] = stall_of(reader.explain());
  EXPECT_GE(all_seconds, 0.11);
  EXPECT_GE(all, all_seconds * 0.5) << "the program does nothing but wait";
  reader.start({1});
  int count = 0;
  while (steps.step(20ms)) ++count;
  EXPECT_EQ(count, 12);
  testing::internal::GetCapturedStderr();
  const auto [stall, seconds] = stall_of(reader.explain());
  EXPECT_LE(stall - all, seconds - all_seconds - 12 * 0.020) << "a launch runs for 20 ms of each step";
  const double of_launch = static_cast<double>(pool.stalls_of_launch().take().value_or(0)) * pool.seconds_per_tick();
  EXPECT_NEAR(of_launch, stall, 0.001);
}

TEST(StreamStalls, AWaitDuringALaunchIsNone) {
  DataThreads pool(1);
  Delay source;
  source.microseconds = 5000;
  DatasetReader reader(source.of(data::range(20).filter(any), "read"), pool);
  pool.idle_clock()->launched(ticks());  // and it does not end
  reader.start();
  while (reader.next()) pool.idle_clock()->launched(ticks());
  EXPECT_EQ(stall_of(reader.explain()).first, 0);
  EXPECT_EQ(pool.stalls_of_launch().take(), 0);
}

TEST(StreamStalls, TwoStreamsAreCountedApart) {
  DataThreads pool(2);
  Delay slow, fast;
  slow.microseconds = 10'000;
  DatasetReader one(slow.of(data::range(50).filter(any), "slow"), pool);
  DatasetReader two(fast.of(data::range(50).filter(any), "fast"), pool);
  Steps with_one{pool, one}, with_two{pool, two};
  one.start(), two.start();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 15; ++i) with_one.step(0us), with_two.step(0us);
  testing::internal::GetCapturedStderr();
  EXPECT_THAT(one.explain(), HasSubstr("map(slow), which acted"));
  EXPECT_GE(stall_of(one.explain()).first, 0.1);
  EXPECT_GT(stall_of(one.explain()).first, stall_of(two.explain()).first);
}

// The work of an element takes longer than two steps, but not longer than four. One lane would let devices wait for
// more than half of the time. bench/data_stages has the exact share; here, other programs may use the cores.
TEST(StreamStalls, LanesThatSufficeLetNoDeviceWait) {
  DataThreads pool(8);
  const Dataset dataset =
      data::range(1000).filter(any).map([](const Element& e) { return std::this_thread::sleep_for(12ms), e; }, {4});
  double share = 1;
  for (int tries = 0; tries < 10 && share > 0.4; ++tries) {
    DatasetReader reader(dataset, pool);
    Steps steps{pool, reader};
    reader.start();
    testing::internal::CaptureStderr();
    for (int i = 0; i < 30; ++i) steps.step(5ms);
    testing::internal::GetCapturedStderr();
    const auto [stall, seconds] = stall_of(reader.explain());
    share = stall / seconds;
  }
  EXPECT_LE(share, 0.4);
}

TEST(StreamStalls, AClosedReaderAndALongEpochAreNoFault) {
  DataThreads pool(1);
  DatasetReader reader(data::range(3), pool);
  Steps steps{pool, reader};
  testing::internal::CaptureStderr();
  for (int epoch = 0; epoch < 20; ++epoch) {
    reader.start({epoch});
    while (steps.step(0us)) continue;
    EXPECT_FALSE(steps.step(0us)) << "the epoch has ended";
  }
  testing::internal::GetCapturedStderr();
  EXPECT_THAT(reader.explain(), HasSubstr("the devices waited for data for "));
  reader.close();
  EXPECT_FALSE(reader.next());
}

TEST(CpuOrIo, ActsAreMeasured) {
  DataThreads pool(2);
  const auto wait = [](const Element& e) { return std::this_thread::sleep_for(5ms), e; };
  const auto compute = [](const Element& e) {
    for (const double end = thread_usage().cpu_seconds + 5e-3; thread_usage().cpu_seconds < end;) continue;
    return e;
  };
  DatasetReader reader(data::range(30).filter(any).map(wait).prefetch(2).map(compute).prefetch(2).filter(any), pool);
  EXPECT_THAT(reader.explain(), Not(testing::ContainsRegex("CPU|IO")));
  reader.start();
  while (reader.next()) continue;
  const std::string text = reader.explain();
  EXPECT_THAT(text, testing::ContainsRegex("IO, [0-9]+ %[^\n]*\n +1 [^\n]*CPU, [0-9]+ %"));
}

TEST(CpuOrIo, AFunctionInAnotherProcessHasTheTimesThatItReports) {
  const auto remote = [](double cpu) {
    return [cpu](const Element& e) {
      data::remote_time() = {1e6, cpu * 1e6};
      return e;
    };
  };
  for (int threads : {2, 0}) {
    DataThreads pool(threads);
    DatasetReader reader(
        data::range(100).filter(any).map(remote(0.9)).prefetch(2).map(remote(0.2)).prefetch(2).filter(any), pool);
    reader.start();
    while (reader.next()) continue;
    EXPECT_THAT(reader.explain(), HasSubstr("CPU, 90 %"));
    EXPECT_THAT(reader.explain(), HasSubstr("IO, 20 %"));
    EXPECT_EQ(data::remote_time().ns, 0) << "also of a thread of the program that executes acts";
  }
}

}  // namespace
}  // namespace karez::runtime
