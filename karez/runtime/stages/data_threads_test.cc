// Tests of how threads are divided among streams, and of when elements that are not read are destroyed.
#include "karez/runtime/stages/data_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "karez/data/stages/test_random_datasets.h"
#include "karez/runtime/stages/dataset_reader.h"
#include "karez/runtime/test_wait.h"

namespace karez::runtime {
namespace {

using namespace std::chrono_literals;

// A function whose calls wait until it is open.
struct Gate {
  std::atomic<bool> open{false};
  std::atomic<int> inside{0}, most{0}, calls{0};
  Dataset of(const Dataset& dataset, int lanes = 1) {
    return dataset.map(
        [this](const Element& e) {
          const int now = ++inside;
          for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) continue;
          ++calls;
          while (!open) std::this_thread::sleep_for(1ms);
          --inside;
          return e;
        },
        {lanes});
  }
};

int data_threads() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    std::getline(file, name);
    count += name.rfind("karez-data-", 0) == 0;
  }
  return count;
}

TEST(DataThreads, NoMoreThreadsRunThanTheLimit) {
  for (int limit : {1, 2, 3}) {
    DataThreads pool(limit);
    Gate gate;
    std::vector<std::unique_ptr<DatasetReader>> readers;
    for (int i = 0; i < 3; ++i) readers.push_back(std::make_unique<DatasetReader>(gate.of(data::range(3), 2), pool));
    for (const auto& reader : readers) reader->start();
    EXPECT_TRUE(eventually([&] { return gate.inside == limit; }));
    pause();
    EXPECT_EQ(gate.most, limit);
    EXPECT_EQ(data_threads(), limit);
    gate.open = true;
    for (const auto& reader : readers)
      for (int i = 0; i < 3; ++i) EXPECT_EQ(number_of(*reader->next()), i);
    EXPECT_LE(gate.most, limit);
  }
}

TEST(DataThreads, NoMoreThreadsRunThanTheLanesOfStreamsThatExist) {
  DataThreads pool;
  for (int i = 0; i < 200; ++i) {
    Gate gate;
    DatasetReader reader(gate.of(data::range(4)), pool);
    reader.start();
    if (i % 2 == 0) {  // closed during an act
      EXPECT_TRUE(eventually([&] { return gate.inside == 1; }));
      reader.close(false);
      gate.open = true;
      EXPECT_TRUE(eventually([&] { return gate.inside == 0; }));
    } else {
      gate.open = true;
      while (reader.next()) continue;
      reader.start({1});
      reader.next();
    }
  }
  // The thread of a closed reader may still be about to end its act when the next reader starts.
  EXPECT_LE(data_threads(), 2);
}

TEST(DataThreads, TheLanesOfAClosedStreamAreSubtractedOnce) {
  DataThreads pool;
  for (bool during_an_act : {true, false}) {
    for (int i = 0; i < 3; ++i) {
      Gate gate;
      gate.open = !during_an_act;
      DatasetReader reader(gate.of(data::range(4), 3), pool);
      reader.start();
      EXPECT_TRUE(eventually([&] { return gate.calls > 0; }));
      reader.close(false);
      reader.close(false);
      gate.open = true;
      EXPECT_TRUE(eventually([&] { return gate.inside == 0; }));
      reader.close();
    }
    Gate gate;
    DatasetReader one(gate.of(data::range(4), 3), pool), two(gate.of(data::range(4), 3), pool);
    one.start(), two.start();
    EXPECT_TRUE(eventually([&] { return gate.inside == 6; })) << gate.inside;
    gate.open = true;
  }
}

TEST(DataThreads, StreamsAreServedInTurn) {
  DataThreads pool(1);
  std::atomic<int> counts[3] = {};
  const auto counted = [&](int i) {
    return data::range(100'000).map([&counts, i](const Element& e) {
      std::this_thread::sleep_for(200us);
      return ++counts[i], e;
    });
  };
  DatasetReader a(counted(0), pool, {.slots = 2000}), b(counted(1), pool, {.slots = 2000}),
      c(counted(2), pool, {.slots = 2000});
  a.start(), b.start(), c.start();
  EXPECT_TRUE(eventually([&] { return counts[0] + counts[1] + counts[2] >= 90; }));
  const int sum = counts[0] + counts[1] + counts[2];
  for (const auto& count : counts) EXPECT_NEAR(count, sum / 3, 6) << "all have free slots";
}

// An object whose destructor needs the mutex of the threads.
struct Counted {
  Counted(DataThreads& pool, std::atomic<int>& alive, std::atomic<int>& blocked)
      : pool(pool),
        alive(alive),
        blocked(blocked) {
    ++alive;
  }
  ~Counted() {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    std::thread([done, &pool = pool] {
      RankState state;
      pool.add_state(state);
      *done = true;
    }).detach();
    for (int i = 0; i < 5000 && !*done; ++i) std::this_thread::sleep_for(1ms);
    if (!*done) ++blocked;
    --alive;
  }
  DataThreads& pool;
  std::atomic<int>&alive, &blocked;
};

TEST(DataThreads, ElementsThatAreNotReadAreDestroyedWithoutTheMutex) {
  std::atomic<int> alive{0}, blocked{0};
  DataThreads pool(2);
  {
    std::atomic<int> runs{0}, waiting{0}, open{0};  // the act of the third element waits until its run is open
    DatasetReader reader(data::range(100).map([&](const Element& e) {
      runs += number_of(e) == 0;
      Element out = e;
      out.fields = {std::make_shared<Counted>(pool, alive, blocked)};
      if (number_of(e) == 2)
        for (waiting = runs.load(); open < runs;) std::this_thread::sleep_for(1ms);
      return out;
    }),
                         pool, {.slots = 3});
    reader.start();
    EXPECT_TRUE(eventually([&] { return waiting == 1; }));
    EXPECT_EQ(alive, 3);
    reader.start({1});
    EXPECT_EQ(alive, 1) << "those in slots, before `start` has returned";
    open = 1;
    EXPECT_TRUE(reader.next());
    EXPECT_TRUE(eventually([&] { return waiting == 2; }));
    EXPECT_EQ(alive, 2) << "the second element and that of the act; that of the first run was dropped";
    std::thread closer([&] { reader.close(); });
    open = 2;
    closer.join();
    EXPECT_EQ(alive, 0) << "before `close` has returned";
  }
  EXPECT_EQ(blocked, 0);
}

}  // namespace
}  // namespace karez::runtime
