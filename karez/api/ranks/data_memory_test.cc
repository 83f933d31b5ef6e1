// Tests of the memory that elements of data sets need: memory limits of plans are reduced by it, and reports show it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>

#include "karez/api/ranks/test_ranks.h"
#include "karez/karez.h"

namespace karez {
namespace {

using base::error_of;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t batch_bytes = std::int64_t{64} * 100 * 4, KiB = 1024;

// Batches of 25 KiB, of which slots and running calls may hold 2 + 4 = 6 (150 KiB).
data::Dataset batches() { return data::from_arrays({HostArray(TensorType{DType::f32, {6400, 100}})}).batch(64); }

// Compiles a function of a batch; the batch itself is its largest value.
Function compiled(const DeviceMesh& mesh) {
  auto f = compile(mesh, [](Tensor x) { return sum(x); }, {.name = "total"});
  f.compile({TensorType{DType::f32, {64, 100}}});
  return f;
}

TEST(DataMemory, IsShownByReports) {
  World world({.devices = 1});
  EXPECT_THAT(compiled(world.mesh()).summary(), Not(HasSubstr("data sets")));
  DataIterator iterator = world.iterate(batches());
  EXPECT_EQ(compiled(world.mesh()).plan().data_bytes, 0) << "before the first batch";
  iterator.next();
  const Function f = compiled(world.mesh());
  EXPECT_EQ(f.plan().data_bytes, 6 * batch_bytes);
  EXPECT_THAT(f.summary(), HasSubstr("memory of data sets on this rank: 150.00 KiB\n"));
  EXPECT_THAT(f.page().html(), HasSubstr("<b>150.00 KiB</b>memory of data sets on this rank"));
  iterator.close();
  EXPECT_EQ(compiled(world.mesh()).plan().data_bytes, 0);
}

TEST(DataMemory, IsTheLimitOfTheDataSetIfItHasOne) {
  World world({.devices = 1, .in_flight = 2});
  DataIterator limited = world.iterate(batches().with_options({.bytes = 1000}));
  EXPECT_EQ(compiled(world.mesh()).plan().data_bytes, 1000);
  limited.next();
  EXPECT_EQ(compiled(world.mesh()).plan().data_bytes, 1000 + 2 * batch_bytes);
  DataIterator other = world.iterate(batches(), {.slots = 3});
  other.next(), other.next();
  EXPECT_EQ(compiled(world.mesh()).plan().data_bytes, 1000 + (2 + 3 + 2) * batch_bytes);
}

TEST(DataMemory, ReducesTheLimitOfPlans) {
  const std::int64_t needed = [] {
    World world({.devices = 1});
    return compiled(world.mesh()).peak_bytes();
  }();
  World world({.devices = 1, .memory = needed + 150 * KiB});
  DataIterator iterator = world.iterate(batches());
  iterator.next();
  EXPECT_EQ(compiled(world.mesh()).peak_bytes(), needed);
  DataIterator second = world.iterate(data::range(8).batch(8));
  second.next();
  EXPECT_THAT(error_of([&] { compiled(world.mesh()); }),
              AllOf(HasSubstr("without the 150.38 KiB of data sets"), HasSubstr("with_options(bytes=...)")));
  second.close();
  EXPECT_EQ(compiled(world.mesh()).peak_bytes(), needed);
}

TEST(DataMemory, MayLeaveNothingForPlans) {
  World world({.devices = 1, .memory = 150 * KiB});
  DataIterator iterator = world.iterate(batches());
  EXPECT_EQ(error_of([&] { compiled(world.mesh()); }), "no error");
  iterator.next();
  EXPECT_THAT(error_of([&] { compiled(world.mesh()); }),
              HasSubstr("the memory limit of 150.00 KiB per device leaves nothing for plans, because the elements of "
                        "data sets may need 150.00 KiB per device"));
}

TEST(DataMemory, IsDividedAmongTheDevicesOfARank) {
  World world({.devices = 3, .memory = 1 << 20});
  DataIterator iterator = world.iterate(batches().with_options({.bytes = 3'000'000}));
  EXPECT_THAT(error_of([&] { compiled(world.mesh()); }), "no error");
  DataIterator second = world.iterate(batches().with_options({.bytes = 145'727}));
  EXPECT_THAT(error_of([&] { compiled(world.mesh()); }), HasSubstr("may need 1.00 MiB per device"));
}

// Limits may differ between ranks, but the plans must not.
TEST(DataMemory, IsTheLargestOfAllRanks) {
  std::array<std::int64_t, 2> bytes = {};
  on_ranks(2, [&](const Ranks& job) {
    World world({.memory = 10 << 20, .ranks = job});
    DataIterator iterator = world.iterate(batches().with_options({.bytes = job.rank == 0 ? 5000 : 7000}));
    bytes[static_cast<std::size_t>(job.rank)] = compiled(world.mesh("data=2")).plan().data_bytes;
  });
  EXPECT_THAT(bytes, Each(7000));
}

TEST(DataMemory, ThatLeavesNothingOnOneRankIsAnErrorOnAll) {
  const auto errors = errors_by_rank(2, [&](const Ranks& job) {
    World world({.memory = 1 << 20, .ranks = job});
    DataIterator iterator = world.iterate(batches().with_options({.bytes = job.rank == 0 ? 5000 : 2 << 20}));
    compiled(world.mesh("data=2"));
  });
  EXPECT_THAT(errors, Each(HasSubstr("leaves nothing for plans")));
}

// Reports of a function of which this rank has no device.
TEST(DataMemory, IsShownOnRanksWithoutDevices) {
  const auto errors = errors_by_rank(2, [&](const Ranks& job) {
    World world({.ranks = job});
    DataIterator iterator = world.iterate(batches().with_options({.bytes = 5000}));
    const Function f = compiled(world.mesh());
    require(f.summary().find("memory of data sets on this rank: 4.88 KiB\n") != std::string::npos, f.summary());
    require(f.page().html().find("memory of data sets on this rank") != std::string::npos, f.page().html());
    require((f.predicted_seconds() > 0) == (job.rank == 0), f.predicted_seconds());
  });
  EXPECT_THAT(errors, Each("no error"));
}

TEST(DataMemory, RanksThatCompileDifferentFunctionsAreAnError) {
  std::barrier both_failed(2);  // otherwise the end of one world could be what the other rank notices first
  const auto errors = errors_by_rank(2, [&](const Ranks& job) {
    World world({.memory = 1 << 20, .ranks = job});
    auto f =
        compile(world.mesh("data=2"), [](Tensor x) { return sum(x); }, {.name = job.rank == 0 ? "first" : "second"});
    try {
      f.compile({TensorType{DType::f32, {64, 100}}});
    } catch (const Error&) {
      both_failed.arrive_and_wait();
      throw;
    }
    both_failed.arrive_and_drop();
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("function 'first'"), HasSubstr("function 'second'"))));
}

}  // namespace
}  // namespace karez
