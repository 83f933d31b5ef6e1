// Batches of elements that are read several at once: each must be as if its elements were stacked one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <vector>

#include "karez/data/dataset.h"
#include "karez/data/stages/stage_tree.h"

namespace karez::data {
namespace {

// The same elements, which can only be read one by one.
Dataset one_by_one(const Dataset& dataset) {
  return dataset.map([](const Element& e) { return e; });
}

std::vector<HostArray> arrays(std::int64_t rows) {
  HostArray wide(TensorType{DType::f32, {rows, 3}}), bits(TensorType{DType::u8, {rows}}),
      empty(TensorType{DType::f64, {rows, 0, 2}});
  for (std::int64_t i = 0; i < 3 * rows; ++i) wide.data<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i);
  for (std::int64_t i = 0; i < rows; ++i) bits.bytes()[i] = std::byte(i % 3 == 0);
  return {wide, bits, empty};
}

void expect_equal(const Element& a, const Element& b) {
  ASSERT_EQ(a.fields.size(), b.fields.size());
  EXPECT_EQ(*a.structure, *b.structure);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.index, b.index);
  for (std::size_t i = 0; i < a.fields.size(); ++i) {
    const HostArray &x = array_of(a, i), &y = array_of(b, i);
    ASSERT_EQ(x.type(), y.type());
    EXPECT_EQ(std::vector(x.bytes(), x.bytes() + x.type().bytes()),
              std::vector(y.bytes(), y.bytes() + y.type().bytes()));
  }
}

// The elements that the only actor of a data set emits.
class OnlyActor {
 public:
  OnlyActor(const Dataset& dataset, const RunStart& run) : tree_(stage_tree(dataset.node())) {
    EXPECT_EQ(tree_.work.size(), 1u);
    segment().start(run);
  }
  std::optional<Element> next() {
    static const std::atomic<bool> never{false};
    Element out;
    if (segment().act(nullptr, out, never) == Emission::last) return std::nullopt;
    return out;
  }

 private:
  Segment& segment() { return tree_.work[plan::StageId(0)].segment; }
  StageTree tree_;
};

std::vector<Element> first_of(const Dataset& dataset, std::int64_t epoch, StreamStateRef state, std::size_t count) {
  OnlyActor actor(dataset, {epoch, std::move(state)});
  std::vector<Element> out;
  while (out.size() < count) {
    std::optional<Element> next = actor.next();
    if (!next) break;
    out.push_back(std::move(*next));
  }
  return out;
}

TEST(BatchReads, AreTheElementsOneByOne) {
  const Dataset numbers = range(5, 60, 3), pairs = from_arrays(arrays(17)), none = range(0);
  const std::vector<Dataset> all = {
      numbers,
      range(10, -9, -2),
      none,
      none.repeat(),
      pairs,
      pairs.shuffle({.seed = 3}),
      pairs.shuffle({.seed = 3, .reshuffle = false}).repeat(3),
      numbers.repeat(),
      numbers.shuffle({.seed = 1}).repeat().shard(3, 1),
      pairs.skip(2).take(9),
      pairs.repeat(2).shuffle({.seed = 5}).skip(3),
      numbers.take(0),
  };
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const int rows : {1, 4, 7, 100})
      for (const LastBatch last : {LastBatch::keep, LastBatch::drop, LastBatch::pad})
        for (const std::int64_t epoch : {0, 2}) {
          SCOPED_TRACE(cat("data set ", i, ", rows ", rows, ", ", epoch));
          const Dataset batches = all[i].batch(rows, last), expected = one_by_one(all[i]).batch(rows, last);
          const std::vector<Element> found = first_of(batches, epoch, nullptr, 9);
          const std::vector<Element> reference = first_of(expected, epoch, nullptr, 9);
          ASSERT_EQ(found.size(), reference.size());
          for (std::size_t k = 0; k < found.size(); ++k) {
            expect_equal(found[k], reference[k]);
            expect_equal(batches.at(static_cast<std::int64_t>(k), epoch), reference[k]);
          }
          for (const std::size_t k : {std::size_t{0}, found.size() / 2}) {
            if (k + 1 >= found.size()) continue;
            const std::vector<Element> rest = first_of(batches, epoch, found[k].state, 1);
            ASSERT_EQ(rest.size(), 1u);
            expect_equal(rest[0], reference[k + 1]);
            expect_equal(first_of(expected, epoch, found[k].state, 1).at(0), reference[k + 1]);
          }
        }
}

// Unbatch and batch are one stage if nothing is between them.
TEST(Rebatch, IsAsRowByRow) {
  const Dataset pairs = from_arrays(arrays(17));
  const Dataset uneven = range(9).map([](const Element& e) {
    const std::int64_t rows = array_of(e).data<std::int64_t>()[0] % 4;
    HostArray out(TensorType{DType::f32, {rows, 2}});
    for (std::int64_t i = 0; i < 2 * rows; ++i)
      out.data<float>()[static_cast<std::size_t>(i)] = static_cast<float>(10 * e.index + i);
    Element element = data::element(std::move(out));
    return e.index == 6 ? skipped_element() : element;
  });
  Element objects;
  objects.fields.emplace_back(std::vector<Object>(5, std::make_shared<int>(3)));
  objects.structure = leaf_structure();
  const std::vector<Dataset> all = {
      pairs.batch(5).unbatch(),
      pairs.batch(5).unbatch().repeat(2).batch(3).unbatch(),
      uneven.unbatch(),
      uneven.repeat(2).unbatch(),
      pairs.take(0).batch(2).unbatch(),
      pairs.batch(1).unbatch(),
  };
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const int rows : {1, 2, 4, 100})
      for (const LastBatch last : {LastBatch::keep, LastBatch::drop, LastBatch::pad}) {
        SCOPED_TRACE(cat("data set ", i, ", rows ", rows));
        const Dataset batches = all[i].batch(rows, last), expected = one_by_one(all[i]).batch(rows, last);
        const std::vector<Element> found = first_of(batches, 1, nullptr, 50);
        const std::vector<Element> reference = first_of(expected, 1, nullptr, 50);
        ASSERT_EQ(found.size(), reference.size());
        for (std::size_t k = 0; k < found.size(); ++k) {
          expect_equal(found[k], reference[k]);
          const std::vector<Element> rest = first_of(batches, 1, found[k].state, 50);
          ASSERT_EQ(rest.size(), found.size() - k - 1);
          for (std::size_t r = 0; r < rest.size(); ++r) expect_equal(rest[r], reference[k + 1 + r]);
        }
      }
  const Dataset objects_of_rows = range(2).map([&](const Element&) { return objects; }).unbatch().batch(4);
  const std::vector<Element> found = first_of(objects_of_rows, 0, nullptr, 9);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(std::get<std::vector<Object>>(found[2].fields[0]).size(), 2u);
}

TEST(Rebatch, RowsOfDifferentTypesAreAnErrorUnlessTheyArePadded) {
  const Dataset rows = range(2).map([](const Element& e) {
    return element(HostArray(TensorType{DType::f32, {2, 1 + e.index}}));
  });
  EXPECT_THAT([&] { first_of(rows.unbatch().batch(3), 0, nullptr, 9); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("must have the same shape in all rows of a batch")));
  EXPECT_EQ(array_of(first_of(rows.unbatch().padded_batch(3), 0, nullptr, 9).at(0)).shape(), (Shape{3, 2}));
  EXPECT_EQ(first_of(rows.unbatch().batch(2), 0, nullptr, 9).size(), 2u);
}

// Rows of a batch that is not complete keep its arrays.
TEST(Rebatch, HeldBytesAreThoseOfTheBatchesThatItNeeds) {
  StageTree tree = stage_tree(range(100).batch(10).unbatch().batch(4).node());
  Segment& segment = tree.work[plan::StageId(0)].segment;
  segment.start({});
  static const std::atomic<bool> never{false};
  std::vector<std::int64_t> held;
  for (int i = 0; i < 5; ++i) {
    Element out;
    segment.act(nullptr, out, never);
    held.push_back(segment.held_bytes());
  }
  EXPECT_EQ(held, (std::vector<std::int64_t>{80, 80, 80, 80, 0}));
}

TEST(BatchReads, APositionOfAnotherDataSetIsAnError) {
  for (const std::int64_t index : {-1, 18})
    EXPECT_THAT([&] { first_of(from_arrays(arrays(17)).batch(4), 0, stream_state({index}), 1); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("but it has 17 elements")));
  EXPECT_TRUE(first_of(from_arrays(arrays(17)).batch(4), 0, stream_state({17}), 1).empty());
}

// The arrays of a batch that is still used must not be written again.
TEST(BatchReads, ABatchThatIsKeptDoesNotChange) {
  OnlyActor reader(range(100).batch(3), {});
  const Element first = *reader.next();
  for (int i = 0; i < 20; ++i) reader.next();
  EXPECT_EQ(array_of(first).data<std::int64_t>()[2], 2);
}

}  // namespace
}  // namespace karez::data
