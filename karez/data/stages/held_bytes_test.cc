// Tests of DatasetOptions::bytes for elements that stages hold inside, and of elements that are too large.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/stage_machine.h"

namespace karez::data {
namespace {

using base::error_of;
using testing::HasSubstr;

bool any(const Element&) { return true; }
Element same(const Element& e) { return e; }

// A stream of scalars of 8 bytes.
Dataset numbers(std::int64_t count) { return range(count).filter(any); }

StageMachine machine_of(const Dataset& dataset, const DatasetOptions& options) {
  return StageMachine(stage_tree(dataset.with_options(options).node(), 1));
}

// Executes at most this many acts, starts included.
void work(StageMachine& machine, int acts = 1000) {
  for (bool any_ready = true; any_ready;) {
    any_ready = false;
    machine.deliver_all();
    for (plan::StageId id : machine.graph().stages.ids()) {
      if (acts == 0) return;
      if (!machine.ready(id)) continue;
      StageExecution execution = machine.begin(id);
      machine.execute(execution);
      machine.complete(execution);
      machine.deliver_all();
      any_ready = true, --acts;
    }
    machine.dropped().clear();
  }
}

// Reads at most this many elements, and returns how many there were.
int read(StageMachine& machine, int most) {
  int count = 0;
  for (; count < most; ++count) {
    work(machine);
    if (!machine.reading() || !machine.read()) break;
  }
  work(machine);
  return count;
}

struct Case {
  const char* name;
  std::function<Dataset(const Dataset&)> stages;
  std::int64_t first;  // bytes if the first element waits in the only slot
  std::int64_t last;   // bytes after the end of the epoch
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"none", [](const Dataset& d) { return d; }, 8, 0},
      {"shuffle", [](const Dataset& d) { return d.shuffle({.buffer = 5}); }, 5 * 8, 0},
      {"batch", [](const Dataset& d) { return d.batch(3); }, 3 * 8, 0},
      {"dropped batch", [](const Dataset& d) { return d.batch(3, LastBatch::drop); }, 3 * 8, 0},
      {"unbatch", [](const Dataset& d) { return d.batch(4).unbatch(); }, 8 + 4 * 8, 0},
      {"window", [](const Dataset& d) { return d.window(4, 2); }, (4 + 2) * 8, 0},
      {"window that skips", [](const Dataset& d) { return d.window(2, 3, LastBatch::keep); }, 2 * 8, 0},
      {"buckets",  // 0 is in the first bucket, 1, 2, 3 in the second
       [](const Dataset& d) {
         return d.bucket_by_length([](const Element& e) { return array_of(e).data<std::int64_t>()[0]; }, {1}, {2, 3});
       },
       (3 + 1) * 8, 0},
      {"cache", [](const Dataset& d) { return d.cache(); }, 8 + 8, 20 * 8},
      {"zip",
       [](const Dataset& d) {
         return zip({d, d});
       },
       2 * 8, 0},
      {"taken", [](const Dataset& d) { return d.shuffle({.buffer = 5}).take(7); }, 5 * 8, 0},
      {"flat_map", [](const Dataset& d) { return d.flat_map([](const Element&) { return numbers(9).batch(2); }); },
       2 * 8, 0},
      {"shuffle in interleave",
       [](const Dataset& d) {
         return d.take(2).interleave([](const Element&) { return numbers(9).shuffle({.buffer = 4}); }, {.cycle = 1});
       },
       4 * 8, 0},
  };
  return all;
}

class HeldBytes : public testing::TestWithParam<Case> {};

TEST_P(HeldBytes, AreThoseOfElementsInsideOfStages) {
  StageMachine machine = machine_of(GetParam().stages(numbers(20)), {.bytes = 10'000});
  for (const std::int64_t epoch : {0, 1}) {
    machine.start({epoch});
    work(machine);
    if (epoch == 0) { EXPECT_EQ(machine.bytes_held(), GetParam().first); }
    read(machine, 1000);
    EXPECT_EQ(machine.bytes_held(), GetParam().last);
  }
}

TEST_P(HeldBytes, AreFreedIfARunStopsEarly) {
  for (const int elements : {0, 1, 2}) {
    StageMachine machine = machine_of(GetParam().stages(numbers(20)), {.bytes = 10'000});
    machine.start({});
    EXPECT_EQ(read(machine, elements), elements);
    machine.stop();
    work(machine);
    EXPECT_EQ(machine.bytes_held(), 0);
  }
}

// A limit below what the stages need delays only what would be produced ahead.
TEST_P(HeldBytes, AnyLimitLeavesTheElementsAsTheyAre) {
  const auto count = [&](const DatasetOptions& options) {
    StageMachine machine = machine_of(GetParam().stages(numbers(20)).prefetch(3), options);
    machine.start({});
    return read(machine, 1000);
  };
  const int elements = count({});
  EXPECT_GT(elements, 1);
  for (const std::int64_t bytes : {1, 8, 20, 40, 100}) EXPECT_EQ(count({.bytes = bytes}), elements) << bytes;
}

INSTANTIATE_TEST_SUITE_P(Stages, HeldBytes, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

TEST(HeldBytes, RowsOfAnIncompleteBatchCount) {
  StageMachine machine = machine_of(numbers(20).prefetch(1).batch(5), {.bytes = 10'000});
  machine.start({});
  work(machine, 2 + 2 * 3);  // the starts, and three acts of each of both actors
  EXPECT_EQ(machine.bytes_held(), 3 * 8);
}

// What a stage holds leaves less for elements that are produced ahead.
TEST(HeldBytes, ReduceWhatIsProducedAhead) {
  const Dataset dataset = numbers(100).shuffle({.buffer = 10}).prefetch(8).map(same);
  for (const auto& [bytes, held] : {std::pair{2000, (9 + 8 + 1) * 8}, {100, 96}, {1, (9 + 1) * 8}}) {
    StageMachine machine = machine_of(dataset, {.bytes = bytes});
    machine.start({});
    read(machine, 3);
    EXPECT_EQ(machine.bytes_held(), held) << "limit " << bytes;
  }
}

TEST(Oversize, AnElementAboveTheLimitPassesOrIsAnError) {
  for (const int lanes : {1, 2}) {
    const Dataset dataset = numbers(9).map(
        [](const Element& e) {
          const std::int64_t n = array_of(e).data<std::int64_t>()[0];
          return element(HostArray(TensorType{DType::u8, {n == 4 ? 101 : 100}}));
        },
        {.parallel = lanes, .name = "make"});
    const auto read_with = [&](const DatasetOptions& options) {
      StageMachine machine = machine_of(dataset, options);
      machine.start({});
      return read(machine, 1000);
    };
    EXPECT_EQ(read_with({.bytes = 100}), 9);
    EXPECT_EQ(read_with({.bytes = 100, .oversize = Oversize::pass}), 9);
    EXPECT_EQ(read_with({.bytes = 101, .oversize = Oversize::error}), 9);
    EXPECT_EQ(read_with({.oversize = Oversize::error}), 9) << "without a limit";
    EXPECT_THAT(error_of([&] { read_with({.bytes = 100, .oversize = Oversize::error}); }),
                HasSubstr("makes an element of 101 bytes, but with_options allows 100 bytes"));
    EXPECT_THAT(error_of([&] { read_with({.bytes = 100, .oversize = Oversize::error}); }), HasSubstr("map(make"));
  }
}

TEST(Oversize, ElementsBeforeTheErrorArrive) {
  const Dataset dataset = numbers(9).map([](const Element& e) {
    return element(HostArray(TensorType{DType::u8, {array_of(e).data<std::int64_t>()[0] * 10}}));
  });
  StageMachine machine = machine_of(dataset, {.bytes = 30, .oversize = Oversize::error});
  machine.start({});
  EXPECT_EQ(read(machine, 4), 4);
  EXPECT_THAT(error_of([&] { machine.read(); }), HasSubstr("an element of 40 bytes"));
  machine.start({1});
  EXPECT_EQ(read(machine, 4), 4) << "the next epoch";
}

TEST(Oversize, ABufferAboveTheLimitPassesOrIsAnError) {
  const Dataset dataset = numbers(30).shuffle({.buffer = 10});
  const auto read_with = [&](const DatasetOptions& options) {
    StageMachine machine = machine_of(dataset, options);
    machine.start({});
    return read(machine, 1000);
  };
  EXPECT_EQ(read_with({.bytes = 50}), 30);
  EXPECT_EQ(read_with({.bytes = 80, .oversize = Oversize::error}), 30);
  EXPECT_THAT(
      error_of([&] { read_with({.bytes = 50, .oversize = Oversize::error}); }),
      HasSubstr("stage shuffle(buffer=10, seed=1) holds elements of 72 bytes, but with_options allows 50 bytes"));
}

}  // namespace
}  // namespace karez::data
