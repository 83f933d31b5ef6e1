// Tests of readers with threads: order, bounds, errors and the end at any moment.
#include "karez/runtime/stages/dataset_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "karez/data/stages/test_random_datasets.h"

namespace karez::runtime {
namespace {

using namespace std::chrono_literals;

Numbers rest(DatasetReader& reader) {
  Numbers out;
  while (std::optional<Element> element = reader.next()) out.push_back(number_of(*element));
  return out;
}

Numbers first_numbers(std::int64_t count) {
  Numbers out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(i);
  return out;
}

TEST(DatasetReader, EveryNumberOfThreadsPassesOnTheSameElements) {
  for (int threads : {0, 1, 3}) {
    DataThreads pool(threads);
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      Draw draw(seed);
      const ModelledDataset random = random_dataset(draw);
      SCOPED_TRACE(cat(threads, " threads, seed ", seed, "\n", random.dataset.text()));
      DatasetReader reader(random.dataset, pool);
      for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
        reader.start({epoch});
        ASSERT_EQ(rest(reader), random.model(epoch));
        EXPECT_FALSE(reader.next()) << "the epoch has ended";
      }
    }
  }
}

TEST(DatasetReader, AnElementBeforeTheFirstStartDoesNotExist) {
  DataThreads pool(1);
  DatasetReader reader(range(3), pool);
  EXPECT_FALSE(reader.next());
  reader.start();
  EXPECT_EQ(rest(reader), first_numbers(3));
}

TEST(DatasetReader, StreamsShareTheThreads) {
  DataThreads pool(2);
  std::vector<std::unique_ptr<DatasetReader>> readers;
  for (int i = 0; i < 20; ++i) {
    readers.push_back(std::make_unique<DatasetReader>(range(50).map([](const Element& e) { return e; }, {3}), pool));
    readers.back()->start();
  }
  for (int n = 0; n < 50; ++n)
    for (auto& reader : readers) EXPECT_EQ(number_of(*reader->next()), n);
  for (auto& reader : readers) EXPECT_FALSE(reader->next());
}

TEST(DatasetReader, ProducesAtMostItsSlotsAheadOfTheReader) {
  DataThreads pool(2);
  std::atomic<int> produced{0};
  DatasetReader reader(range(1000).map([&](const Element& e) {
    ++produced;
    return e;
  }),
                       pool, {.slots = 3});
  reader.start();
  for (int n = 0; n < 10; ++n) {
    while (produced < n + 3) std::this_thread::yield();
    std::this_thread::sleep_for(1ms);
    EXPECT_EQ(produced, n + 3);
    EXPECT_EQ(number_of(*reader.next()), n);
  }
}

TEST(DatasetReader, LanesWorkAtTheSameTime) {
  DataThreads pool(3);
  std::atomic<int> inside{0};
  DatasetReader reader(range(30).map(
                           [&](const Element& e) {
                             ++inside;
                             while (inside < 3) std::this_thread::yield();  // hangs unless three lanes are inside
                             return e;
                           },
                           {3}),
                       pool);
  reader.start();
  EXPECT_EQ(rest(reader), first_numbers(30));
}

TEST(DatasetReader, ParallelInterleaveReadsItsDataSetsAtTheSameTime) {
  DataThreads pool(3);
  std::atomic<int> opened{0};
  DatasetReader reader(range(3).interleave(
                           [&](const Element& e) {
                             ++opened;
                             while (opened < 3) std::this_thread::yield();  // hangs unless three data sets are opened
                             const std::int64_t number = number_of(e);
                             return range(10 * number, 10 * number + 2);
                           },
                           {.cycle = 3, .parallel = true}),
                       pool);
  reader.start();
  EXPECT_EQ(rest(reader), (Numbers{0, 10, 20, 1, 11, 21}));
}

TEST(DatasetReader, AnErrorIsThrownOnceAndTheNextEpochWorks) {
  DataThreads pool(2);
  std::atomic<bool> fails{true};
  DatasetReader reader(range(5).map([&](const Element& e) {
    if (fails && number_of(e) == 3) fail(ErrorKind::data, "record 3 is damaged");
    return e;
  }),
                       pool);
  reader.start();
  for (int n = 0; n < 3; ++n) EXPECT_EQ(number_of(*reader.next()), n);
  try {
    reader.next();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::data);
    EXPECT_STREQ(error.what(), "record 3 is damaged");
  }
  EXPECT_FALSE(reader.next());
  fails = false;
  reader.start({1});
  EXPECT_EQ(rest(reader), first_numbers(5));
}

TEST(DatasetReader, AnErrorOfAGeneratorThatCannotStartReachesTheReader) {
  for (int threads : {0, 1}) {
    DataThreads pool(threads);
    DatasetReader reader(from_generator([](std::int64_t) -> Generator { fail("no such file"); }).batch(2).prefetch(2),
                         pool);
    reader.start();
    EXPECT_THROW(reader.next(), Error);
    EXPECT_FALSE(reader.next());
  }
}

TEST(DatasetReader, CloseWaitsForRunningActsAndLetsNoOtherBegin) {
  DataThreads pool(2);
  std::atomic<int> inside{0}, calls{0};
  DatasetReader reader(range(1000).map(
                           [&](const Element& e) {
                             ++inside, ++calls;
                             std::this_thread::sleep_for(5ms);
                             --inside;
                             return e;
                           },
                           {2}),
                       pool);
  reader.start();
  while (inside == 0) std::this_thread::yield();
  reader.close();
  EXPECT_EQ(inside, 0);
  const int before = calls;
  std::this_thread::sleep_for(10ms);
  EXPECT_EQ(calls, before);
  EXPECT_FALSE(reader.next());
  EXPECT_THROW(reader.start(), Error);
  reader.close();
}

TEST(DatasetReader, CloseEndsAWaitingReader) {
  DataThreads pool(1);
  std::atomic<bool> release{false}, inside{false};
  DatasetReader reader(range(10).map([&](const Element& e) {
    inside = true;
    while (!release) std::this_thread::sleep_for(1ms);
    return e;
  }),
                       pool);
  reader.start();
  std::thread waiting([&] { EXPECT_FALSE(reader.next()); });
  while (!inside) std::this_thread::yield();
  std::thread closer([&] { reader.close(); });
  waiting.join();  // ends although the act has not ended
  release = true;
  closer.join();
}

TEST(DatasetReader, CloseEndsAnEndlessFilter) {
  DataThreads pool(1);
  std::atomic<bool> inside{false};
  DatasetReader reader(range(10).repeat().filter([&](const Element&) {
    inside = true;
    return false;
  }),
                       pool);
  reader.start();
  while (!inside) std::this_thread::yield();
  reader.close();
}

TEST(DatasetReader, CloseFreesTheElements) {
  DataThreads pool(1);
  auto token = std::make_shared<int>(0);
  DatasetReader reader(range(100)
                           .map([token](const Element& e) {
                             Element out = e;
                             out.fields[0] = Object(token);
                             return out;
                           })
                           .shuffle({.buffer = 20}),
                       pool);
  reader.start();
  EXPECT_TRUE(reader.next());
  reader.close();
  EXPECT_EQ(token.use_count(), 1) << "only this variable";
}

TEST(DatasetReader, AnActMayCloseItsStream) {
  for (int threads : {0, 1, 2}) {
    DataThreads pool(threads);
    std::unique_ptr<DatasetReader> reader;
    reader = std::make_unique<DatasetReader>(range(10).map([&](const Element& e) {
      if (number_of(e) == 4) reader->close();
      return e;
    }),
                                             pool);
    reader->start();
    while (reader->next()) continue;
  }
}

TEST(DatasetReader, AnExceptionOfWhileWaitingLeavesTheStreamUsable) {
  DataThreads pool(1);
  std::atomic<bool> release{false};
  bool interrupt = true;
  DatasetReader reader(range(3).map([&](const Element& e) {
    while (!release) std::this_thread::sleep_for(1ms);
    return e;
  }),
                       pool, {.while_waiting = [&] {
                         if (interrupt) fail("interrupted");
                       }});
  reader.start();
  EXPECT_THROW(reader.next(), Error);
  release = true, interrupt = false;
  EXPECT_EQ(rest(reader), first_numbers(3));
}

TEST(DatasetReader, AnActMayReadAnotherStream) {
  for (int threads : {0, 1, 2}) {
    DataThreads pool(threads);
    const Dataset inner = range(100).map([](const Element& e) { return e; }, {2}).prefetch(3);
    DatasetReader outer(range(3).map([&](const Element& e) {
      DatasetReader reader(inner, pool);
      reader.start();
      EXPECT_EQ(rest(reader), first_numbers(100));
      return e;
    }),
                        pool);
    outer.start();
    EXPECT_EQ(rest(outer), first_numbers(3));
  }
}

TEST(DatasetReader, TheEndOfTheThreadsClosesStreams) {
  DataThreads pool(2);
  std::atomic<bool> inside{false}, release{false};
  DatasetReader reader(range(10).map([&](const Element& e) {
    inside = true;
    while (!release) std::this_thread::sleep_for(1ms);
    return e;
  }),
                       pool);
  reader.start();
  while (!inside) std::this_thread::yield();
  std::thread waiting([&] { EXPECT_FALSE(reader.next()); });
  std::thread ender([&] { pool.end(); });
  waiting.join();
  release = true;
  ender.join();
  EXPECT_THROW(DatasetReader(range(3), pool), Error);
  EXPECT_FALSE(reader.next());
}

TEST(DatasetReader, AnActThatDoesNotEndIsLeftBehind) {
  auto release = std::make_shared<std::atomic<bool>>(false), inside = std::make_shared<std::atomic<bool>>(false);
  auto pool = std::make_shared<DataThreads>(1);
  auto reader = std::make_unique<DatasetReader>(range(10).map([=](const Element& e) {
    *inside = true;
    while (!*release) std::this_thread::sleep_for(1ms);
    return e;
  }),
                                                *pool);
  reader->start();
  while (!*inside) std::this_thread::yield();
  pool->end(0.01);
  EXPECT_FALSE(reader->next());
  *release = true;
  reader.reset();  // waits for the act
}

TEST(DatasetReader, AnActOfAClosedReaderDoesNotKeepOthersFromRunning) {
  DataThreads pool(4);
  auto release = std::make_shared<std::atomic<bool>>(false), inside = std::make_shared<std::atomic<bool>>(false);
  DatasetReader blocked(range(3).map([=](const Element& e) {
    *inside = true;
    while (!*release) std::this_thread::sleep_for(1ms);
    return e;
  }),
                        pool);
  blocked.start();
  while (!*inside) std::this_thread::yield();
  blocked.close(false);
  DatasetReader reader(range(5), pool);
  reader.start();
  EXPECT_EQ(rest(reader), first_numbers(5));
  *release = true;
}

TEST(DatasetReader, CloseEndsAnInnerDataSetWithoutElements) {
  DataThreads pool(1);
  std::atomic<bool> inside{false};
  DatasetReader reader(range(3).flat_map([&](const Element&) {
    return range(1).repeat().filter([&](const Element&) {
      inside = true;
      return false;
    });
  }),
                       pool);
  reader.start();
  while (!inside) std::this_thread::yield();
  reader.close();
}

TEST(DatasetReader, ADroppedElementMayUseAnotherReader) {
  DataThreads pool(2);
  auto inner = std::make_shared<DatasetReader>(range(3), pool);
  struct Closing {
    explicit Closing(std::shared_ptr<DatasetReader> r) : reader(std::move(r)) {}
    ~Closing() { reader->close(); }
    std::shared_ptr<DatasetReader> reader;
  };
  DatasetReader reader(range(20).map([inner](const Element& e) {
    Element out = e;
    out.fields[0] = Object(std::make_shared<Closing>(inner));
    return out;
  }),
                       pool, {.slots = 4});
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    reader.start({epoch});  // drops the elements that were not read
    EXPECT_TRUE(reader.next());
  }
}

TEST(DatasetReader, TheNumberOfSlotsIsLimited) {
  DataThreads pool(1);
  EXPECT_THROW(DatasetReader(range(3), pool, {.slots = 0}), Error);
  EXPECT_THROW(DatasetReader(range(3), pool, {.slots = 200'000'000}), Error);
}

TEST(DatasetReader, ResumesFromItsState) {
  DataThreads pool(2);
  const Dataset dataset = range(40).shuffle({.buffer = 7}).map([](const Element& e) { return e; }, {3}).repeat(2);
  DatasetReader reader(dataset, pool);
  reader.start({3});
  for (int i = 0; i < 50; ++i) reader.next();
  const std::string state = print(reader.state());
  const Numbers expected = rest(reader);
  EXPECT_EQ(expected.size(), 30u);
  DatasetReader other(dataset, pool);
  other.start({3, parse_stream_state(state)});
  EXPECT_EQ(print(other.state()), state);
  EXPECT_EQ(rest(other), expected);
}

}  // namespace
}  // namespace karez::runtime
