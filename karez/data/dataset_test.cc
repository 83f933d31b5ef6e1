// Tests of data sets: elements by index and in order, shuffles, random keys, caches and invalid arguments.
#include "karez/data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "karez/base/test_error.h"
#include "karez/base/text.h"
#include "karez/data/shuffle.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/sequential_reader.h"
#include "karez/data/stages/stage_machine.h"
#include "karez/data/stages/test_random_datasets.h"

namespace karez::data {
namespace {

using Texts = std::vector<std::string>;

constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

Element scalar(std::int64_t number) { return element(HostArray::of<std::int64_t>({}, {number})); }

// The same elements as a stream, whose elements cannot be read by index.
Dataset stream_of(const Dataset& dataset) {
  return from_generator([dataset](std::int64_t epoch) {
    return Generator{[dataset, epoch, next = std::int64_t{0}]() mutable -> std::optional<Element> {
      if (next == dataset.size()) return std::nullopt;
      return dataset.at(next++, epoch);
    }};
  });
}

// The structure, the record and the values of an element.
std::string text_of(const Element& element) {
  std::string out = cat(print(*element.structure), " of record ", element.epoch, "/", element.index);
  for (std::size_t i = 0; i < element.fields.size(); ++i) {
    const HostArray& array = array_of(element, i);
    out += cat("; ", print(array.type()), " ");
    if (array.dtype() == DType::i64) out += join(array.data<std::int64_t>(), " ");
    else out += join(array.data<float>(), " ");
  }
  return out;
}
Texts read_texts(const Dataset& dataset, std::int64_t epoch) {
  SequentialReader reader(dataset);
  reader.start({epoch});
  Texts out;
  while (std::optional<Element> element = reader.next()) out.push_back(text_of(*element));
  return out;
}
Numbers numbers_by_index(const Dataset& dataset, std::int64_t epoch = 0) {
  Numbers out;
  for (std::int64_t i = 0; i < dataset.size(); ++i) out.push_back(number_of(dataset.at(i, epoch)));
  return out;
}

// Reads an epoch as threads would, with as many acts of each stage at the same time as possible. The latest act ends
// first.
Numbers read_with_lanes(const Dataset& dataset, std::int64_t epoch = 0) {
  StageMachine machine(stage_tree(dataset.node()));
  machine.start({epoch});
  Numbers out;
  while (machine.reading()) {
    machine.deliver_all();
    std::vector<StageExecution> running;
    for (plan::StageId id : machine.graph().stages.ids())
      while (machine.ready(id)) running.push_back(machine.begin(id));
    for (; !running.empty(); running.pop_back()) {
      machine.execute(running.back());
      machine.complete(running.back());
    }
    while (machine.readable())
      if (std::optional<Element> element = machine.read()) out.push_back(number_of(*element));
  }
  return out;
}

Dataset add_one(const Dataset& d) {
  return d.map([](const Element& e) { return scalar(number_of(e) + 1); });
}
// Rows of different sizes.
Dataset ragged(const Dataset& d) {
  return d.map([](const Element& e) {
    const std::int64_t n = number_of(e);
    return element(HostArray::of<std::int64_t>({n % 3}, std::vector<std::int64_t>(static_cast<std::size_t>(n % 3), n)));
  });
}

// Data sets with every stage whose elements can be read by index if those of `d` can.
std::vector<Dataset> indexed_stages(const Dataset& d) {
  const Dataset pairs = zip({d.repeat(2), d.repeat()});
  std::vector<Dataset> out = {d, add_one(d), zip({d, add_one(d), range(9)}), pairs.batch(5), d.prefetch(3).repeat(2)};
  out.push_back(concat({d, range(0), d.take(2), range(30, 20, -3)}));
  for (std::int64_t n : {0, 3, 100}) out.insert(out.end(), {d.take(n), d.skip(n), d.repeat(n / 2)});
  out.insert(out.end(), {d.shard(3, 0), d.shard(3, 2).skip(1), d.repeat().skip(2).take(30)});
  out.insert(out.end(), {d.repeat().shard(4, 1).take(9), d.batch(2, LastBatch::drop).batch(3)});
  for (LastBatch last : {LastBatch::keep, LastBatch::drop, LastBatch::pad})
    out.insert(out.end(), {d.batch(4, last), d.batch(100, last), ragged(d).padded_batch(4, {{3}}, last)});
  return out;
}

TEST(Dataset, AnElementByIndexIsThatOfTheStream) {
  for (std::int64_t count : {0, 1, 8, 11}) {
    const std::vector<Dataset> indexed = indexed_stages(range(count)),
                               streams = indexed_stages(stream_of(range(count)));
    for (std::size_t i = 0; i < indexed.size(); ++i) {
      SCOPED_TRACE(cat("case ", i, "\n", indexed[i].text()));
      ASSERT_TRUE(indexed[i].size().has_value());
      for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        Texts by_index;
        for (std::int64_t index = 0; index < indexed[i].size(); ++index)
          by_index.push_back(text_of(indexed[i].at(index, epoch)));
        EXPECT_EQ(read_texts(indexed[i], epoch), by_index);
        EXPECT_EQ(read_texts(streams[i], epoch), by_index);
      }
    }
  }
}

TEST(Dataset, ARangeHasTheNumbersBeforeItsEnd) {
  const auto numbers = [](std::int64_t begin, std::int64_t end, std::int64_t step) {
    const Dataset dataset = range(begin, end, step);
    EXPECT_EQ(numbers_by_index(dataset), read_all(dataset));
    return numbers_by_index(dataset);
  };
  EXPECT_EQ(read_all(range(3)), (Numbers{0, 1, 2}));
  EXPECT_EQ(numbers(2, 9, 3), (Numbers{2, 5, 8}));
  EXPECT_EQ(numbers(2, 8, 3), (Numbers{2, 5}));
  EXPECT_EQ(numbers(9, 2, -3), (Numbers{9, 6, 3}));
  EXPECT_EQ(numbers(9, 3, -3), (Numbers{9, 6}));
  for (std::int64_t step : {1, -1}) EXPECT_EQ(numbers(4, 4, step), Numbers{});
  EXPECT_EQ(numbers(4, 9, -1), Numbers{});
  EXPECT_EQ(numbers(9, 4, 1), Numbers{});
  EXPECT_EQ(numbers(smallest, largest, largest), (Numbers{smallest, -1, largest - 1}));
  EXPECT_EQ(numbers(largest, smallest, smallest), (Numbers{largest, -1}));
  const Dataset wide = range(smallest, largest, 3);
  EXPECT_EQ(wide.size(), 6148914691236517205);
  EXPECT_EQ(number_of(wide.at(*wide.size() - 1)), largest - 3) << "the product of index and step has more than 64 bits";
}

TEST(Dataset, TheRowsOfArraysAreElements) {
  const HostArray x = HostArray::of<float>({2, 2}, {1, 2, 3, 4}), y = HostArray::of<std::int64_t>({2}, {5, 6});
  EXPECT_EQ(read_texts(from_arrays({x}), 1),
            (Texts{"* of record 1/0; f32[2] 1.0 2.0", "* of record 1/1; f32[2] 3.0 4.0"}));
  const StructureRef list =
      std::make_shared<const Structure>(Structure{Structure::Kind::list, {}, {leaf_structure(), leaf_structure()}});
  EXPECT_EQ(text_of(from_arrays({x, y}).at(1)), "(*, *) of record 0/1; f32[2] 3.0 4.0; i64[] 6");
  EXPECT_EQ(text_of(from_arrays({x, y}, list).at(0, 2)), "[*, *] of record 2/0; f32[2] 1.0 2.0; i64[] 5");
  EXPECT_EQ(array_of(from_arrays({x}).at(1)).bytes(), x.bytes() + 8) << "a row must share the bytes of the array";
  EXPECT_EQ(from_arrays({HostArray(TensorType{DType::f32, {0, 3}})}).size(), 0);
}

TEST(Dataset, AFunctionReturnsTheElementOfAnIndex) {
  EXPECT_EQ(text_of(from_function(4, scalar).at(3, 2)), "* of record 2/3; i64[] 3");
  EXPECT_EQ(read_texts(from_function(4, scalar), 1), read_texts(range(4), 1));
}

TEST(Dataset, TheSizeIsKnownIfElementsCanBeReadByIndex) {
  const Dataset ten = range(10), stream = stream_of(ten), huge = range(largest - 1);
  const auto same = [](const Element&) { return true; };
  EXPECT_EQ(ten.batch(4).size(), 3);
  EXPECT_EQ(ten.batch(4, LastBatch::drop).size(), 2);
  EXPECT_EQ(ten.shard(4, 1).size(), 3);
  EXPECT_EQ(ten.shard(4, 2).size(), 2);
  EXPECT_EQ(ten.shuffle({.buffer = 10}).size(), 10);
  EXPECT_EQ(zip({ten, range(7), ten.repeat()}).size(), 7);
  for (const Dataset& d : {ten.repeat(), ten.repeat().batch(3), ten.repeat().skip(5), ten.repeat().shard(3, 1),
                           huge.repeat(2), concat({huge, huge}), concat({ten, ten.repeat()}), huge.repeat().repeat(2)})
    EXPECT_EQ(d.size(), endless) << d.text();
  for (const Dataset& d : {range(0).repeat(), ten.repeat().repeat(0), ten.repeat().take(0), concat({range(0)})})
    EXPECT_EQ(d.size(), 0) << d.text();
  for (const Dataset& d :
       {stream, stream.batch(2), stream.repeat(), stream.repeat(0), stream.take(2), zip({ten, stream}),
        concat({ten, stream}), stream.prefetch(2), ten.filter(same), ten.cache(), ten.window(3), ten.batch(2).unbatch(),
        ten.shuffle({.buffer = 9}), ten.flat_map([](const Element&) { return range(2); })}) {
    EXPECT_EQ(d.size(), std::nullopt) << d.text();
    const std::string name = d.text().substr(0, d.text().find('\n'));
    EXPECT_EQ(error_of([&] { d.at(0); }),
              cat("the elements of ", name, " cannot be read by index; iterate over the data set"));
  }
}

TEST(Dataset, AnElementThatDoesNotExistIsAnError) {
  const Dataset dataset = range(10).take(3);
  EXPECT_EQ(error_of([&] { dataset.at(3); }), "element 3 does not exist: the data set has 3 elements");
  EXPECT_EQ(error_of([&] { dataset.at(-1); }), "element -1 does not exist: the data set has 3 elements");
  EXPECT_EQ(error_of([&] { range(0).at(0); }), "element 0 does not exist: the data set has 0 elements");
  EXPECT_EQ(error_of([&] { dataset.at(0, -1); }), "the epoch must be at least 0, got -1");
}

TEST(Dataset, TheTextListsTheStages) {
  const auto f = [](const Element& e) { return e; };
  EXPECT_EQ(zip({range(3).map(f, {4}).repeat(2), range(5, 1, -2).shuffle().skip(1)}).batch(2, LastBatch::pad).text(),
            "batch(2, last=pad)\nzip\n  repeat(2)\n  map(parallel=4)\n  range(0, 3, 1)\n  skip(1)\n  shuffle(seed=1)\n"
            "  range(5, 1, -2)\n");
  EXPECT_EQ(stream_of(range(3)).map(f, {2, false}).shuffle({5, 7, false}).window(3, 1).repeat().prefetch(4).text(),
            "prefetch(4)\nrepeat\nwindow(3, shift=1, last=drop)\nshuffle(buffer=5, seed=7, reshuffle=False)\n"
            "map(parallel=2, deterministic=False)\nfrom_generator(generator)\n");
  EXPECT_EQ(from_arrays({HostArray(TensorType{DType::f32, {2, 3}})}).text(), "from_arrays(f32[2, 3])\n");
}

Numbers sorted(Numbers numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

TEST(DatasetShuffle, AllElementsAreInTheOrderOfTheSeedAndTheEpoch) {
  for (bool reshuffle : {true, false}) {
    const Dataset dataset = range(100).shuffle({.seed = 3, .reshuffle = reshuffle});
    std::set<Numbers> orders;
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      std::vector<std::int32_t> order(100);
      data::shuffle(order, 3, reshuffle ? epoch : 0);
      orders.emplace(order.begin(), order.end());
      EXPECT_EQ(numbers_by_index(dataset, epoch), Numbers(order.begin(), order.end()));
      EXPECT_EQ(read_all(dataset, epoch), Numbers(order.begin(), order.end()));
    }
    EXPECT_EQ(orders.size(), reshuffle ? 4u : 1u);
  }
  EXPECT_EQ(sorted(read_all(range(9).repeat(2).shuffle(), 1)), sorted(read_all(range(9).repeat(2))));
}

TEST(DatasetShuffle, ABufferMovesElementsForwardByLessThanItsSize) {
  for (std::int64_t buffer : {1, 2, 5, 30, 100})
    for (bool reshuffle : {true, false}) {
      const Dataset dataset = stream_of(range(30)).shuffle({buffer, 7, reshuffle});
      std::set<Numbers> orders;
      std::int64_t furthest = 0;
      for (std::int64_t epoch = 0; epoch < 50; ++epoch) {
        const Numbers order = read_all(dataset, epoch);
        EXPECT_EQ(sorted(order), read_all(range(30)));
        for (std::size_t i = 0; i < 30; ++i) furthest = std::max(furthest, order[i] - static_cast<std::int64_t>(i));
        orders.insert(order);
      }
      EXPECT_LT(furthest, buffer);
      EXPECT_GE(furthest, reshuffle ? std::min<std::int64_t>(buffer, 30) - 1 : 0) << "the buffer is not used";
      EXPECT_EQ(orders.size(), reshuffle && buffer > 1 ? 50u : 1u);
    }
}

TEST(DatasetShuffle, EveryPositionIsEquallyLikelyForEveryElement) {
  constexpr int n = 8, epochs = 4000;
  for (std::uint64_t seed : {1, 2, 3})
    for (const Dataset& dataset : {range(n).shuffle({.seed = seed}), stream_of(range(n)).shuffle({n, seed}),
                                   stream_of(range(n)).shuffle({20, seed})}) {
      std::map<std::pair<std::int64_t, std::size_t>, int> counts;  // by element and position
      for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
        const Numbers order = read_all(dataset, epoch);
        for (std::size_t i = 0; i < n; ++i) ++counts[{order[i], i}];
      }
      for (std::int64_t element = 0; element < n; ++element) {
        double chi_square = 0;
        for (std::size_t i = 0; i < n; ++i) {
          const double difference = counts[{element, i}] - static_cast<double>(epochs) / n;
          chi_square += difference * difference * n / epochs;
        }
        EXPECT_LT(chi_square, 29.88) << "seed " << seed << ", element " << element << "\n" << dataset.text();
      }  // the 99.99 % quantile for 7 degrees of freedom
    }
}

// The number of each element and a random word of its key.
Dataset keyed(const Dataset& d, std::uint64_t seed = 1, const MapOptions& options = {}) {
  return d.map([](const Element& e, const RandomKey& key) { return scalar(number_of(e) << 32 | key.word(0)); }, seed,
               options);
}

TEST(RandomKey, TheKeyOfARecordDoesNotDependOnThreadsOrOrder) {
  const Dataset source = range(40), mapped = add_one(range(-1, 39));
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const Numbers expected = read_all(keyed(source), epoch);
    EXPECT_EQ(numbers_by_index(keyed(source), epoch), expected);
    EXPECT_EQ(sorted(read_all(keyed(source.shuffle()), epoch)), expected);
    EXPECT_EQ(sorted(read_all(keyed(concat({source.shard(2, 1), source.shard(2, 0)})), epoch)), expected);
    for (int parallel : {1, 2, 5})
      for (const Dataset& d : {mapped, stream_of(source), source.shuffle().filter([](const Element&) { return true; })})
        for (bool deterministic : {true, false})
          EXPECT_EQ(sorted(read_with_lanes(keyed(d, 1, {parallel, deterministic}), epoch)), expected) << d.text();
  }
}

TEST(RandomKey, KeysDifferBetweenSeedsEpochsAndRecords) {
  std::set<std::int64_t> words;
  for (std::uint64_t seed : {1, 2})
    for (std::int64_t epoch = 0; epoch < 6; epoch += 2)
      for (std::int64_t word : read_all(keyed(range(20).repeat(2), seed), epoch / 2)) words.insert(word & 0xffffffff);
  EXPECT_EQ(words.size(), 240u);
  const RandomKey key{1, 2, 3};
  EXPECT_NE(key.word(0), key.word(1));
  EXPECT_EQ(key.uniform(5), key.word(5) / 4294967296.0);
}

TEST(DatasetCache, TheInputIsReadInOneCompleteEpoch) {
  std::int64_t count = 0;
  const Dataset counted = stream_of(range(10)).map([&count](const Element& e) { return ++count, e; });
  const Dataset dataset = counted.cache();
  SequentialReader reader(dataset);
  reader.start();
  for (int i = 0; i < 4; ++i) reader.next();  // an interrupted epoch
  reader.start();
  while (reader.next()) continue;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(read_all(dataset, epoch), read_all(range(10)));
  EXPECT_EQ(count, 14);
  EXPECT_EQ(read_all(counted.cache().repeat(3)).size(), 30u);
  EXPECT_EQ(count, 24);
}

TEST(DatasetCache, AStreamResumesInALaterEpoch) {
  const auto make = [] { return range(30).shuffle().cache(); };
  const Dataset cached = make();
  const Numbers expected = read_all(cached, 0);
  SequentialReader reader(cached), resumed(make());
  reader.start({1});
  StreamStateRef state;
  for (std::size_t i = 0; i < 10; ++i) state = reader.next()->state;
  resumed.start({1, state});
  for (std::size_t i = 10; i < 30; ++i) EXPECT_EQ(number_of(*resumed.next()), expected[i]);
}

TEST(Dataset, AnInvalidArgumentIsAnError) {
  const Dataset d = range(10), stream = stream_of(d);
  const auto same = [](const Element& e) { return e; };
  const auto all = [](const Element&) { return true; };
  const auto inner = [](const Element&) { return range(1); };
  const auto length = [](const Element&) { return std::int64_t{1}; };
  const auto buckets = [&](const Numbers& boundaries, const Numbers& sizes) {
    d.bucket_by_length(length, boundaries, sizes);
  };
  const InterleaveOptions no_block{1, 0};
  const std::vector<HostArray> two_and_three = {HostArray(TensorType{DType::f32, {2}}),
                                                HostArray(TensorType{DType::f32, {3}})};
  const std::string no_structure = "the function returned an element without a structure; use element()";
  const std::string shard = "shard: the index must be between 0 and 1 and the number of shards at least 1, got index ";
  const std::vector<std::pair<std::function<void()>, std::string>> cases = {
      {[&] { range(0, 1, 0); }, "range: step must not be 0"},
      {[&] { range(smallest, largest); }, "range: the number of elements exceeds 64 bits"},
      {[&] { from_arrays({}); }, "from_arrays: at least one array is needed"},
      {[&] { from_arrays(two_and_three, tuple_structure({})); },
       "from_arrays: the structure has 0 leaves, but there are 2 arrays"},
      {[&] { from_arrays({HostArray()}); }, "from_arrays: an array is not initialised"},
      {[&] { from_arrays({HostArray(TensorType{})}); },
       "from_arrays: an array must have at least one dimension, got f32[]"},
      {[&] { from_arrays(two_and_three); }, "from_arrays: all arrays must have the same number of rows, got 2 and 3"},
      {[&] { from_function(-1, scalar); }, "function: the number of elements must be at least 0, got -1"},
      {[&] { from_function(1, nullptr, "rows"); }, "rows: the function must not be null"},
      {[&] { from_function(1, [](std::int64_t) { return Element(); }).at(0); }, "function: " + no_structure},
      {[&] { from_generator(nullptr); }, "from_generator: the function must not be null"},
      {[&] { read_all(from_generator([](std::int64_t) { return Generator(); }, "g")); },
       "g: a generator needs the function `next`"},
      {[&] { d.map(std::function<Element(const Element&)>()); }, "map: the function must not be null"},
      {[&] { d.map(std::function<Element(const Element&, const RandomKey&)>(), 1); },
       "map: the function must not be null"},
      {[&] { d.map([](const Element&) { return Element(); }).at(0); }, "map: " + no_structure},
      {[&] { d.map(same, {0}); }, "map: parallel must be between 1 and 1024, got 0"},
      {[&] { d.filter(all, {1025}); }, "filter: parallel must be between 1 and 1024, got 1025"},
      {[&] { d.filter(nullptr); }, "filter: the function must not be null"},
      {[&] { d.flat_map(nullptr); }, "flat_map: the function must not be null"},
      {[&] { d.interleave(nullptr); }, "interleave: the function must not be null"},
      {[&] { d.interleave(inner, {0}); }, "interleave: cycle must be between 1 and 1024, got 0"},
      {[&] { d.interleave(inner, no_block); }, "interleave: block must be at least 1, got 0"},
      {[&] { d.shuffle({-1}); }, "shuffle: buffer must be at least 1, or 0 for all elements, got -1"},
      {[&] { stream.shuffle(); }, "shuffle: buffer must be at least 1, because the number of elements is not known"},
      {[&] { d.repeat().shuffle(); },
       "shuffle: buffer must be at least 1, because the number of elements is too large for a permutation"},
      {[&] { d.batch(0); }, "batch: the number of rows must be at least 1, got 0"},
      {[&] { d.padded_batch(-1); }, "padded_batch: the number of rows must be at least 1, got -1"},
      {[&] { d.window(0); }, "window: the number of elements must be at least 1, got 0"},
      {[&] { d.window(2, -1); }, "window: shift must be at least 1, or 0 for the number of elements, got -1"},
      {[&] { d.bucket_by_length(nullptr, {}, {1}); }, "bucket_by_length: the function must not be null"},
      {[&] { buckets(Numbers(1), Numbers(1)); },
       "bucket_by_length: there must be one more batch size than boundaries, got 1 and 1"},
      {[&] { buckets(Numbers(2, 4), Numbers(3, 1)); }, "bucket_by_length: the boundaries must increase"},
      {[&] { buckets(Numbers(1), Numbers(2, 0)); }, "bucket_by_length: a batch size must be at least 1, got 0"},
      {[&] { read_all(d.unbatch()); }, "unbatch: field 0 must have at least one dimension, got i64[]"},
      {[&] { read_all(d.map([&](const Element&) { return element(two_and_three); }).unbatch()); },
       "unbatch: all fields must have the same number of rows, got 2 and 3"},
      {[&] { d.repeat(-2); }, "repeat: count must be at least 0, or -1 for no end, got -2"},
      {[&] { d.take(-1); }, "take: count must be at least 0, got -1"},
      {[&] { d.skip(-1); }, "skip: count must be at least 0, got -1"},
      {[&] { d.shard(2, 2); }, shard + "2 of 2"},
      {[&] { d.shard(2, -1); }, shard + "-1 of 2"},
      {[&] { d.prefetch(0); }, "prefetch: slots must be between 1 and 32767, got 0"},
      {[&] { zip({}); }, "zip: at least one data set is needed"},
      {[&] { concat({}); }, "concat: at least one data set is needed"},
  };
  for (const auto& [call, text] : cases) EXPECT_EQ(error_of(call), text);
}

}  // namespace
}  // namespace karez::data
