// Tests of cache and snapshot: which runs execute the stages before them, what is stored, and what remains after
// errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

#include "karez/base/test_error.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/sequential_reader.h"
#include "karez/data/stages/test_random_datasets.h"
#include "karez/data/test_folder.h"

namespace karez::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Element scalar(std::int64_t number) { return element(HostArray::of<std::int64_t>({}, {number})); }

// The numbers begin .. begin + count - 1 as a stream, where `begin` is 1000 times the number of runs before.
struct CountedRuns {
  std::int64_t count;
  std::shared_ptr<std::int64_t> runs = std::make_shared<std::int64_t>(0);
  Dataset dataset() const {
    return from_generator([count = count, runs = runs](std::int64_t) {
      return Generator{[count, next = 1000 * (*runs)++, left = count]() mutable -> std::optional<Element> {
        if (left-- == 0) return std::nullopt;
        return scalar(next++);
      }};
    });
  }
};
Numbers numbers_from(std::int64_t begin, std::int64_t count) {
  Numbers out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(begin + i);
  return out;
}
Numbers rest(SequentialReader& reader) {
  Numbers out;
  while (std::optional<Element> element = reader.next()) out.push_back(number_of(*element));
  return out;
}

// Epoch and number of the records, and the values.
Numbers records(const Dataset& dataset, std::int64_t epoch) {
  SequentialReader reader(dataset);
  reader.start({epoch});
  Numbers out;
  while (std::optional<Element> element = reader.next()) {
    for (std::int64_t number : {element->epoch, element->index, number_of(*element)}) out.push_back(number);
  }
  return out;
}

std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

// What holds for a cache in memory, a cache in a file, and a snapshot.
class Stored : public ::testing::TestWithParam<const char*> {
 protected:
  Dataset store(const Dataset& dataset) const {
    const std::string kind = GetParam();
    if (kind == "snapshot") return dataset.snapshot(folder.path("s"));
    return kind == "file" ? dataset.cache(folder.path("")) : dataset.cache();
  }
  TestFolder folder;
};

TEST_P(Stored, OnlyACompleteEpochIsStored) {
  const CountedRuns runs{10};
  const Dataset dataset = store(runs.dataset());
  SequentialReader reader(dataset);
  for (int i = 0; i < 3; ++i) {
    reader.start();
    for (int n = 0; n < 4 + 3 * i; ++n) reader.next();  // the last time all elements, but not the end
  }
  reader.start();
  EXPECT_EQ(rest(reader), numbers_from(3000, 10));
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(read_all(dataset, epoch), numbers_from(3000, 10));
  EXPECT_EQ(*runs.runs, 4);
}

TEST_P(Stored, AReaderThatIsDroppedStoresNothing) {
  const CountedRuns runs{10};
  const Dataset dataset = store(runs.dataset());
  const std::ptrdiff_t open = descriptors();
  {
    SequentialReader reader(dataset);
    reader.start();
    for (int n = 0; n < 10; ++n) reader.next();
  }
  EXPECT_THAT(folder.names(), IsEmpty());
  EXPECT_EQ(descriptors(), open);
  EXPECT_EQ(read_all(dataset), numbers_from(1000, 10));
}

TEST_P(Stored, TwoReadersAtTheSameTimeDoNotMix) {
  const CountedRuns runs{10};
  const Dataset dataset = store(runs.dataset());
  SequentialReader a(dataset), b(dataset);
  a.start(), b.start();
  for (std::int64_t n = 0; n < 10; ++n) {
    EXPECT_EQ(number_of(*a.next()), n);
    EXPECT_EQ(number_of(*b.next()), 1000 + n);
  }
  EXPECT_FALSE(b.next());
  EXPECT_FALSE(a.next());
  for (SequentialReader* reader : {&a, &b}) {
    reader->start({1});
    EXPECT_EQ(rest(*reader), numbers_from(1000, 10)) << "the run of b was complete first";
  }
  EXPECT_EQ(*runs.runs, 2);
}

TEST_P(Stored, AnErrorBeforeTheEndStoresNothing) {
  const CountedRuns runs{10};
  bool fails = true;
  const Dataset dataset = store(runs.dataset().map([&](const Element& e) {
    require(!fails || number_of(e) != 7, "planted error");
    return e;
  }));
  {
    SequentialReader reader(dataset);
    reader.start();
    EXPECT_EQ(error_of([&] { rest(reader); }), "planted error");
    fails = false;
    reader.start();
    EXPECT_EQ(rest(reader), numbers_from(1000, 10));
  }
  EXPECT_EQ(read_all(dataset), numbers_from(1000, 10));
  EXPECT_EQ(*runs.runs, 2);
}

TEST_P(Stored, EveryEpochHasTheElementsOfEpoch0) {
  const Dataset input = range(20)
                            .shuffle({.seed = 3})
                            .map(
                                [](const Element& e, const RandomKey& key) {
                                  return scalar(number_of(e) + 100 * static_cast<std::int64_t>(1000 * key.uniform(0)));
                                },
                                5);
  const Dataset dataset = store(input);
  const Numbers expected = records(input, 0);
  ASSERT_NE(expected, records(input, 2));
  for (std::int64_t epoch : {2, 0, 5}) {
    Numbers shifted = expected;
    for (std::size_t i = 0; i < shifted.size(); i += 3) shifted[i] += epoch;
    EXPECT_EQ(records(dataset, epoch), shifted) << "epoch " << epoch;
  }
}

TEST_P(Stored, AnEmptyDataSetIsStored) {
  const CountedRuns runs{0};
  const Dataset dataset = store(runs.dataset());
  for (int i = 0; i < 3; ++i) EXPECT_THAT(read_all(dataset), IsEmpty());
  EXPECT_EQ(*runs.runs, 1);
}

TEST_P(Stored, RepeatReadsTheStagesOnce) {
  const CountedRuns runs{4};
  const Dataset dataset = store(runs.dataset()).repeat(3);
  EXPECT_THAT(read_all(dataset, 1), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_EQ(*runs.runs, 1);
}

TEST_P(Stored, ObjectsNeedACodecInFiles) {
  const Dataset objects = range(3).map([](const Element& e) {
    Element out;
    out.fields.emplace_back(Object(std::make_shared<std::int64_t>(number_of(e))));
    out.structure = leaf_structure();
    return out;
  });
  const std::string error = error_of([&] {
    SequentialReader reader(store(objects));
    reader.start();
    for (int i = 0; i < 3; ++i) reader.next();
    throw Error("no error");
  });
  EXPECT_THAT(error, HasSubstr(std::string(GetParam()) == "memory" ? "no error" : "without an ObjectCodec"));
  EXPECT_THAT(folder.names(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Data, Stored, ::testing::Values("memory", "file", "snapshot"),
                         [](const auto& info) { return std::string(info.param); });

class CacheFile : public ::testing::Test {
 protected:
  TestFolder folder;
};

TEST_F(CacheFile, HasNoNameAndIsClosedWithTheDataSet) {
  const std::ptrdiff_t open = descriptors();
  {
    const Dataset dataset = range(5).cache(folder.path(""));
    EXPECT_EQ(read_all(dataset), numbers_from(0, 5));
    EXPECT_EQ(descriptors(), open + 1);
    EXPECT_THAT(folder.names(), IsEmpty());
    std::filesystem::remove_all(folder.path(""));
    EXPECT_EQ(read_all(dataset), numbers_from(0, 5)) << "the file stays open";
    std::filesystem::create_directory(folder.path(""));
  }
  EXPECT_EQ(descriptors(), open);
}

TEST_F(CacheFile, AFullDiskIsAnErrorAndLeavesNoFile) {
  const Dataset dataset = range(1000).cache(folder.path(""));
  const std::ptrdiff_t open = descriptors();
  SequentialReader reader(dataset);
  reader.start();
  EXPECT_EQ(error_with_a_full_disk([&] { rest(reader); }),
            cat("cannot write a cache file in ", folder.path(""), ": File too large"));
  EXPECT_EQ(descriptors(), open);
  reader.start();
  EXPECT_EQ(rest(reader), numbers_from(0, 1000));
}

TEST_F(CacheFile, TheFolderMustExist) {
  EXPECT_EQ(error_of([&] { range(3).cache(folder.path("none")); }),
            cat("cache: cannot use the folder \"", folder.path("none"), "\": No such file or directory"));
  folder.put("file", "");
  EXPECT_EQ(error_of([&] { range(3).cache(folder.path("file")); }),
            cat("cache: \"", folder.path("file"), "\" must be a folder"));
  EXPECT_EQ(range(3).cache(folder.path("")).text(), cat("cache(\"", folder.path(""), "\")\nrange(0, 3, 1)\n"));
  EXPECT_EQ(range(3).cache(folder.path("")).common_text(), "cache\nrange(0, 3, 1)\n");
}

class Snapshot : public ::testing::Test {
 protected:
  TestFolder folder;
  std::string path = folder.path("s");
};

TEST_F(Snapshot, ALaterProgramReadsTheFile) {
  const CountedRuns runs{10};
  {
    const Dataset dataset = runs.dataset().snapshot(path);
    EXPECT_FALSE(dataset.size());
    EXPECT_THAT(error_of([&] { dataset.at(0); }), HasSubstr("cannot be read by index; iterate over the data set"));
    EXPECT_EQ(read_all(dataset, 3), numbers_from(0, 10));
    EXPECT_EQ(dataset.size(), 10);
  }
  EXPECT_THAT(folder.names(), ElementsAre("s"));
  const Dataset dataset = runs.dataset().snapshot(path);
  EXPECT_EQ(dataset.size(), 10);
  EXPECT_EQ(number_of(dataset.at(7)), 7);
  EXPECT_EQ(dataset.at(7, 2).epoch, 2);
  EXPECT_EQ(dataset.at(7, 2).index, 7);
  EXPECT_EQ(dataset.batch(4).size(), 3);
  EXPECT_EQ(dataset.shuffle().size(), 10);
  EXPECT_EQ(read_all(dataset), numbers_from(0, 10));
  EXPECT_EQ(*runs.runs, 1);
}

TEST_F(Snapshot, TheFileAppearsWhenItIsComplete) {
  SequentialReader reader(range(5).snapshot(path));
  reader.start();
  for (int i = 0; i < 5; ++i) {
    reader.next();
    ASSERT_EQ(folder.names().size(), 1u);
    EXPECT_THAT(folder.names()[0], HasSubstr("s.writing-"));
  }
  EXPECT_FALSE(reader.next());
  EXPECT_THAT(folder.names(), ElementsAre("s"));
}

TEST_F(Snapshot, ASecondReaderDoesNotReplaceTheFile) {
  const Dataset dataset = range(5).snapshot(path);
  SequentialReader a(dataset), b(dataset);
  a.start(), b.start(), b.next(), rest(a);
  std::filesystem::create_hard_link(path, folder.path("first"));
  rest(b);
  EXPECT_TRUE(std::filesystem::equivalent(path, folder.path("first")));
  EXPECT_THAT(folder.names(), ElementsAre("first", "s"));
}

TEST_F(Snapshot, AForkedProcessLeavesTheFileToItsParent) {
  SequentialReader reader(range(5).snapshot(path));
  reader.start();
  reader.next();
  const pid_t child = ::fork();
  if (child == 0) {
    { const SequentialReader dropped = std::move(reader); }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(rest(reader), numbers_from(1, 4));
  EXPECT_THAT(folder.names(), ElementsAre("s"));
}

TEST_F(Snapshot, SeveralWritersOfOnePathAreIndependent) {
  const CountedRuns runs{10};
  const Dataset first = runs.dataset().snapshot(path), second = runs.dataset().snapshot(path);
  SequentialReader a(first), b(second);
  a.start(), b.start();
  for (std::int64_t n = 0; n < 10; ++n) a.next(), b.next();
  EXPECT_EQ(folder.names().size(), 2u);
  EXPECT_FALSE(a.next());
  EXPECT_EQ(read_all(runs.dataset().snapshot(path)), numbers_from(0, 10));
  EXPECT_FALSE(b.next());
  EXPECT_THAT(folder.names(), ElementsAre("s"));
  EXPECT_EQ(read_all(first), numbers_from(0, 10)) << "it reads the file that it has written";
  EXPECT_EQ(read_all(runs.dataset().snapshot(path)), numbers_from(1000, 10));
}

TEST_F(Snapshot, AnotherDataSetIsAnError) {
  read_all(range(5).snapshot(path));
  EXPECT_EQ(
      error_of([&] { range(6).take(3).snapshot(path); }),
      cat("snapshot: ", path, " has the elements of another data set:\nrange(0, 5, 1)\nThis data set is:\ntake(3)\n",
          "range(0, 6, 1)\nDelete the file, so that it is written again, or use another path."));
  const Dataset made_before = range(5).batch(2).snapshot(folder.path("t"));
  std::filesystem::rename(path, folder.path("t"));
  EXPECT_THAT(error_of([&] { read_all(made_before); }), HasSubstr("has the elements of another data set"));
  EXPECT_EQ(read_all(range(5).snapshot(path)), numbers_from(0, 5));
}

TEST_F(Snapshot, WhatIsNotASnapshotIsAnErrorAndStays) {
  folder.put("s", "id,label\n1,2\n");
  EXPECT_THAT(error_of([&] { range(5).snapshot(path); }), HasSubstr(path + " is not a file of elements"));
  EXPECT_EQ(folder.content("s"), "id,label\n1,2\n");
  std::filesystem::create_directory(folder.path("folder"));
  EXPECT_THAT(error_of([&] { range(5).snapshot(folder.path("folder")); }), HasSubstr("it is not a regular file"));
  EXPECT_THAT(error_of([&] { range(5).snapshot(folder.path("folder/")); }), HasSubstr("the path of a file is needed"));
  EXPECT_THAT(error_of([&] { range(5).snapshot(""); }), HasSubstr("the path of a file is needed"));
  EXPECT_THAT(error_of([&] { range(5).snapshot(folder.path("none/s")); }), HasSubstr("No such file or directory"));
}

TEST_F(Snapshot, ADamagedElementIsAnErrorAfterTheElementsBeforeIt) {
  read_all(range(5).snapshot(path));
  std::string bytes = folder.content("s");
  bytes[bytes.size() - 40 - 5 * 8 - 1] ^= 1;  // the last byte of the last record
  folder.put("s", bytes);
  SequentialReader reader(range(5).snapshot(path));
  reader.start();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(number_of(*reader.next()), i);
  EXPECT_THAT(error_of([&] { reader.next(); }), HasSubstr(path + ": record 4 at byte "));
}

TEST_F(Snapshot, AFullDiskIsAnErrorAndLeavesNoFile) {
  const Dataset dataset = range(1000).snapshot(path);
  SequentialReader reader(dataset);
  reader.start();
  EXPECT_EQ(error_with_a_full_disk([&] { rest(reader); }), cat("cannot write ", path, ": File too large"));
  EXPECT_THAT(folder.names(), IsEmpty());
  EXPECT_FALSE(dataset.size());
  reader.start();
  EXPECT_EQ(rest(reader), numbers_from(0, 1000));
}

// A buffer that is larger than the data set would be a permutation, if the size were known from the beginning.
TEST_F(Snapshot, TheOrderOfAShuffleDoesNotDependOnTheFile) {
  const auto make = [&] { return range(20).snapshot(path).shuffle({.buffer = 30}); };
  const Dataset first = make();
  const Numbers expected = read_all(first, 1);
  ASSERT_NE(expected, numbers_from(0, 20));
  EXPECT_EQ(read_all(first, 1), expected);
  SequentialReader before(make());
  before.start({1});
  Numbers read;
  StreamStateRef state;
  for (int i = 0; i < 8; ++i) {
    const Element element = *before.next();
    read.push_back(number_of(element));
    state = element.state;
  }
  std::filesystem::remove(path);
  SequentialReader after(make());
  after.start({1, state});
  for (std::int64_t number : rest(after)) read.push_back(number);
  EXPECT_EQ(read, expected);
}

TEST_F(Snapshot, AResumedStreamReadsTheFile) {
  const CountedRuns runs{10};
  SequentialReader reader(runs.dataset().snapshot(path).skip(2));
  reader.start({1});
  StreamStateRef state;
  for (int i = 0; i < 3; ++i) state = reader.next()->state;
  while (reader.next()) continue;
  SequentialReader resumed(runs.dataset().snapshot(path).skip(2));
  resumed.start({1, state});
  EXPECT_EQ(rest(resumed), numbers_from(5, 5));
  EXPECT_EQ(*runs.runs, 1);
}

TEST_F(Snapshot, TextsOfRanksDoNotContainThePath) {
  EXPECT_EQ(range(3).snapshot(path).text(), cat("snapshot(\"", path, "\")\nrange(0, 3, 1)\n"));
  EXPECT_EQ(range(3).snapshot(path).common_text(), "snapshot\nrange(0, 3, 1)\n");
}

}  // namespace
}  // namespace karez::data
