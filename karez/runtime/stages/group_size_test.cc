// Tests of how many elements a lane computes together, and of streams whose functions compute several elements.
#include "karez/runtime/stages/group_size.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include "karez/base/text.h"
#include "karez/data/stages/test_random_datasets.h"
#include "karez/runtime/stages/dataset_reader.h"

namespace karez::runtime {
namespace {

using namespace std::chrono_literals;
using data::Element;
using data::GroupItem;
using data::number_of;

Element scalar(std::int64_t number) { return element(HostArray::of<std::int64_t>({}, {number})); }

TEST(GroupSize, AGroupTakesAboutTheGivenTime) {
  GroupSize size(1000);
  EXPECT_EQ(size.size(32), 1) << "no time is known";
  for (int i = 0; i < 7; ++i) size.add(100, 1);
  EXPECT_EQ(size.size(32), 1);
  size.add(100, 1);
  for (int i = 0; i < 100; ++i) size.add(100, 1);
  EXPECT_EQ(size.size(32), 10);
  EXPECT_EQ(size.size(4), 4);
  for (int i = 0; i < 200; ++i) size.add(100, 10);
  EXPECT_EQ(size.size(64), 64) << "10 for each";
  for (int i = 0; i < 1000; ++i) size.add(3000, 1);
  EXPECT_EQ(size.size(32), 1);
  for (int i = 0; i < 200; ++i) size.add(0, 5);
  EXPECT_EQ(size.size(32), 32);
}

TEST(GroupSize, ShortTimesHaveMoreWeight) {
  GroupSize size(1000);
  for (int i = 0; i < 400; ++i) size.add(i % 4 == 0 ? 1000 : 100, 1);
  EXPECT_GE(size.size(32), 4);
  EXPECT_LE(size.size(32), 10);
}

// The squares of numbers. Counts the elements of groups.
struct Squares {
  std::atomic<std::int64_t> alone{0}, together{0};
  std::chrono::microseconds time{0};
  std::int64_t fails_at = -1;

  Element square(const Element& in) const {
    if (time > 0us) std::this_thread::sleep_for(time);
    const std::int64_t number = number_of(in);
    if (number == fails_at) throw std::runtime_error(cat("number ", number));
    return number % 100 == 7 ? data::skipped_element() : scalar(number * number);
  }
  Dataset of(const Dataset& dataset, bool deterministic = true) {
    return dataset.map(
        [this](const Element& in) {
          ++alone;
          return square(in);
        },
        {.parallel = 2, .deterministic = deterministic, .group = [this](std::span<GroupItem> items) {
           together += static_cast<std::int64_t>(items.size());
           for (GroupItem& item : items) {
             try {
               item.out = square(item.in);
             } catch (...) { item.error = std::current_exception(); }
           }
         }});
  }
};

// The number of elements until the end, at most `most`. They must be the squares of 0, 1, ...
std::int64_t read(DatasetReader& reader, std::int64_t most) {
  std::int64_t number = 0;
  for (; number < most; ++number) {
    const std::optional<Element> element = reader.next();
    if (!element) break;
    EXPECT_EQ(element->skipped, number % 100 == 7);
    if (!element->skipped) { EXPECT_EQ(number_of(*element), number * number); }
    if (testing::Test::HasFailure()) break;
  }
  return number;
}

TEST(GroupCalls, FastFunctionsGetSeveralElementsInOneCall) {
  for (bool by_index : {false, true}) {
    Squares squares;
    DataThreads pool;
    const Dataset numbers = data::range(20'000);
    DatasetReader reader(squares.of(by_index ? numbers : numbers.filter([](const Element&) { return true; })), pool);
    reader.start();
    EXPECT_EQ(read(reader, 1 << 20), 20'000);
    EXPECT_EQ(squares.alone + squares.together, 20'000) << "each element once";
    EXPECT_GT(squares.together, 1000);
    const auto before = squares.alone + squares.together;
    reader.start({1});
    EXPECT_EQ(read(reader, 1 << 20), 20'000);
    EXPECT_EQ(squares.alone + squares.together - before, 20'000);
  }
}

TEST(GroupCalls, SlowFunctionsGetOneElement) {
  Squares squares;
  squares.time = 2ms;
  DataThreads pool;
  DatasetReader reader(squares.of(data::range(100)), pool);
  reader.start();
  EXPECT_EQ(read(reader, 1 << 20), 100);
  EXPECT_EQ(squares.together, 0);
}

TEST(GroupCalls, AStreamContinuesAfterAnyElementOfAGroup) {
  Squares squares;
  DataThreads pool;
  const Dataset dataset = squares.of(data::range(4000).filter([](const Element&) { return true; }));
  DatasetReader reader(dataset, pool);
  reader.start();
  EXPECT_EQ(read(reader, 2510), 2510);
  for (int i = 0; i < 40; ++i) {
    const Element element = *reader.next();
    if (squares.together == 0) continue;
    DatasetReader other(dataset, pool);
    other.start({0, reader.state()});
    EXPECT_EQ(number_of(*other.next()), number_of(*reader.next()));
  }
  EXPECT_GT(squares.together, 0);
}

TEST(GroupCalls, AnErrorComesAfterTheElementsBeforeIt) {
  for (bool by_index : {false, true}) {
    Squares squares;
    squares.fails_at = 3000;
    DataThreads pool;
    const Dataset numbers = data::range(4000);
    DatasetReader reader(squares.of(by_index ? numbers : numbers.filter([](const Element&) { return true; })), pool);
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      reader.start({epoch});
      EXPECT_EQ(read(reader, 3000), 3000);
      EXPECT_THROW(reader.next(), std::runtime_error);
      EXPECT_FALSE(reader.next());
    }
    EXPECT_GT(squares.together, 0);
  }
}

TEST(GroupCalls, ElementsInTheOrderOfCompletionAreComplete) {
  Squares squares;
  DataThreads pool;
  DatasetReader reader(squares.of(data::range(5000), false), pool);
  reader.start();
  std::int64_t sum = 0, expected = 0;
  while (const std::optional<Element> element = reader.next()) sum += element->skipped ? 0 : number_of(*element);
  for (std::int64_t i = 0; i < 5000; ++i) expected += i % 100 == 7 ? 0 : i * i;
  EXPECT_EQ(sum, expected);
  EXPECT_GT(squares.together, 0);
}

}  // namespace
}  // namespace karez::runtime
