// Tests of data sets that `interleave` opens before a place is free for them.
#include <gtest/gtest.h>

#include <memory>

#include "karez/base/test_error.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/sequential_reader.h"
#include "karez/data/stages/test_random_datasets.h"
#include "karez/data/stages/test_schedule.h"

namespace karez::data {
namespace {

using base::error_of;

const auto any = [](const Element&) { return true; };

// Data sets of `rows` numbers, interleaved in parallel; counts those that are open.
struct Interleaved {
  std::int64_t rows = 4;
  std::int64_t opened = 0;
  Dataset of(const Dataset& dataset, InterleaveOptions options) {
    return dataset.interleave(
        [this](const Element& e) {
          ++opened;
          return range(100 * number_of(e), 100 * number_of(e) + rows);
        },
        options);
  }
};

TEST(Interleave, OpensAsManyAheadAsAreOpen) {
  const InterleaveOptions options{.cycle = 3, .block = 1, .parallel = true};
  Interleaved sets;
  Schedule schedule(sets.of(range(20), options), 1);
  schedule.start({});
  schedule.work(100'000);
  EXPECT_EQ(sets.opened, 6);
  for (int i = 0; i < 13; ++i) schedule.next();  // the first data set has ended
  schedule.work(100'000);
  EXPECT_GT(sets.opened, 6);
  EXPECT_LE(sets.opened, 9);
}

TEST(Interleave, OpensNoneAheadIfItsInputMayWait) {
  const InterleaveOptions options{.cycle = 3, .block = 1, .parallel = true};
  for (const Dataset& input : {range(20).filter(any), range(20).prefetch(2),
                               range(20).map([](const Element& e) { return e; }, {.parallel = 2}),
                               range(20).filter(any).shuffle({.buffer = 4})}) {
    Interleaved sets;
    Schedule schedule(sets.of(input, options), 1);
    schedule.start({});
    schedule.work(100'000);
    EXPECT_EQ(sets.opened, 3) << input.text();
  }
  Interleaved sets;
  Schedule schedule(sets.of(range(20), {.cycle = 3}), 1);
  schedule.start({});
  schedule.work(100'000);
  EXPECT_EQ(sets.opened, 3) << "not parallel";
}

// The states of all elements, as text.
std::vector<std::string> states(const Dataset& dataset, std::uint64_t seed) {
  std::vector<std::string> out;
  Schedule schedule(dataset, seed);
  schedule.start({});
  while (const std::optional<Element> element = schedule.next())
    out.push_back(cat(number_of(*element), " ", print(element->state)));
  return out;
}

TEST(Interleave, PositionsDoNotDependOnWhatIsOpenAhead) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Draw draw(seed);
    const std::int64_t count = draw.below(12);
    InterleaveOptions options{.cycle = static_cast<int>(draw.between(1, 4)),
                              .block = static_cast<int>(draw.between(1, 3))};
    const auto inner = [](const Element& e) {
      return range(100 * number_of(e), 100 * number_of(e) + number_of(e) * 7 % 5).filter(any);
    };
    const Dataset one_by_one = range(count).interleave(inner, options);
    options.parallel = true;
    const Dataset ahead = range(count).interleave(inner, options);
    SCOPED_TRACE(cat("seed ", seed, "\n", ahead.text(), count));
    const std::vector<std::string> expected = states(one_by_one, seed), found = states(ahead, seed + 1);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      // With or without data sets ahead, each continues at the states of the other.
      for (const auto& [from, to] : {std::pair(&found[i], &one_by_one), {&expected[i], &ahead}, {&found[i], &ahead}}) {
        Schedule schedule(*to, seed + i);
        schedule.start({0, parse_stream_state(from->substr(from->find(' ') + 1))});
        for (std::size_t k = i + 1; k < expected.size(); ++k) {
          const std::optional<Element> element = schedule.next();
          ASSERT_TRUE(element);
          ASSERT_EQ(cat(number_of(*element)), expected[k].substr(0, expected[k].find(' ')));
        }
        ASSERT_FALSE(schedule.next());
        schedule.drain();
      }
    }
  }
}

TEST(Interleave, AnErrorOfTheInputComesAfterTheDataSetsBeforeIt) {
  const InterleaveOptions options{.cycle = 2, .block = 1, .parallel = true};
  Interleaved sets;
  const Dataset failing = range(8).map([](const Element& e) {
    require(number_of(e) != 4, "no number 4");
    return e;
  });
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Schedule schedule(sets.of(failing, options), seed);
    for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
      schedule.start({epoch});
      Numbers found;
      const std::string error = error_of([&] {
        while (const std::optional<Element> element = schedule.next()) found.push_back(number_of(*element));
      });
      EXPECT_EQ(error, "no number 4");
      EXPECT_EQ(found, (Numbers{0, 100, 1, 101, 2, 102, 3, 103, 200, 300, 201, 301, 202, 302, 203, 303}));
      EXPECT_FALSE(schedule.next());
    }
    schedule.drain();
  }
  Interleaved one_by_one;
  SequentialReader reader(one_by_one.of(failing, {.cycle = 2}));
  reader.start({});
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(reader.next()) << "as without parallel";
  EXPECT_EQ(error_of([&] { reader.next(); }), "no number 4");
}

TEST(Interleave, AnErrorOfADataSetThatIsOpenAheadComesInItsTurn) {
  const auto inner = [](const Element& e) {
    require(number_of(e) != 3, "no data set 3");
    return range(100 * number_of(e), 100 * number_of(e) + 2);
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Schedule schedule(range(6).interleave(inner, {.cycle = 2, .block = 2, .parallel = true}), seed);
    schedule.start({});
    Numbers found;
    EXPECT_EQ(error_of([&] {
                while (const std::optional<Element> element = schedule.next()) found.push_back(number_of(*element));
              }),
              "no data set 3");
    EXPECT_EQ(found, (Numbers{0, 1, 100, 101, 200, 201}));
    schedule.drain();
  }
}

}  // namespace
}  // namespace karez::data
