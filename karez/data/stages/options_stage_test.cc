// Tests of the options of stages before a point: which stages they concern, and what their texts say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/stage_tree.h"
#include "karez/data/stages/test_random_datasets.h"

namespace karez::data {
namespace {

using base::error_of;
using testing::HasSubstr;
using testing::Not;

Element same(const Element& e) { return e; }
bool any(const Element&) { return true; }
Dataset inner(const Element& e) { return range(number_of(e)); }

bool ordered(const Dataset& dataset) { return is_ordered(*dataset.node()); }

TEST(WithOptions, DeterministicConcernsTheStagesWithSeveralLanesBeforeThePoint) {
  const Dataset numbers = range(9), lanes = numbers.map(same, {2}), unordered = numbers.map(same, {2, false});
  const DatasetOptions first_come{.deterministic = false}, in_order{.deterministic = true};
  EXPECT_TRUE(ordered(lanes.with_options({})));
  EXPECT_FALSE(ordered(lanes.with_options(first_come)));
  EXPECT_FALSE(ordered(numbers.filter(any, {2}).with_options(first_come)));
  EXPECT_FALSE(ordered(numbers.interleave(inner, {.parallel = true}).with_options(first_come)));
  EXPECT_TRUE(ordered(numbers.map(same).filter(any).interleave(inner).with_options(first_come))) << "one lane each";
  EXPECT_TRUE(ordered(numbers.with_options(first_come).map(same, {2}))) << "the stage is after the point";
  EXPECT_TRUE(ordered(unordered.with_options(in_order)));
  EXPECT_FALSE(ordered(unordered.with_options({.bytes = 100})));
  EXPECT_TRUE(ordered(lanes.with_options(first_come).with_options(in_order))) << "the last point counts";
  EXPECT_FALSE(ordered(lanes.with_options(first_come).with_options({.cpu = 1})));
  EXPECT_FALSE(ordered(zip({numbers, lanes.with_options(first_come)}).batch(2)));
  EXPECT_FALSE(ordered(lanes.batch(2).prefetch(2).with_options(first_come)));
}

TEST(WithOptions, LanesGetTheOrderOfTheOption) {
  const auto lanes_of = [](const Dataset& dataset) { return stage_tree(dataset.node()).graph.stages.back(); };
  const Dataset shuffled = range(9).map(same, {3}).shuffle();
  for (const Dataset& dataset : {range(9).map(same, {3}), range(9).filter(any, {3}), shuffled}) {
    EXPECT_TRUE(lanes_of(dataset).ordered) << dataset.text();
    EXPECT_FALSE(lanes_of(dataset.with_options({.deterministic = false})).ordered) << dataset.text();
    EXPECT_EQ(lanes_of(dataset).lanes, 3) << dataset.text();
  }
}

TEST(WithOptions, TheLastLimitCountsAndOtherwiseTheLowestOfAllInputs) {
  const auto tree = [](const Dataset& dataset) { return stage_tree(dataset.node()); };
  const Dataset numbers = range(9).filter(any);
  EXPECT_EQ(tree(numbers).bytes, 0);
  EXPECT_EQ(tree(numbers).cpu, 0);
  EXPECT_EQ(tree(numbers.with_options({.bytes = 5}).batch(2)).bytes, 5);
  EXPECT_EQ(tree(numbers.with_options({.bytes = 5}).batch(2).with_options({.bytes = 70, .cpu = 3})).bytes, 70);
  EXPECT_EQ(tree(numbers.with_options({.bytes = 5, .cpu = 2}).with_options({.bytes = 4})).cpu, 2);
  const Dataset both = zip({numbers.with_options({.bytes = 50}), numbers, numbers.with_options({.bytes = 40})});
  EXPECT_EQ(tree(both).bytes, 40);
  EXPECT_EQ(tree(both.with_options({.bytes = 60})).bytes, 60);
}

TEST(WithOptions, TextsOfRanksDifferOnlyInTheOrder) {
  const Dataset lanes = range(9).map(same, {2});
  const Dataset limited = lanes.with_options({.bytes = 5, .cpu = 2});
  EXPECT_THAT(limited.text(), HasSubstr("with_options(bytes=5, cpu=2)\n"));
  EXPECT_EQ(limited.common_text(), lanes.common_text());
  EXPECT_EQ(lanes.with_options({}).common_text(), lanes.common_text());
  const Dataset first_come = lanes.with_options({.deterministic = false, .bytes = 5});
  EXPECT_THAT(first_come.text(), HasSubstr("with_options(deterministic=False, bytes=5)\n"));
  EXPECT_THAT(first_come.common_text(), testing::StartsWith("with_options(deterministic=False)\n"));
  EXPECT_EQ(lanes.with_options({.deterministic = true}).common_text(), lanes.common_text());
  EXPECT_THAT(range(9).map(same, {2, false}).with_options({.deterministic = true}).common_text(),
              HasSubstr("with_options(deterministic=True)"));
  EXPECT_THAT(range(9).map(same, {.parallel = 1, .name = "decode"}).text(), HasSubstr("map(decode)\n"));
  EXPECT_THAT(range(9).map(same, {2, true, "decode"}).text(), HasSubstr("map(decode, parallel=2)\n"));
}

TEST(WithOptions, ElementsAreReadByIndexAsBefore) {
  const Dataset dataset = range(9).shuffle().with_options({.bytes = 1}).batch(2);
  EXPECT_EQ(dataset.size(), 5);
  EXPECT_EQ(number_of(dataset.at(4)), number_of(range(9).shuffle().at(8)));
  EXPECT_EQ(read_all(range(9).with_options({.cpu = 1})).size(), 9u);
}

TEST(WithOptions, LimitsMustBePositive) {
  EXPECT_EQ(error_of([] { range(3).with_options({.bytes = 0}); }), "with_options: bytes must be at least 1, got 0");
  EXPECT_EQ(error_of([] { range(3).with_options({.bytes = -7}); }), "with_options: bytes must be at least 1, got -7");
  EXPECT_EQ(error_of([] { range(3).with_options({.cpu = 0}); }), "with_options: cpu must be at least 1, got 0");
}

}  // namespace
}  // namespace karez::data
