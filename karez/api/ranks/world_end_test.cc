// Tests of ending a world: while launches run, after an exception, with `std::exit`, and which operations are possible
// afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <stdexcept>
#include <thread>

#include "karez/api/compile.h"
#include "karez/api/ranks/test_ranks.h"
#include "karez/api/testing/test_texts.h"

namespace karez {
namespace {
using ::testing::HasSubstr;

// A source that returns zeros, takes 50 ms for each read, and counts the reads.
class CountedSource : public Source {
 public:
  explicit CountedSource(std::atomic<int>& reads) : reads_(reads) {}
  TensorType type() const override { return {DType::f32, {}}; }
  void read(std::int64_t, std::span<const std::int64_t>, const tensor::TensorRef& out) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    out.as<float>()[0] = 0;
    ++reads_;
  }

 private:
  std::atomic<int>& reads_;
};

struct CountedWorld {
  World world;
  std::atomic<int> reads{0};
  Parameter total{"total", {DType::f32, {}}, constant_init(1)};
  Function add = compile(world.mesh(), [this](Tensor x) { return total + x; });
  Future call() { return add(Feed{std::make_shared<CountedSource>(reads), 0}); }
};

TEST(WorldEnd, ADestroyedWorldWaitsForRunningLaunches) {
  std::atomic<int> reads{0};
  {
    World world;
    Parameter total("total", {DType::f32, {}}, constant_init(1));
    auto add = compile(world.mesh(), [&](Tensor x) { return total + x; });
    for (int i = 0; i < 4; ++i) add(Feed{std::make_shared<CountedSource>(reads), 0});
  }
  EXPECT_EQ(reads, 4);
}

TEST(WorldEnd, AnExceptionEndsAWorldWithoutWaitingForLaunches) {
  std::atomic<int> reads{0};
  try {
    World world;
    Parameter total("total", {DType::f32, {}}, constant_init(1));
    auto add = compile(world.mesh(), [&](Tensor x) { return total + x; });
    add(1.0f).wait();
    for (int i = 0; i < 4; ++i) add(Feed{std::make_shared<CountedSource>(reads), 0});
    throw std::runtime_error("bad");
  } catch (const std::runtime_error&) {}
  EXPECT_LT(reads, 4);
}

TEST(WorldEnd, AfterTheEndResultsCanStillBeReadAndAllOtherUsesAreErrors) {
  CountedWorld counted;
  const Future complete = counted.call();
  EXPECT_EQ(complete.item(), 1);
  const Future running = counted.call();
  counted.world.end();
  EXPECT_EQ(complete.item(), 1);
  EXPECT_EQ(running.item(), 1) << "end() must wait for the launch";
  EXPECT_EQ(counted.reads, 2);
  const std::string text = "this world has ended: nothing can be called, read or written in it any more";
  EXPECT_EQ(error_of([&] { counted.call(); }), text);
  EXPECT_EQ(error_of([&] { counted.world.read("total"); }), text);
  EXPECT_EQ(error_of([&] { counted.world.write("total", HostArray::of<float>({}, {2})); }), text);
  EXPECT_EQ(error_of([&] { counted.world.barrier(); }), text);
  EXPECT_EQ(error_of([&] { counted.world.reset(); }), text);
  EXPECT_EQ(error_of([&] { compile(counted.world.mesh(), [](Tensor x) { return x * 2.0f; })(1.0f); }), text);
  counted.world.end();
  counted.world.end(false);
}

TEST(WorldEnd, RunningLaunchesFailIfTheEndDoesNotWait) {
  CountedWorld counted;
  counted.call().wait();
  std::vector<Future> running;
  for (int i = 0; i < 4; ++i) running.push_back(counted.call());
  counted.world.end(false);
  EXPECT_LT(counted.reads, 5);
  EXPECT_THAT(error_of([&] { running.back().wait(); }),
              HasSubstr("it ends its world, because an exception was thrown"));
}

TEST(WorldEnd, AWaitingThreadGetsAnError) {
  CountedWorld counted;
  counted.call().wait();
  for (int i = 0; i < 3; ++i) counted.call();
  auto waiting_call = std::async(std::launch::async, [&] { return error_of([&] { counted.call().wait(); }); });
  while (counted.reads < 2) std::this_thread::yield();
  counted.world.end(false);
  EXPECT_NE(waiting_call.get(), "no error");
}

TEST(WorldEnd, AnExceptionFromWhileWaitingEndsOnlyTheWait) {
  std::atomic<bool> interrupt{false};
  std::atomic<int> reads{0};
  World world({.while_waiting = [&] {
    if (interrupt) throw std::runtime_error("interrupted");
  }});
  auto twice = compile(world.mesh(), [](Tensor x) { return x * 2.0f; });
  twice(1.0f).wait();
  std::vector<Future> futures;
  for (int i = 0; i < 4; ++i) futures.push_back(twice(Feed{std::make_shared<CountedSource>(reads), 0}));
  interrupt = true;
  EXPECT_THROW(world.end(), std::runtime_error);
  interrupt = false;
  world.end();
  EXPECT_EQ(reads, 4) << "the second call of end() must wait for the remaining launches";
}

// A program that does not return from `main`, so that static objects of libraries are destroyed while the world exists.
void exit_with_running_launches(int devices) {
  World world({.devices = devices});
  auto product = compile(world.mesh({{"d", devices}}), [](Tensor x) { return sum(matmul(x, transpose(x, {1, 0}))); });
  std::vector<Future> futures;
  for (int i = 0; i < 4; ++i) futures.push_back(product(HostArray(TensorType{DType::f32, {500, 500}})));
  std::exit(3);
}

TEST(WorldEndDeathTest, ExitWithRunningLaunchesIsClean) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (int devices : {1, 2, 3}) EXPECT_EXIT(exit_with_running_launches(devices), ::testing::ExitedWithCode(3), "^$");
}

void exit_with_a_static_world() {
  static World world;
  static auto product = compile(world.mesh(), [](Tensor x) { return sum(matmul(x, x)); });
  static std::vector<Future> futures;
  for (int i = 0; i < 4; ++i) futures.push_back(product(HostArray(TensorType{DType::f32, {300, 300}})));
  std::exit(4);
}

TEST(WorldEndDeathTest, AWorldWithStaticStorageEndsWithTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_a_static_world(), ::testing::ExitedWithCode(4), "^$");
}

TEST(WorldEnd, EndWaitsUntilAllRanksEndTheirWorlds) {
  std::atomic<int> ended{0};
  on_ranks(2, [&](const Ranks& job) {
    World world({.ranks = job});
    auto twice = compile(world.mesh("d=2"), [](Tensor x) { return x * 2.0f; });
    const Future last = twice(HostArray::of<float>({2}, {1, 2}));
    if (job.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (job.rank == 1) { EXPECT_EQ(ended, 0) << "rank 0 must wait for rank 1"; }
    world.end();
    ++ended;
    EXPECT_EQ(error_of([&] { world.barrier(); }),
              "this world has ended: nothing can be called, read or written in it any more");
  });
  EXPECT_EQ(ended, 2);
}

TEST(WorldEnd, ARankThatEndsWithoutWaitingIsReportedOnTheOthers) {
  on_ranks(2, [&](const Ranks& job) {
    World world({.ranks = job});
    if (job.rank == 1) return world.barrier(), world.end(false);
    EXPECT_THAT(error_of([&] { world.barrier(), world.barrier(); }),
                HasSubstr("rank 1: it ends its world, because an exception was thrown"));
  });
}

}  // namespace
}  // namespace karez
