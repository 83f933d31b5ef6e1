// Tests of data sets that several ranks read: the rows that each of them makes, and streams that end apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>

#include "karez/api/ranks/test_ranks.h"
#include "karez/karez.h"

namespace karez {
namespace {

using data::Element;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

Element row(std::int64_t number) { return data::element(HostArray::of<float>({}, {static_cast<float>(number)})); }

// A batch of such rows is large enough that the planner splits it.
Element long_row(std::int64_t number) {
  return data::element(HostArray::of<float>({4096}, std::vector<float>(4096, static_cast<float>(number))));
}

// A data set that counts the rows that each rank makes.
struct CountedRows {
  data::Dataset dataset(int rank, std::int64_t size) {
    return data::from_function(size, [this, rank](std::int64_t index) {
      ++made[static_cast<std::size_t>(rank)];
      return long_row(index);
    });
  }
  std::array<std::atomic<int>, 4> made = {};
};

TEST(DatasetRanks, EachRankMakesTheRowsOfItsDevices) {
  CountedRows rows;
  const auto errors = errors_by_rank(2, [&](World& world, int rank) {
    auto total = compile(world.mesh("data=2"), [](Tensor x) { return sum(mean(x, {1})); });
    DataIterator iterator = world.iterate(rows.dataset(rank, 400).batch(8), {.slots = 1});
    float expected = 28;
    while (std::optional<Element> batch = iterator.next_partial()) {
      const float result = total(tensor_of(*batch)).only().item<float>();
      require(result == expected, "got ", result, " instead of ", expected);
      expected += 64;
    }
    require(expected == 28 + 64 * 50, "the epoch ended early");
  });
  EXPECT_THAT(errors, Each("no error"));
  // Only the first batches are complete: those that were made before one had been read.
  for (int rank : {0, 1})
    EXPECT_THAT(rows.made[static_cast<std::size_t>(rank)], AllOf(testing::Ge(200), testing::Le(240)));
}

TEST(DatasetRanks, AReaderOfMissingRowsGetsThem) {
  const auto errors = errors_by_rank(2, [](World& world, int rank) {
    auto total = compile(world.mesh("data=2"), [](Tensor x) { return sum(mean(x, {1})); });
    const data::Dataset dataset = data::from_function(40, [](std::int64_t index) { return long_row(index); }).batch(4);
    DataIterator iterator = world.iterate(dataset, {.slots = 1});
    for (int i = 0; i < 5; ++i) total(tensor_of(*iterator.next_partial())).only().read();
    const std::size_t other = rank == 0 ? 3 : 0;
    const auto first_of = [&](const HostArray& batch) { return batch.data<float>()[other * 4096]; };
    const auto expect = [&](float value, int number, const char* reader) {
      const float expected = static_cast<float>(4 * number) + static_cast<float>(other);
      require(value == expected, reader, ": got ", value, " instead of ", expected);
    };
    const Element batch = *iterator.next_partial();
    require(first_of(data::array_of(batch)) == 0, "the row of the other rank was made ahead");
    expect(first_of(tensor_of(batch).host_array()), 5, "host_array");
    expect(first_of(tensor_of(*iterator.next_partial()).read()), 6, "read");
    expect(first_of(data::array_of(*iterator.next())), 7, "next");
    const Interactive on(world.mesh("data=2"));
    expect(first_of((tensor_of(*iterator.next_partial()) * 1).read()), 8, "an operand");
    require(text_of(tensor_of(*iterator.next_partial())).find("36") != std::string::npos, "a printed tensor");
  });
  EXPECT_THAT(errors, Each("no error"));
}

TEST(DatasetRanks, BatchesInMicroBatchesAndOnSeveralAxes) {
  const auto errors = errors_by_rank(2, [](World& world, int) {
    FunctionOptions options;
    options.microbatches = 2;
    auto total = compile(
        world.mesh("data=2"), [](Tensor x, Tensor weight) { return sum(x * weight); }, options);
    DataIterator iterator =
        world.iterate(data::range(30)
                          .map([](const Element& e) { return row(data::array_of(e).data<std::int64_t>()[0]); })
                          .batch(8, data::LastBatch::pad));
    float sum_of_epoch = 0;
    for (int epoch = 0; epoch < 3; ++epoch) {
      sum_of_epoch = 0;
      while (std::optional<Element> batch = iterator.next_partial())
        sum_of_epoch += total(tensor_of(*batch, 0), tensor_of(*batch, 1)).only().item<float>();
      require(sum_of_epoch == 435, "the sum of epoch ", epoch, " is ", sum_of_epoch);
    }
  });
  EXPECT_THAT(errors, Each("no error"));
}

TEST(DatasetRanks, AnIndexOutOfRangeIsFoundByTheRankThatReadsIt) {
  const auto errors = errors_by_rank(2, [](World& world, int) {
    auto pick = compile(world.mesh("data=2"), [](Tensor table, Tensor index) { return sum(gather(table, index)); });
    DataIterator iterator = world.iterate(data::range(40).batch(4), {.slots = 1});
    const HostArray table(TensorType{DType::f32, {38, 2}});
    while (std::optional<Element> batch = iterator.next_partial()) pick(Tensor(table), tensor_of(*batch)).only().read();
  });
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("38"));
}

TEST(DatasetRanks, AStageMustNotCallACompiledFunction) {
  const auto errors = errors_by_rank(2, [](World& world, int) {
    auto twice = compile(world.mesh("data=2"), [](Tensor x) { return x * 2; });
    twice(Tensor(1.0f)).only().read();
    DataIterator iterator = world.iterate(
        data::range(5).map([&](const Element&) { return data::element(twice(Tensor(1.0f)).only().read()); }));
    iterator.next();
  });
  EXPECT_THAT(errors, Each(HasSubstr("a function of a data set must not use values on the devices of several ranks")));
}

TEST(DatasetRanks, RecordsThatAreSkippedKeepTheirRows) {
  const auto errors = errors_by_rank(2, [](World& world, int) {
    auto total = compile(world.mesh("data=2"), [](Tensor x, Tensor weight) { return sum(mean(x, {1}) * weight); });
    DataIterator iterator = world.iterate(
        data::from_function(24, [](std::int64_t i) { return i % 5 == 0 ? data::skipped_element() : long_row(i); })
            .batch(8, data::LastBatch::pad),
        {.slots = 1});
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const float expected : {23.0f, 67.0f, 136.0f}) {
        const Element batch = *iterator.next_partial();
        const float result = total(tensor_of(batch, 0), tensor_of(batch, 1)).only().item<float>();
        require(result == expected, "got ", result, " instead of ", expected);
        require(expected != 136.0f || !iterator.next_partial(), "the epoch has no end");
      }
  });
  EXPECT_THAT(errors, Each("no error"));
}

TEST(DatasetRanks, BatchesOfDifferentPositionsAreDifferentArguments) {
  const auto errors = errors_by_rank(2, [](World& world, int rank) {
    auto total = compile(world.mesh("data=2"), [](Tensor x) { return sum(x * 1.0); });
    DataIterator iterator = world.iterate(data::range(40).batch(4));
    if (rank == 1) iterator.next_partial();
    for (int i = 0; i < 5; ++i) total(tensor_of(*iterator.next_partial())).only().read();
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("pass different arguments"), HasSubstr("rows from 0 of epoch 0"),
                             HasSubstr("rows from 4 of epoch 0")));
}

// Rank r keeps the numbers of its shard below 10 * (r + 1).
data::Dataset uneven_stream(int rank) {
  return data::range(40).shard(2, rank).filter(
      [rank](const Element& e) { return data::array_of(e).data<std::int64_t>()[0] < 10 * (rank + 1); });
}

TEST(DatasetRanks, AnEpochEndsWithTheShortestStream) {
  const auto errors = errors_by_rank(2, [](World& world, int rank) {
    DataIterator iterator = world.iterate(uneven_stream(rank));
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::int64_t count = 0;
      while (const std::optional<Element> element = iterator.next())
        require(data::array_of(*element).data<std::int64_t>()[0] == 2 * count++ + rank, "an element of another shard");
      require(count == 5, "epoch ", epoch, " has ", count, " elements");
      require(iterator.state() == cat("epoch ", epoch + 1, " -"), "the position is ", iterator.state());
    }
  });
  EXPECT_THAT(errors, Each("no error"));
}

TEST(DatasetRanks, AnEpochIsPaddedToTheLongestStream) {
  const auto errors = errors_by_rank(2, [](World& world, int rank) {
    DataIterator iterator =
        world.iterate(uneven_stream(rank).batch(2, data::LastBatch::pad), {.uneven = UnevenEnd::pad});
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::string weights, total;
      while (const std::optional<Element> batch = iterator.next()) {
        for (float weight : data::array_of(*batch, 1).data<float>()) weights += weight == 1 ? "1" : "0";
        require(data::array_of(*batch, 0).shape() == Shape{2}, "a batch of another shape");
      }
      require(weights == (rank == 0 ? "1111100000" : "1111111111"), "rank ", rank, " has the weights ", weights);
    }
    iterator.start(7);
    require(iterator.next() && iterator.epoch() == 7, "a stream can be started again");
  });
  EXPECT_THAT(errors, Each("no error"));
}

TEST(DatasetRanks, AStreamWithoutElementsCannotBePadded) {
  const auto errors = errors_by_rank(2, [](World& world, int rank) {
    const data::Dataset stream = data::range(40).shard(2, rank).filter([rank](const Element&) { return rank == 1; });
    DataIterator iterator = world.iterate(stream, {.uneven = UnevenEnd::pad});
    iterator.next();
    if (rank == 1) iterator.next();
  });
  EXPECT_THAT(errors[0], HasSubstr("the stream of this rank has no element"));
  EXPECT_NE(errors[1], "no error");
}

TEST(DatasetRanks, ThreeRanksEndTogether) {
  const auto errors = errors_by_rank(3, [](World& world, int rank) {
    const data::Dataset stream = data::range(30).shard(3, rank).filter(
        [rank](const Element& e) { return rank != 1 || data::array_of(e).data<std::int64_t>()[0] < 12; });
    DataIterator iterator = world.iterate(stream);
    for (int epoch = 0; epoch < 4; ++epoch) {
      int count = 0;
      while (iterator.next()) ++count;
      require(count == 4, "rank ", rank, " has ", count, " elements");
    }
  });
  EXPECT_THAT(errors, Each("no error"));
}

TEST(DatasetRanks, ShardsOfDifferentSizesEndTogether) {
  const auto errors = errors_by_rank(2, [](World& world, int rank) {
    DataIterator iterator = world.iterate(data::range(7).shard(2, rank));
    int count = 0;
    while (iterator.next()) ++count;
    require(count == 3, "rank ", rank, " has ", count, " elements");
  });
  EXPECT_THAT(errors, Each("no error"));
}

TEST(DatasetRanks, ElementsOfDifferentTypesAreAnErrorThatNamesThem) {
  const auto errors = errors_by_rank(2, [](World& world, int rank) {
    const data::Dataset stream = data::range(8).shard(2, rank).map([rank](const Element&) {
      return data::element(HostArray(TensorType{DType::f32, {2 + rank}}));
    });
    world.iterate(stream).next();
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("ranks 0 and 1 read different elements"), HasSubstr("f32[2]"),
                                 HasSubstr("f32[3]"))));
}

TEST(DatasetRanks, ARankThatDoesSomethingElseIsAnError) {
  const auto errors = errors_by_rank(2, [](World& world, int rank) {
    DataIterator iterator = world.iterate(uneven_stream(rank));
    auto total = compile(world.mesh("data=2"), [](Tensor x) { return sum(x); });
    if (rank == 0) iterator.next();
    else total(HostArray::of<float>({2}, {1, 2})).wait();
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("reads element 0 of epoch 0"), HasSubstr("is at a plan of function")));
}

TEST(DatasetRanks, PositionsOfDifferentStreamsAreSavedTogether) {
  std::array<std::string, 2> texts;
  const auto errors = errors_by_rank(2, [&](World& world, int rank) {
    const data::Dataset stream = uneven_stream(rank).shuffle({.buffer = 3}).batch(2, data::LastBatch::pad);
    const IterateOptions options{.uneven = UnevenEnd::pad};
    DataIterator iterator = world.iterate(stream, options), other = world.iterate(stream, options);
    for (int i = 0; i < 4; ++i) iterator.next();  // the stream of rank 0 has ended
    const std::string state = iterator.common_state();
    texts[static_cast<std::size_t>(rank)] = state;
    require(state.starts_with("ranks 2\nepoch 0 end\nepoch 0 ("), "the position is ", state);
    other.restore(state);
    while (const std::optional<Element> expected = iterator.next()) {
      const std::optional<Element> batch = other.next();
      require(batch.has_value(), "the restored stream ended early");
      for (std::size_t field : {0, 1})
        require(std::memcmp(data::array_of(*batch, field).bytes(), data::array_of(*expected, field).bytes(), 8) == 0,
                "another batch");
    }
    require(!other.next(), "the restored stream has further batches");
  });
  EXPECT_THAT(errors, Each("no error"));
  EXPECT_EQ(texts[0], texts[1]);
  World world;
  DataIterator iterator = world.iterate(uneven_stream(0).shuffle({.buffer = 3}).batch(2, data::LastBatch::pad));
  EXPECT_THAT([&] { iterator.restore(texts[0]); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("saved by 2 ranks with a stream each, so it cannot be restored by 1 rank")));
  EXPECT_THAT([&] { iterator.restore("epoch 0 end"); }, testing::Throws<Error>());
  EXPECT_THAT([&] { iterator.restore("ranks 1"); }, testing::Throws<Error>());
  iterator.restore("ranks 1\nepoch 3 -");
  EXPECT_EQ(iterator.state(), "epoch 3 -");
}

TEST(DatasetRanks, APositionThatAllRanksShareIsSavedAsOne) {
  const auto errors = errors_by_rank(2, [](World& world, int rank) {
    const auto keep = [](const Element&) { return true; };
    DataIterator shards = world.iterate(data::range(40).shard(2, rank).batch(2)), rows = world.iterate(data::range(9)),
                 stream = world.iterate(data::range(9).filter(keep));
    shards.next(), rows.next(), stream.next();
    const std::string positions = cat(shards.common_state(), "; ", rows.common_state(), "; ", stream.common_state());
    require(positions == "ranks 2\nepoch 0 (2)\nepoch 0 (2); epoch 0 (1); epoch 0 (1)", "the positions are ",
            positions);
  });
  EXPECT_THAT(errors, Each("no error"));
}

}  // namespace
}  // namespace karez
