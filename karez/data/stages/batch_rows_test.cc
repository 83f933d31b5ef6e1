// Tests of batches of which only the rows that are read are made.
#include "karez/data/stages/batch_rows.h"

#include <gtest/gtest.h>

#include <thread>

#include "karez/base/test_error.h"
#include "karez/base/text.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/sequential_reader.h"
#include "karez/data/stages/stage_machine.h"
#include "karez/data/stages/test_random_datasets.h"

namespace karez::data {
namespace {

using base::error_of;

// Reads elements of a data set with the actors of its stages, one act at a time.
class Reader {
 public:
  explicit Reader(const DatasetNodeRef& node) : machine_(stage_tree(node)) {}
  void start(const RunStart& run) { machine_.start(run); }
  std::optional<Element> next() {
    while (true) {
      machine_.deliver_all();
      if (machine_.readable()) return machine_.read();
      bool any = false;
      for (plan::StageId id : machine_.graph().stages.ids()) {
        if (!machine_.ready(id)) continue;
        StageExecution execution = machine_.begin(id);
        machine_.execute(execution);
        machine_.complete(execution);
        machine_.deliver_all();
        any = true;
      }
      if (!any) return std::nullopt;
    }
  }

 private:
  StageMachine machine_;
};

Element scalar(std::int64_t number) { return element(HostArray::of<std::int64_t>({}, {number})); }

std::string values(const Element& element, std::size_t field = 0) {
  const HostArray& array = array_of(element, field);
  if (array.dtype() == DType::i64) return join(array.data<std::int64_t>(), " ");
  std::string out;
  for (float number : array.data<float>()) out += cat(out.empty() ? "" : " ", static_cast<int>(number));
  return out;
}

// Rows 10, 11, ..., which count how often each of them is made.
struct CountedRows {
  explicit CountedRows(std::int64_t count) : made(static_cast<std::size_t>(count)) {}
  Dataset dataset() {
    return from_function(static_cast<std::int64_t>(made.size()), [this](std::int64_t index) {
      ++made[static_cast<std::size_t>(index)];
      return element(HostArray::of<std::int64_t>({}, {10 + index}));
    });
  }
  std::string text() const {
    std::string out;
    for (const auto& count : made) out += static_cast<char>('0' + count.load());
    return out;
  }
  std::vector<std::atomic<int>> made;
};

TEST(BatchRows, OnlyTheRowsThatEarlierBatchesWereReadForAreMade) {
  CountedRows rows(8);
  Reader reader(with_selected_rows(rows.dataset().batch(4).node()));
  reader.start({});
  std::optional<Element> batch = reader.next();
  ASSERT_TRUE(batch && batch->rows);
  EXPECT_EQ(values(*batch), "10 11 12 13") << "nothing is known yet";
  batch->rows->need(1, 3);
  batch.reset();
  reader.start({1});
  batch = reader.next();
  EXPECT_EQ(values(*batch), "0 11 12 0");
  batch->rows->need(1, 3);
  EXPECT_EQ(values(*batch), "0 11 12 0");
  batch->rows->need(0, 1);
  EXPECT_EQ(values(*batch), "10 11 12 0");
  batch->rows->need_all();
  EXPECT_EQ(values(*batch), "10 11 12 13");
}

// An iterator of a data set whose batches were read before for the rows `begin` to `end`.
Reader narrowed(const Dataset& dataset, std::int64_t begin, std::int64_t end) {
  Reader reader(with_selected_rows(dataset.node()));
  reader.start({});
  std::optional<Element> batch = reader.next();
  batch->rows->need(begin, end);
  batch.reset();
  return reader;
}

TEST(BatchRows, ARowIsMadeAtMostOnce) {
  CountedRows rows(8);
  Reader reader = narrowed(rows.dataset().batch(4), 0, 2);
  reader.start({});
  for (std::atomic<int>& count : rows.made) count = 0;
  std::optional<Element> batch = reader.next(), second = reader.next();
  EXPECT_EQ(rows.text(), "11001100");
  for (int i = 0; i < 2; ++i) batch->rows->need_all();
  EXPECT_EQ(rows.text(), "11111100");
  second->rows->need(2, 3);
  EXPECT_EQ(rows.text(), "11111110");
}

TEST(BatchRows, RowsThatWereReadLaterAreMadeFromThenOn) {
  CountedRows rows(4);
  Reader reader = narrowed(rows.dataset().batch(4), 0, 1);
  for (const char* expected : {"10 0 0 0", "10 0 0 13"}) {
    reader.start({});
    std::optional<Element> batch = reader.next();
    EXPECT_EQ(values(*batch), expected);
    batch->rows->need(3, 4);
  }
}

TEST(BatchRows, ARankMayReadNoRow) {
  CountedRows rows(12);
  Reader reader = narrowed(rows.dataset().batch(4, LastBatch::pad), 0, 0);
  reader.start({});
  for (std::atomic<int>& count : rows.made) count = 0;
  for (int i = 0; i < 3; ++i) {
    const std::optional<Element> batch = reader.next();
    EXPECT_EQ(values(*batch), "0 0 0 0");
    EXPECT_EQ(values(*batch, 1), "0 0 0 0") << "the weight of a row belongs to the row";
  }
  EXPECT_EQ(rows.text(), std::string(12, '0'));
}

TEST(BatchRows, ABatchThatNoLaunchReadsSaysNothing) {
  CountedRows rows(8);
  Reader reader(with_selected_rows(rows.dataset().batch(4).node()));
  reader.start({});
  EXPECT_EQ(values(*reader.next()), "10 11 12 13");
  reader.start({1});
  EXPECT_EQ(values(*reader.next()), "10 11 12 13");
}

TEST(BatchRows, ASmallerLastBatchIsComplete) {
  CountedRows rows(6);
  Reader reader = narrowed(rows.dataset().batch(4, LastBatch::keep), 0, 1);
  reader.start({});
  EXPECT_EQ(values(*reader.next()), "10 0 0 0");
  std::optional<Element> last = reader.next();
  EXPECT_EQ(values(*last), "14 15");
  last->rows->need(1, 2);
  last.reset();
  EXPECT_FALSE(reader.next());
  reader.start({1});
  EXPECT_EQ(values(*reader.next()), "10 0 0 0") << "a smaller batch says nothing about the others";
}

TEST(BatchRows, RowsOfPaddingAreZerosOfWeightZero) {
  CountedRows rows(6);
  Reader reader = narrowed(rows.dataset().batch(4, LastBatch::pad), 1, 4);
  reader.start({});
  EXPECT_EQ(values(*reader.next()), "0 11 12 13");
  std::optional<Element> last = reader.next();
  EXPECT_EQ(values(*last), "0 15 0 0");
  EXPECT_EQ(values(*last, 1), "0 1 0 0");
  last->rows->need_all();
  EXPECT_EQ(values(*last), "14 15 0 0");
  EXPECT_EQ(values(*last, 1), "1 1 0 0");
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(narrowed(rows.dataset().batch(4, LastBatch::drop), 0, 1).next()) << "two rows are dropped";
}

// With any selection, complete batches and positions are those of the plain data set.
TEST(BatchRows, BatchesAndPositionsAreThoseOfTheDataSet) {
  const auto twice = [](const Element& e) { return element(HostArray::of<std::int64_t>({}, {2 * number_of(e)})); };
  const auto random = [](const Element& e, const RandomKey& key) {
    return element(HostArray::of<std::int64_t>({}, {number_of(e) + key.word(0) % 100}));
  };
  const std::vector<Dataset> inputs = {
      range(23),
      range(23).shuffle({.seed = 3}),
      range(23).map(twice, {3}),
      range(40).shuffle().map(twice, {2}).map(random, 7).prefetch(3),
      range(23).map(random, 5, {2}).shuffle(),
      concat({range(5), range(100, 110)}).skip(2),
      range(23).map(twice, {2, false}).with_options({.deterministic = true}),
  };
  for (const Dataset& input : inputs)
    for (const LastBatch last : {LastBatch::keep, LastBatch::drop, LastBatch::pad})
      for (const Dataset& dataset :
           {input.batch(5, last), input.batch(5, last).prefetch(2), input.batch(5, last).with_options({.bytes = 10})}) {
        const DatasetNodeRef node = with_selected_rows(dataset.node());
        ASSERT_NE(node, nullptr) << dataset.text();
        EXPECT_EQ(Dataset(node).text(), dataset.text());
        EXPECT_EQ(Dataset(node).size(), dataset.size());
        Reader selected(node), plain(dataset.node());
        for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
          selected.start({epoch}), plain.start({epoch});
          StreamStateRef middle;
          while (const std::optional<Element> expected = plain.next()) {
            const std::optional<Element> batch = selected.next();
            ASSERT_TRUE(batch) << dataset.text();
            EXPECT_EQ(print(batch->state), print(expected->state)) << dataset.text();
            batch->rows->need(2, 4);
            if (epoch == 1) batch->rows->need_all();
            if (epoch == 2) batch->rows->need_all(), middle = batch->state;
            if (epoch > 0) { EXPECT_EQ(values(*batch), values(*expected)) << dataset.text(); }
          }
          EXPECT_FALSE(selected.next());
        }
        // Both continue at the same state.
        plain.start({0});
        const StreamStateRef state = plain.next()->state;
        Reader resumed(with_selected_rows(dataset.node()));
        resumed.start({0, state});
        const std::optional<Element> expected = plain.next(), batch = resumed.next();
        batch->rows->need_all();
        EXPECT_EQ(values(*batch), values(*expected));
        EXPECT_EQ(batch->rows->origin().first, 5);
      }
}

TEST(BatchRows, OtherDataSetsMakeAllRows) {
  const auto same = [](const Element& e) { return e; };
  const auto keep = [](const Element&) { return true; };
  const std::vector<Dataset> datasets = {
      range(9),
      range(9).batch(2).map(same),
      range(9).padded_batch(2),
      range(9).filter(keep).batch(2),
      range(9).batch(2).batch(2),
      range(9).map(same, {2}).repeat(2).batch(2),
      range(9).batch(2).shuffle(),
      range(9).window(3),
      range(9).map(same, {2, false}).batch(3),
      range(9).map(same, {2}).batch(3).with_options({.deterministic = false}),
  };
  for (const Dataset& dataset : datasets) EXPECT_EQ(with_selected_rows(dataset.node()), nullptr) << dataset.text();
}

TEST(BatchRows, RowsWithObjectsAreAllMade) {
  const Dataset dataset = range(6).map([](const Element& e) {
    Element out = e;
    out.fields.emplace_back(std::make_shared<int>(static_cast<int>(number_of(e))));
    out.structure = tuple_structure({leaf_structure(), leaf_structure()});
    return out;
  });
  Reader reader(with_selected_rows(dataset.batch(3).node()));
  for (int epoch = 0; epoch < 2; ++epoch) {
    reader.start({epoch});
    const std::optional<Element> batch = reader.next();
    EXPECT_EQ(batch->rows, nullptr);
    EXPECT_EQ(std::get<std::vector<Object>>(batch->fields[1]).size(), 3u);
  }
}

TEST(BatchRows, ARowOfAnotherTypeIsAnErrorWhenItIsMade) {
  const Dataset dataset = range(4).map([](const Element& e) {
    return element(HostArray(TensorType{number_of(e) == 3 ? DType::f32 : DType::i64, {number_of(e) == 2 ? 2 : 1}}));
  });
  Reader reader = narrowed(dataset.take(2).batch(2), 0, 0);
  SequentialReader plain(dataset.batch(4));
  plain.start({});
  EXPECT_NE(error_of([&] { plain.next(); }), "no error");
  BatchRows rows({dataset.node(), 0, 0}, {HostArray(TensorType{DType::i64, {4, 1}})}, {}, {true, true, false, false},
                 std::make_shared<RowSelection>(4));
  rows.need(0, 2);
  EXPECT_EQ(error_of([&] { rows.need(2, 3); }),
            "batch: field 0 must have the same type in all rows of a batch, got i64[1] and i64[2]");
  EXPECT_EQ(error_of([&] { rows.need_all(); }), error_of([&] { rows.need(2, 3); })) << "the row is still missing";
  EXPECT_EQ(error_of([&] { rows.need(3, 4); }),
            "batch: field 0 must have the same type in all rows of a batch, got i64[1] and f32[1]");
}

TEST(BatchRows, ASkippedRecordIsARowOfWeightZeroOnEveryRank) {
  const Dataset dataset = range(8).map(
      [](const Element& e) { return number_of(e) % 3 == 1 ? skipped_element() : scalar(10 + number_of(e)); });
  Reader complete(with_selected_rows(dataset.batch(4, LastBatch::pad).node()));
  complete.start({});
  const std::optional<Element> whole = complete.next();
  EXPECT_EQ(values(*whole), "10 0 12 13");
  EXPECT_EQ(values(*whole, 1), "1 0 1 1");
  Reader reader = narrowed(dataset.batch(4, LastBatch::pad), 1, 3);
  reader.start({});
  const std::optional<Element> batch = reader.next();
  EXPECT_EQ(values(*batch), "0 0 12 0");
  EXPECT_EQ(values(*batch, 1), "0 0 1 0");
  batch->rows->need_all();
  EXPECT_EQ(values(*batch), "10 0 12 13");
  EXPECT_EQ(values(*batch, 1), "1 0 1 1");
  const std::string message = "batch: record 1 was skipped, but the batch has no weights of rows; use last=\"pad\"";
  Reader unweighted(with_selected_rows(dataset.batch(4).node()));
  unweighted.start({});
  EXPECT_EQ(error_of([&] { unweighted.next(); }), message);
  Reader partial = narrowed(dataset.map([](const Element& e) { return e; }).skip(2).batch(2), 0, 1);
  partial.start({});
  EXPECT_EQ(values(*partial.next()), "12 0");
}

TEST(BatchRows, SeveralThreadsMayNeedTheSameRows) {
  CountedRows rows(64);
  Reader reader = narrowed(rows.dataset().batch(64), 0, 0);
  for (int repeat = 0; repeat < 20; ++repeat) {
    Reader fresh = narrowed(rows.dataset().batch(64), 0, 0);
    fresh.start({});
    const std::optional<Element> batch = fresh.next();
    std::vector<std::thread> threads;
    std::atomic<bool> equal{true};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (std::int64_t row = 0; row < 64; row += 1 + t) {
          batch->rows->need(row, row + 1);
          if (array_of(*batch).data<std::int64_t>()[static_cast<std::size_t>(row)] != 10 + row) equal = false;
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(equal);
  }
}

TEST(BatchRows, ASourceOfABatchMakesTheRowsThatItReads) {
  CountedRows rows(8);
  Reader reader = narrowed(rows.dataset().batch(4), 0, 0);
  reader.start({});
  const std::optional<Element> batch = reader.next();
  const std::shared_ptr<const Source> source = rows_source(array_of(*batch), batch->rows);
  EXPECT_EQ(source->type(), array_of(*batch).type());
  HostArray slice(TensorType{DType::i64, {2}});
  const std::int64_t one = 1, three = 3;
  source->read(0, {&one, 1}, slice.ref());
  EXPECT_EQ(join(slice.data<std::int64_t>(), " "), "11 12");
  EXPECT_EQ(values(*batch), "0 11 12 0");
  const HostArray single(TensorType{DType::i64, {1}});
  const std::byte* found = source->find(0, {&three, 1}, single.view());
  EXPECT_EQ(found, array_of(*batch).bytes() + 3 * sizeof(std::int64_t));
  EXPECT_EQ(values(*batch), "0 11 12 13");
}

}  // namespace
}  // namespace karez::data
