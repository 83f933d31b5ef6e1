// Tests of iterators of data sets in a world: epochs, positions, launches, and the end of the world.
#include "karez/api/data_iterator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "karez/api/ranks/test_ranks.h"
#include "karez/api/state/world_state.h"
#include "karez/device/cpu_budget.h"
#include "karez/karez.h"

namespace karez {
namespace {

using namespace std::chrono_literals;
using data::Element;
using testing::HasSubstr;

std::vector<std::int64_t> epoch_of(DataIterator& iterator) {
  std::vector<std::int64_t> out;
  while (std::optional<Element> element = iterator.next())
    out.push_back(data::array_of(*element).data<std::int64_t>()[0]);
  return out;
}

TEST(DataIterator, NextReturnsEpochAfterEpoch) {
  World world;
  DataIterator iterator = world.iterate(data::range(20).shuffle({.seed = 4}));
  const auto first = epoch_of(iterator), second = epoch_of(iterator);
  EXPECT_EQ(iterator.epoch(), 1);
  EXPECT_NE(first, second);
  iterator.start(0);
  EXPECT_EQ(epoch_of(iterator), first);
  EXPECT_EQ(epoch_of(iterator), second);
  EXPECT_THROW(iterator.start(-1), Error);
}

TEST(DataIterator, AnotherIteratorContinuesAtAState) {
  World world;
  const data::Dataset dataset = data::range(30).shuffle({.buffer = 5}).repeat(2);
  DataIterator iterator = world.iterate(dataset), other = world.iterate(dataset, {.slots = 1});
  EXPECT_EQ(iterator.state(), "epoch 0 -");
  epoch_of(iterator);
  EXPECT_EQ(iterator.state(), "epoch 1 -");
  for (int i = 0; i < 40; ++i) iterator.next();
  const std::string state = iterator.state();
  other.restore(state);
  EXPECT_EQ(other.state(), state);
  EXPECT_EQ(other.epoch(), 1);
  EXPECT_EQ(epoch_of(other), epoch_of(iterator));
  EXPECT_EQ(epoch_of(other), epoch_of(iterator)) << "the next epoch";
}

TEST(DataIterator, AnUnorderedDataSetHasNoPositions) {
  World world;
  DataIterator iterator = world.iterate(data::range(9).map([](const Element& e) { return e; }, {2, false}).batch(2));
  EXPECT_TRUE(iterator.next());
  EXPECT_THAT([&] { iterator.state(); }, testing::ThrowsMessage<Error>(HasSubstr("deterministic=False")));
}

TEST(DataIterator, AMalformedStateIsADataError) {
  World world;
  DataIterator iterator = world.iterate(data::range(3));
  for (const char* text : {"", "epoch", "epoch x -", "epoch -1 -", "epoch 1", "epoch 1 (", "epoch 1 - -", "1 -"}) {
    try {
      iterator.restore(text);
      FAIL() << text;
    } catch (const Error& error) { EXPECT_EQ(error.kind, ErrorKind::data) << text; }
  }
}

TEST(DataIterator, CompiledFunctionsReadItsArrays) {
  World world({.devices = 2});
  const HostArray x = HostArray::of<float>({6, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  auto total = compile(world.mesh("data=2"), [](Tensor rows) { return sum(rows); });
  DataIterator iterator = world.iterate(data::from_arrays({x}).batch(4, data::LastBatch::drop));
  std::optional<Element> batch = iterator.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(total(data::array_of(*batch)).item(), 28);
  EXPECT_FALSE(iterator.next());
}

TEST(DataIterator, SkippedElementsAreLeftOut) {
  World world;
  DataIterator iterator = world.iterate(
      data::range(5).map([](const Element& e) { return e.index == 0 || e.index == 3 ? data::skipped_element() : e; }));
  EXPECT_EQ(epoch_of(iterator), (std::vector<std::int64_t>{1, 2, 4}));
  EXPECT_EQ(iterator.state(), "epoch 1 -");
}

TEST(DataIterator, AStageMayCallACompiledFunction) {
  World world;
  auto twice = compile(world.mesh(), [](Tensor x) { return x * 2; });
  DataIterator iterator = world.iterate(data::range(5).map(
      [&](const Element& e) { return data::element(twice(Tensor(data::array_of(e))).only().read()); },
      {.parallel = 2}));
  EXPECT_EQ(epoch_of(iterator), (std::vector<std::int64_t>{0, 2, 4, 6, 8}));
}

TEST(DataIterator, AClosedIteratorHasNoElements) {
  World world;
  DataIterator iterator = world.iterate(data::range(3).repeat());
  EXPECT_TRUE(iterator.next());
  const std::string state = iterator.state();
  iterator.close();
  EXPECT_FALSE(iterator.next());
  EXPECT_FALSE(iterator.next());
  EXPECT_EQ(iterator.state(), state);
  EXPECT_THROW(iterator.start(0), Error);
}

TEST(DataIterator, AnIteratorMayBeDroppedWithoutWaiting) {
  World world;
  auto release = std::make_shared<std::atomic<bool>>(false), inside = std::make_shared<std::atomic<bool>>(false);
  {
    DataIterator iterator = world.iterate(data::range(3).map([=](const Element& element) {
      *inside = true;
      while (!*release) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return element;
    }));
    iterator.start(0);
    while (!*inside) std::this_thread::yield();
    iterator.close(false);
  }
  *release = true;
}

TEST(DataIterator, TheEndOfTheWorldEndsIterators) {
  World world;
  DataIterator iterator = world.iterate(data::range(100));
  EXPECT_TRUE(iterator.next());
  const std::string state = iterator.state();
  world.end();
  EXPECT_THROW(iterator.next(), Error);
  EXPECT_EQ(iterator.state(), state);
  EXPECT_THROW(world.iterate(data::range(3)), Error);
}

TEST(DataIterator, AnIteratorMayOutliveItsWorld) {
  auto world = std::make_unique<World>();
  DataIterator iterator = world->iterate(data::range(100).map([](const Element& e) { return e; }, {2}));
  EXPECT_TRUE(iterator.next());
  world.reset();
  EXPECT_THROW(iterator.next(), Error);
}

TEST(DataIterator, RanksReadEqualDataSets) {
  const auto errors = errors_by_rank(2, [](World& world, int rank) {
    DataIterator iterator = world.iterate(data::range(10).shard(2, rank).batch(5));
    const std::optional<Element> batch = iterator.next();
    require(data::array_of(*batch).data<std::int64_t>()[1] == 2 + rank, "rank ", rank, " has another shard");
  });
  EXPECT_THAT(errors, testing::Each("no error"));
}

TEST(DataIterator, ADataSetThatDiffersBetweenRanksIsAnErrorOnAllOfThem) {
  const auto errors = errors_by_rank(2, [](World& world, int rank) {
    world.iterate(data::range(10).shuffle({.seed = 5 + static_cast<std::uint64_t>(rank)}).batch(5));
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, testing::AllOf(HasSubstr("shuffle(seed=5)"), HasSubstr("shuffle(seed=6)")));
}

TEST(DataIterator, ExplainsItsStages) {
  World world;
  DataIterator iterator = world.iterate(data::range(6).filter([](const Element&) { return true; }).batch(2));
  EXPECT_THAT(iterator.explain(), testing::ContainsRegex("\n +0 +1 +0/2 +0 +0 "));
  EXPECT_EQ(epoch_of(iterator).size(), 3u);
  EXPECT_THAT(iterator.explain(),
              testing::ContainsRegex("\n +0 +1 +0/2 +4 +3 .* index  range\\(0, 6, 1\\) \\(by index"
                                     "\\), filter, batch\\(2, last=keep\\)\nmemory of this process: .*\n$"));
  iterator.close();
  EXPECT_THAT([&] { iterator.explain(); }, testing::ThrowsMessage<Error>("the iterator is closed"));
}

std::vector<int> cpus_of_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> out;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) out.push_back(cpu);
  return out;
}

TEST(DataCores, DataThreadsRunOnThemAlone) {
  const std::vector<int> all = cpus_of_thread();
  for (int cores : {0, 1, 1024}) {
    World world({.data_cores = cores});
    const auto count = std::min(static_cast<std::size_t>(cores), all.size());
    const std::vector<int> expected =
        cores == 0 ? all : std::vector<int>(all.end() - static_cast<std::ptrdiff_t>(count), all.end());
    DataIterator iterator = world.iterate(data::range(4).map(
        [&](const Element& e) {
          if (device::cpu_budget().quota == 0) { EXPECT_EQ(cpus_of_thread(), expected); }
          EXPECT_EQ(cpus_of_thread().size(), expected.size());
          return e;
        },
        {2}));
    EXPECT_EQ(epoch_of(iterator).size(), 4u);
  }
}

TEST(DataThreads, HaveALowerPriorityThanTheProgram) {
  World world;
  auto nice = [] { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); };
  const int program = getpriority(PRIO_PROCESS, static_cast<id_t>(getpid()));
  DataIterator iterator = world.iterate(data::range(4).map(
      [&](const Element& e) {
        EXPECT_EQ(nice(), std::min(program + 5, 19));
        return e;
      },
      {2}));
  EXPECT_EQ(epoch_of(iterator).size(), 4u);
  EXPECT_EQ(nice(), program);
}

TEST(DataCores, KernelsLeaveTheseCoresAlone) {
  EXPECT_THAT([] { World({.data_cores = -1}); },
              testing::ThrowsMessage<Error>(HasSubstr("data_cores must be from 0 to 1024, got -1")));
  World world({.team = 0, .data_cores = 1024});
  auto product = compile(world.mesh(), [](Tensor x) { return matmul(x, x); });
  product(HostArray(TensorType{DType::f32, {512, 512}})).wait();
  EXPECT_THAT(product.plan_text(), testing::Not(HasSubstr(" team "))) << "each call has one thread";
}

TEST(DataCores, AutomaticNumbersNeedOneRank) {
  for (const std::string& error :
       errors_by_rank(2, [](const Ranks& job) { World({.data_cores = data::automatic, .ranks = job}); }))
    EXPECT_THAT(error, HasSubstr("automatic data_cores need a world of one rank, got 2 ranks; give a number"));
}

// Whichever number is chosen, the plan and the cores of the data threads are those of this number.
TEST(DataCores, AutomaticNumbersAreChosenWhileTheProgramReads) {
  const std::vector<int> all = device::cpu_budget().cpus;
  const int cores = device::cpu_budget().cores;
  World world({.data_cores = data::automatic});
  auto step = compile(world.mesh(), [](Tensor x, Tensor m) { return matmul(m, m) * sum(x, {0}); });
  HostArray matrix(TensorType{DType::f32, {512, 512}});
  for (std::size_t i = 0; i < matrix.data<float>().size(); ++i) matrix.data<float>()[i] = static_cast<float>(i % 7);
  std::mutex mutex;
  std::vector<int> cpus;  // of the last act
  DataIterator iterator = world.iterate(data::range(1'000'000)
                                            .map(
                                                [&](const Element&) {
                                                  const auto end = std::chrono::steady_clock::now() + 2ms;
                                                  while (std::chrono::steady_clock::now() < end) continue;
                                                  const std::vector<int> now = device::cpu_budget().cpus;
                                                  std::lock_guard lock(mutex);
                                                  cpus = now;
                                                  return data::element(HostArray::of<float>({3}, {1, 2, 3}));
                                                },
                                                {2})
                                            .prefetch(2));
  const WorldState& state = *world.mesh().world;
  std::optional<HostArray> first;
  std::set<int> numbers;
  const auto end = std::chrono::steady_clock::now() + 60s;
  for (int settled_steps = 0; settled_steps < 50 && std::chrono::steady_clock::now() < end;) {
    const HostArray result = step(data::array_of(*iterator.next()), matrix).value().read();
    if (!first) first = result;
    for (std::size_t at : {0, 1, 100'000, 512 * 512 - 1})
      ASSERT_FLOAT_EQ(result.data<float>()[at], first->data<float>()[at]);
    if (numbers.insert(state.data_cores).second && cores == 2) {
      EXPECT_EQ(step.plan_text().find(" team ") == std::string::npos, state.data_cores == 1) << "a plan of its own";
    }
    if (!state.data_threads->tries_cores()) ++settled_steps;
  }
  EXPECT_FALSE(state.data_threads->tries_cores());
  EXPECT_THAT(numbers, testing::Contains(0));
  if (cores == 1) return;
  EXPECT_THAT(numbers, testing::Contains(1)) << iterator.explain();
  const int chosen = state.data_cores;
  EXPECT_THAT(iterator.explain(), HasSubstr(cat("data_cores ", chosen, " of ", cores, ", chosen automatically: ")));
  EXPECT_EQ(state.compile_options(graph::Graph()).team, cores - chosen);
  std::lock_guard lock(mutex);
  EXPECT_EQ(cpus, chosen == 0 ? all : std::vector<int>(all.end() - chosen, all.end()));
}

}  // namespace
}  // namespace karez
