// Tests of records that a function skips.
#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/base/text.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/sequential_reader.h"
#include "karez/data/stages/stage_scope.h"
#include "karez/data/stages/test_random_datasets.h"

namespace karez::data {
namespace {

using base::error_of;

Element scalar(std::int64_t number) { return element(HostArray::of<std::int64_t>({}, {number})); }

// The numbers 0, 1, ..., without those for which `skips` is true.
Dataset skipping(std::int64_t size, std::function<bool(std::int64_t)> skips) {
  return range(size).map([skips = std::move(skips)](const Element& e) {
    return skips(number_of(e)) ? skipped_element() : scalar(number_of(e));
  });
}
bool is_odd(std::int64_t number) { return number % 2 == 1; }

// The elements in one line; "-" stands for a skipped one, and a row has its weight if it is not 1.
std::string elements_of(const Dataset& dataset) {
  SequentialReader reader(dataset);
  reader.start({});
  std::string out;
  while (const std::optional<Element> element = reader.next()) {
    out += out.empty() ? "" : " ";
    if (element->skipped) {
      out += "-";
      continue;
    }
    out += join(array_of(*element).data<std::int64_t>(), ",");
    if (element->fields.size() < 2) continue;
    out += "/";
    for (float weight : array_of(*element, 1).data<float>()) out += weight == 1 ? "1" : "0";
  }
  return out;
}

TEST(Skipped, LaterFunctionsDoNotSeeTheRecord) {
  int calls = 0;
  const Dataset dataset = skipping(5, is_odd).map([&](const Element& e) {
    ++calls;
    return scalar(10 * number_of(e));
  });
  EXPECT_EQ(elements_of(dataset), "0 - 20 - 40");
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(elements_of(dataset.map([](const Element& e, const RandomKey&) { return e; }, 3)), "0 - 20 - 40");
  EXPECT_TRUE(dataset.at(1).skipped);
  EXPECT_EQ(dataset.at(1).index, 1);
  EXPECT_EQ(number_of(dataset.at(2)), 20);
}

TEST(Skipped, TheRecordKeepsItsPlace) {
  const Dataset dataset = skipping(5, is_odd);
  EXPECT_EQ(dataset.size(), 5);
  EXPECT_EQ(elements_of(dataset.take(4).skip(1)), "- 2 -");
  EXPECT_EQ(elements_of(dataset.shard(2, 1)), "- -");
  EXPECT_EQ(elements_of(concat({dataset, range(2)})), "0 - 2 - 4 0 1");
  EXPECT_EQ(elements_of(dataset.repeat(2)), "0 - 2 - 4 0 - 2 - 4");
  EXPECT_EQ(elements_of(dataset.prefetch(2).cache()), "0 - 2 - 4");
  EXPECT_EQ(elements_of(dataset.shuffle({.buffer = 1})), "0 - 2 - 4");
}

TEST(Skipped, StreamsLeaveTheRecordOut) {
  const Dataset dataset = skipping(6, is_odd);
  EXPECT_EQ(elements_of(dataset.filter([](const Element&) { return true; })), "0 2 4");
  EXPECT_EQ(elements_of(dataset.flat_map([](const Element& e) { return range(number_of(e)); })), "0 1 0 1 2 3");
  EXPECT_EQ(elements_of(dataset.interleave([](const Element& e) { return range(number_of(e)); }, {2, 1, false})),
            "0 0 1 1 2 3");
  const auto length = [](const Element& e) { return number_of(e); };
  EXPECT_EQ(elements_of(dataset.bucket_by_length(length, {3}, {2, 2}, LastBatch::keep)), "0,2 4");
  EXPECT_EQ(elements_of(skipping(4, is_odd)
                            .map([](const Element&) {
                              return element(HostArray::of<std::int64_t>({2}, {1, 2}));
                            })
                            .unbatch()),
            "1 2 1 2");
}

TEST(Skipped, APairWithASkippedRecordIsSkipped) {
  const auto sum = [](const Element& e) {
    return scalar(array_of(e, 0).data<std::int64_t>()[0] + array_of(e, 1).data<std::int64_t>()[0]);
  };
  EXPECT_EQ(elements_of(zip({skipping(4, is_odd), range(10, 14)}).map(sum)), "10 - 14 -");
  EXPECT_EQ(elements_of(zip({range(10, 14), skipping(4, is_odd)}).map(sum)), "10 - 14 -");
}

TEST(Skipped, ABatchHasARowOfWeightZero) {
  const Dataset dataset = skipping(7, is_odd);
  EXPECT_EQ(elements_of(dataset.batch(3, LastBatch::pad)), "0,0,2/101 0,4,0/010 6,0,0/100");
  EXPECT_EQ(elements_of(dataset.padded_batch(3, {}, LastBatch::pad)), "0,0,2/101 0,4,0/010 6,0,0/100");
  EXPECT_EQ(elements_of(dataset.window(2, 3, LastBatch::pad)), "0,0/10 0,4/01 6,0/10");
  const auto from_two_to_five = [](std::int64_t number) { return number >= 2 && number <= 5; };
  EXPECT_EQ(elements_of(skipping(8, from_two_to_five).batch(2, LastBatch::pad)), "0,1/11 0,0/00 0,0/00 6,7/11")
      << "batches without an element have the types of the first batch";
}

TEST(Skipped, ABatchWithoutWeightsIsAnError) {
  const std::string message = "batch: record 1 was skipped, but the batch has no weights of rows; use last=\"pad\"";
  for (const LastBatch last : {LastBatch::keep, LastBatch::drop}) {
    EXPECT_EQ(error_of([&] { elements_of(skipping(4, is_odd).batch(2, last)); }), message);
    EXPECT_EQ(error_of([&] { skipping(4, is_odd).batch(2, last).at(0); }), message);
  }
  EXPECT_EQ(elements_of(skipping(3, [](std::int64_t n) { return n == 2; }).batch(2, LastBatch::drop)), "0,1");
}

TEST(Skipped, TheFirstBatchNeedsAnElement) {
  const auto all = [](std::int64_t) { return true; };
  EXPECT_EQ(error_of([&] { elements_of(skipping(4, all).batch(2, LastBatch::pad)); }),
            "batch: all records of the first batch were skipped, so its types are not known");
}

TEST(StageScope, IsOfTheThreadAndNests) {
  EXPECT_FALSE(in_stage());
  {
    const StageScope outer;
    { const StageScope inner; }
    EXPECT_TRUE(in_stage());
  }
  EXPECT_FALSE(in_stage());
}

}  // namespace
}  // namespace karez::data
