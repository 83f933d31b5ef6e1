// Tests of what data threads report: the table of a stream, waits of the program, and the cores of the threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <sstream>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/data/stages/stage_scope.h"
#include "karez/data/stages/test_random_datasets.h"
#include "karez/device/cpu_budget.h"
#include "karez/runtime/stages/dataset_reader.h"
#include "karez/runtime/test_wait.h"

namespace karez::runtime {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

// The words of a table, by line. The shares have their unit in a word of its own.
std::vector<std::vector<std::string>> words_of(const std::string& table) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    auto& row = rows.emplace_back();
    for (std::string word; words >> word;) row.push_back(word);
  }
  return rows;
}

TEST(DataReport, CountsAreExactAndTimesAreThoseOfTheActs) {
  for (int threads : {0, 1, 3}) {
    const auto begin = std::chrono::steady_clock::now();
    DataThreads pool(threads);
    DatasetReader reader(range(40)
                             .map([](const Element& e) { return e; })
                             .filter([](const Element& e) { return number_of(e) % 4 == 0; })
                             .prefetch(3)
                             .map([](const Element& e) {
                               std::this_thread::sleep_for(2ms);
                               return e;
                             })
                             .batch(3),
                         pool);
    EXPECT_EQ(words_of(reader.explain())[1][3], "0") << "before the first start";
    for (int epoch = 0; epoch < 2; ++epoch) {
      reader.start({epoch});
      while (reader.next()) continue;
    }
    const auto rows = words_of(reader.explain());
    ASSERT_EQ(rows.size(), 4u) << reader.explain();
    EXPECT_EQ(rows[3][0], "memory");
    // An act reads at most one element, and the end of an epoch is an act too. Filtered elements need no act of their
    // own in a segment.
    EXPECT_THAT(std::vector(rows[1].begin(), rows[1].begin() + 5), testing::ElementsAre("0", "1", "0/3", "22", "20"))
        << reader.explain();
    EXPECT_THAT(std::vector(rows[2].begin(), rows[2].begin() + 5), testing::ElementsAre("1", "1", "0/2", "24", "8"))
        << reader.explain();
    const double seconds = std::stod(rows[2][5]), each = std::stod(rows[2][7]) * 1e-6;
    EXPECT_GE(seconds, 20 * 0.002);
    EXPECT_LE(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() * 1.05);
    EXPECT_NEAR(each, seconds / 8, 1e-4);
    EXPECT_LT(std::stod(rows[1][5]), seconds);
  }
}

TEST(DataReport, AStageThatWaitsSaysWhatFor) {
  DataThreads pool(2);
  const auto slow = [](const Element& e) {
    std::this_thread::sleep_for(3ms);
    return e;
  };
  const auto share = [](const std::string& text, std::size_t row, std::size_t column) {  // acting, no input, no slot
    return std::stoi(words_of(text)[row][9 + 2 * column]);
  };
  DatasetReader fast_source(range(60).filter([](const Element&) { return true; }).prefetch(2).map(slow), pool);
  fast_source.start();
  while (fast_source.next()) continue;
  std::string text = fast_source.explain();
  EXPECT_GT(share(text, 1, 2), 20 + share(text, 1, 0) + share(text, 1, 1)) << text;
  EXPECT_GT(share(text, 2, 0), 20 + share(text, 2, 1) + share(text, 2, 2)) << text;
  DatasetReader slow_source(range(60).map(slow).prefetch(2).filter([](const Element&) { return true; }), pool);
  slow_source.start();
  while (slow_source.next()) continue;
  text = slow_source.explain();
  EXPECT_GT(share(text, 1, 0), 20 + share(text, 1, 1) + share(text, 1, 2)) << text;
  EXPECT_GT(share(text, 2, 1), 20 + share(text, 2, 0) + share(text, 2, 2)) << text;
}

TEST(DataReport, AClosedReaderHasNoReport) {
  DataThreads pool(1);
  DatasetReader reader(range(3), pool), other(range(3), pool);
  reader.close();
  EXPECT_EQ(base::error_of([&] { reader.explain(); }), "the iterator is closed");
  EXPECT_THAT(other.explain(), StartsWith("actor"));
}

TEST(DataReport, LimitsHoldWithThreads) {
  DataThreads pool(4);
  std::atomic<int> inside{0}, most{0};
  const auto count = [&](const Element& e) {
    const int now = ++inside;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) continue;
    std::this_thread::sleep_for(100us);
    --inside;
    return e;
  };
  const Dataset dataset = range(200).map(count, {8}).filter([](const Element&) { return true; }).map(count, {4});
  for (int cpu : {1, 3}) {
    most = 0;
    DatasetReader reader(dataset.with_options({.bytes = 24, .cpu = cpu}), pool, {.slots = 4});
    reader.start();
    std::int64_t next = 0;
    while (std::optional<Element> element = reader.next()) EXPECT_EQ(number_of(*element), next++);
    EXPECT_EQ(next, 200);
    EXPECT_LE(most, cpu);
    EXPECT_THAT(reader.explain(), HasSubstr("bytes of elements: 0, at most 24\n"));
  }
}

// A function that waits until it is released.
struct Gate {
  std::atomic<bool> inside{false}, open{false};
  std::atomic<int> process{0};
  Element operator()(const Element& e) {
    inside = true;
    while (!open) {
      data::awaited_process() = process.load();
      std::this_thread::sleep_for(1ms);
    }
    data::awaited_process() = 0;
    return e;
  }
};

TEST(DataReport, TheStateOfARankNamesTheStageForWhichTheProgramWaits) {
  for (int lanes : {1, 3}) {
    DataThreads pool(4);
    const auto gate = std::make_shared<Gate>();
    const Dataset dataset = range(10)
                                .filter([](const Element&) { return true; })
                                .map([gate](const Element& e) { return (*gate)(e); }, {lanes, true, "decode"})
                                .batch(2);
    DatasetReader reader(dataset, pool);
    RankState state;
    pool.add_state(state);
    EXPECT_EQ(state, RankState{}) << "nothing is read";
    reader.start();
    ASSERT_TRUE(eventually([&] { return gate->inside.load(); }));
    pool.add_state(state);
    EXPECT_FALSE(state.data_wait()) << "the program does not wait";
    std::thread waiting([&] { EXPECT_TRUE(reader.next()); });
    EXPECT_TRUE(eventually([&] {
      state = {};
      pool.add_state(state);
      return state.data_wait() != nullptr && state.data_seconds > 0.05;
    }));
    EXPECT_THAT(state.data_wait()->text(), StartsWith(lanes == 1 ? "stage map(decode) of a data set, which has been "
                                                                   "running for 0."
                                                                 : "stage map(decode, parallel=3) of a data set, "));
    EXPECT_THAT(state.data_wait()->text(), testing::ContainsRegex(" on data thread [1-4] \\(thread id [0-9]+\\)$"));
    EXPECT_FALSE(state.waits_for_rank());
    gate->process = 4711;
    EXPECT_TRUE(eventually([&] {
      state = {};
      pool.add_state(state);
      return state.data_wait()->text().ends_with("), which waits for worker process 4711");
    })) << state.data_wait()->text();
    const std::uint64_t before = state.progress;
    gate->open = true;
    waiting.join();
    state = {};
    pool.add_state(state);
    EXPECT_FALSE(state.data_wait());
    EXPECT_GT(state.progress, before);
  }
}

TEST(DataReport, AThreadOfTheProgramThatExecutesActsWaitsForNone) {
  DataThreads pool(0);
  DatasetReader reader(range(3), pool);
  reader.start();
  EXPECT_TRUE(reader.next());
  RankState state;
  pool.add_state(state);
  EXPECT_FALSE(state.data_wait());
}

TEST(DataReport, ThreadsRunOnTheirCores) {
  const auto cpus_of_thread = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    std::vector<int> out;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) out.push_back(cpu);
    return out;
  };
  const std::vector<int> all = device::cpu_budget().cpus;
  for (const std::vector<int>& cpus : {std::vector<int>{}, {all.back()}, {all.front()}, all}) {
    DataThreads pool(3, cpus);
    std::atomic<int> calls{0};
    DatasetReader reader(range(20).map(
                             [&](const Element& e) {
                               ++calls;
                               EXPECT_EQ(cpus_of_thread(), cpus.empty() ? all : cpus);
                               return e;
                             },
                             {3}),
                         pool);
    reader.start();
    while (reader.next()) continue;
    EXPECT_EQ(calls, 20);
  }
  EXPECT_EQ(cpus_of_thread(), all) << "the program's thread is not bound";
}

}  // namespace
}  // namespace karez::runtime
