// Whether threads that sleep are woken when acts are ready.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "karez/data/stages/test_random_datasets.h"
#include "karez/runtime/stages/dataset_reader.h"
#include "karez/runtime/test_wait.h"

namespace karez::runtime {
namespace {

struct Calls {
  std::atomic<int> count{0};
  // Waits until no act has begun for some time, so that the threads sleep.
  void settle() const {
    for (int before = -1; before != count;) {
      before = count;
      pause();
    }
  }
};

TEST(WakeThreads, AStartAloneWakesAThread) {
  for (std::int64_t size : {5, 100}) {  // with 100 acts, the stages are short
    DataThreads pool(2);
    auto calls = std::make_shared<Calls>();
    DatasetReader reader(range(size).map([calls](const Element& e) { return ++calls->count, e; }, {2}), pool);
    reader.start();
    while (reader.next()) continue;
    calls->settle();
    reader.start({1});
    EXPECT_TRUE(eventually([&] { return calls->count > size; })) << size;
  }
}

TEST(WakeThreads, AReadWakesAThread) {
  for (int lanes : {1, 2}) {
    DataThreads pool(2);
    auto calls = std::make_shared<Calls>();
    DatasetReader reader(range(100'000).map([calls](const Element& e) { return ++calls->count, e; }, {lanes}), pool);
    reader.start();
    for (int i = 0; i < 100; ++i) reader.next();
    for (int i = 0; i < 5; ++i) {
      calls->settle();
      const int before = calls->count;
      for (int read = 0; read < 2 * lanes; ++read) reader.next();  // all elements that are there
      EXPECT_TRUE(eventually([&] { return calls->count > before; })) << lanes << " lanes, read " << i;
    }
  }
}

TEST(WakeThreads, NoThreadIsWokenForShortActsWhileHalfOfTheSlotsAreFilled) {
  DataThreads pool(1, {}, 0, 100'000'000);  // acts are short even if other programs use the cores
  auto calls = std::make_shared<Calls>();
  DatasetReader reader(range(100'000).map([calls](const Element& e) { return ++calls->count, e; }).prefetch(8), pool);
  reader.start();
  int reads = 0;
  const auto read = [&] { reader.next(), ++reads; };
  while (reads < 100) read();
  calls->settle();
  // The first read that leaves less than half wakes the thread, which fills all slots.
  do read();
  while (calls->count - reads >= 4);
  ASSERT_TRUE(eventually([&] { return calls->count == reads + 8; }));
  calls->settle();
  const int filled = calls->count;
  for (int i = 0; i < 4; ++i) read();
  pause();
  EXPECT_EQ(calls->count, filled);
  read();
  EXPECT_TRUE(eventually([&] { return calls->count == reads + 8; }));
}

// After many short acts, each act waits until another one runs.
TEST(WakeThreads, LongActsOfLanesRunAtTheSameTimeAfterShortOnes) {
  DataThreads pool(3);
  auto inside = std::make_shared<std::atomic<int>>(0);
  auto pairs = std::make_shared<std::atomic<int>>(0);
  const auto meet = [inside, pairs](const Element& e) {
    if (number_of(e) < 400) return e;
    ++*inside;
    if (eventually([&] { return *inside >= 2 || *pairs > 0; })) ++*pairs;
    return e;
  };
  DatasetReader reader(range(402).filter([](const Element&) { return true; }).map(meet, {2}), pool);
  reader.start();
  while (reader.next()) continue;
  EXPECT_EQ(*pairs, 2);
}

struct Interrupted {};

TEST(WakeThreads, AnExceptionOfWhileWaitingLeavesClose) {
  DataThreads pool(1);
  auto open = std::make_shared<std::atomic<bool>>(false);
  auto entered = std::make_shared<std::atomic<bool>>(false);
  const auto gate = [open, entered](const Element& e) {
    *entered = true;
    while (!*open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return e;
  };
  std::atomic<bool> interrupted{true};
  DatasetReader reader(range(3).map(gate), pool, {.while_waiting = [&] {
                         if (interrupted) throw Interrupted();
                       }});
  reader.start();
  ASSERT_TRUE(eventually([&] { return entered->load(); }));
  EXPECT_THROW(reader.close(), Interrupted);
  *open = true, interrupted = false;
  reader.close();
  EXPECT_TRUE(reader.closed());
}

}  // namespace
}  // namespace karez::runtime
