// Tests of the device component: the CPU budget, memory with its counters, poison, the CPU device and host arrays.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "karez/base/error.h"
#include "karez/base/test_error.h"
#include "karez/device/cpu_budget.h"
#include "karez/device/device.h"
#include "karez/device/free_blocks.h"
#include "karez/device/host_array.h"

namespace karez::device {
namespace {
namespace fs = std::filesystem;

// A fake root directory with one cgroup in it.
struct FakeRoot {
  fs::path path = fs::temp_directory_path() / cat("karez_device_test_", ::getpid());
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((path / file).parent_path());
    std::ofstream(path / file) << text;
  }
  ~FakeRoot() { fs::remove_all(path); }
};

TEST(CpuBudget, AQuotaIsTimeOverPeriodAndMaxMeansNoLimit) {
  EXPECT_EQ(parse_cpu_max("max 100000\n"), 0);
  EXPECT_EQ(parse_cpu_max("150000 100000"), 1.5);
  EXPECT_THROW(parse_cpu_max(""), Error);
  EXPECT_THROW(parse_cpu_max("150000"), Error);
  EXPECT_THROW(parse_cpu_max("many 100000"), Error);
  EXPECT_THROW(parse_cpu_max("150000 0"), Error);
}

TEST(CpuBudget, TheSmallestQuotaOfAGroupAndItsAncestorsIsUsed) {
  FakeRoot root;
  root.write("proc/self/cgroup", "0::/outer/inner\n");
  root.write("sys/fs/cgroup/outer/inner/cpu.max", "400000 100000\n");
  root.write("sys/fs/cgroup/outer/cpu.max", "50000 100000\n");
  CpuBudget budget = cpu_budget(root.path.string());
  EXPECT_EQ(budget.quota, 0.5);
  EXPECT_EQ(budget.cores, 1) << "half a core must count as one";
  root.write("sys/fs/cgroup/outer/inner/cpu.max", "25000 100000\n");
  EXPECT_EQ(cpu_budget(root.path.string()).quota, 0.25) << "the quota of the inner group is the smaller one";
}

TEST(CpuBudget, CgroupsOfVersion1AreRead) {
  FakeRoot root;
  root.write("proc/self/cgroup", "4:cpu,cpuacct:/box\n2:memory:/box\n");
  root.write("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "100000\n");
  root.write("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_budget(root.path.string()).quota, 1.0);
}

TEST(CpuBudget, WithoutAQuotaTheAffinityMaskGivesTheCores) {
  FakeRoot root;
  CpuBudget budget = cpu_budget(root.path.string());
  EXPECT_EQ(budget.quota, 0);
  EXPECT_GE(budget.cores, 1);
  EXPECT_EQ(budget.cores, static_cast<int>(budget.cpus.size()));
  EXPECT_EQ(std::set<int>(budget.cpus.begin(), budget.cpus.end()).size(), budget.cpus.size());
}

TEST(CpuBudget, ABoundThreadHasOnlyItsCpus) {
  int count_before = static_cast<int>(cpu_budget().cpus.size());
  std::thread([] {
    std::vector<int> all = cpu_budget().cpus, last = {all.back()};
    ASSERT_TRUE(bind_to_cpus(all));
    EXPECT_EQ(cpu_budget().cpus, all);
    ASSERT_TRUE(bind_to_cpus(last));
    EXPECT_EQ(cpu_budget().cpus, last);
    EXPECT_FALSE(bind_to_cpus(std::vector<int>{-1}));
    EXPECT_FALSE(bind_to_cpus(std::vector<int>{1 << 20}));
  }).join();
  EXPECT_EQ(static_cast<int>(cpu_budget().cpus.size()), count_before) << "the other threads must keep their CPUs";
}

TEST(CpuBudget, AllThreadsOfAProcessAreBound) {
  const std::vector<int> all = cpu_budget().cpus, last = {all.back()};
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  const auto cpus_of_child = [&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT_EQ(sched_getaffinity(child, sizeof set, &set), 0);
    std::vector<int> out;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) out.push_back(cpu);
    return out;
  };
  EXPECT_TRUE(bind_process_to_cpus(child, last));
  EXPECT_EQ(cpus_of_child(), last);
  EXPECT_TRUE(bind_process_to_cpus(child, all));
  EXPECT_EQ(cpus_of_child(), all);
  EXPECT_FALSE(bind_process_to_cpus(child, std::vector<int>{-1}));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(bind_process_to_cpus(child, all)) << "it has ended";
}

int nice_of_thread() { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); }

TEST(CpuBudget, AThreadOfLowerPriorityIsFiveBelowTheMainThread) {
  const int before = nice_of_thread();
  std::thread([] {
    lower_priority();
    const int program = getpriority(PRIO_PROCESS, static_cast<id_t>(getpid()));
    EXPECT_EQ(nice_of_thread(), std::min(program + 5, 19));
    lower_priority();
    EXPECT_EQ(nice_of_thread(), std::min(program + 5, 19)) << "a second call changes nothing";
    std::thread([program] { EXPECT_EQ(nice_of_thread(), std::min(program + 5, 19)) << "inherited"; }).join();
  }).join();
  EXPECT_EQ(nice_of_thread(), before);
}

TEST(CpuBudget, SharedCpusCountAsFractions) {
  using Sets = std::vector<std::vector<int>>;
  auto fair = [](std::vector<int> process, const Sets& all) { return fair_core_share(process, all); };
  EXPECT_EQ(fair({0, 1}, {{0, 1}}), 2);
  EXPECT_EQ(fair({0, 1}, {{0, 1}, {1, 2}}), 1.5);
  EXPECT_EQ(fair({3}, {{0, 1}, {3}, {2}}), 1) << "the process is bound to its own CPU";
  EXPECT_EQ(fair({0, 1}, Sets(4, {0, 1})), 0.5) << "four processes on two cores";
}

TEST(CpuBudget, TeamsGetSeparateCpusIfThereAreEnough) {
  using Sets = std::vector<std::vector<int>>;
  auto assign = [](std::vector<int> cpus, std::vector<int> teams) { return assign_cpus(cpus, teams); };
  EXPECT_EQ(assign({0, 1, 2, 3}, {2, 1, 1}), (Sets{{0, 1}, {2}, {3}}));
  EXPECT_EQ(assign({4, 7}, {1, 1}), (Sets{{4}, {7}}));
  EXPECT_EQ(assign({0, 1}, {2, 1}), (Sets{{0, 1}, {0}})) << "teams must share the CPUs in turn if there are too few";
  EXPECT_EQ(assign({5, 6}, {8}), (Sets{{5, 6}}));
  EXPECT_EQ(assign({5, 6, 7}, {0, 2}), (Sets{{5}, {6, 7}}));
  EXPECT_THROW(assign({}, {1}), Error);
}

TEST(CpuBudget, DataThreadsGetTheLastCoresOfTheirProcess) {
  const std::vector<int> eight = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(data_cpus(eight, 8, 0, 0, 1), std::vector<int>{});
  EXPECT_EQ(data_cpus(eight, 8, 2, 0, 1), (std::vector<int>{6, 7}));
  EXPECT_EQ(data_cpus(eight, 4, 1, 0, 1), std::vector<int>{3}) << "a quota of four cores";
  EXPECT_EQ(data_cpus(eight, 4, 1, 0, 2), std::vector<int>{3});
  EXPECT_EQ(data_cpus(eight, 4, 1, 1, 2), std::vector<int>{7});
  EXPECT_EQ(data_cpus(std::vector{4, 5, 6, 7}, 4, 2, 1, 2), (std::vector<int>{6, 7})) << "bound to its own CPUs";
  EXPECT_EQ(data_cpus(std::vector{3, 9}, 2, 1024, 0, 1), (std::vector<int>{3, 9})) << "all that exist";
  EXPECT_EQ(data_cpus(std::vector{3}, 1, 1, 3, 4), std::vector<int>{3}) << "four processes on one core";
}

TEST(Memory, BlocksAreAlignedZeroedAndCounted) {
  auto counters = std::make_shared<MemoryCounters>();
  {
    Memory a = allocate_host(100, counters), empty = allocate_host(0, counters);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(empty.data()) % 64, 0u);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(a.data()[i], std::byte{0});
    EXPECT_GE(malloc_usable_size(a.data()), 128u)
        << "a vector load may read past the end, up to the end of the cache line";
    EXPECT_GE(malloc_usable_size(empty.data()), 64u);
    { Memory b = allocate_host(28, counters); }
    EXPECT_EQ(counters->current, 100);
    Memory moved = std::move(a);
    EXPECT_EQ(moved.bytes(), 100);
    EXPECT_EQ(counters->current, 100) << "a move must not change a counter";
  }
  EXPECT_EQ(counters->current, 0);
  EXPECT_EQ(counters->peak, 128);
}

TEST(FreeBlocks, ABlockReplacesAnotherOfNearlyTheSameSize) {
  EXPECT_EQ(FreeBlocks::capacity(0), 64);
  EXPECT_EQ(FreeBlocks::capacity(65), 128);
  EXPECT_EQ(FreeBlocks::capacity(1 << 20), 1 << 20);
  EXPECT_EQ(FreeBlocks::capacity((1 << 20) + 1), (1 << 20) + (1 << 17));
  for (std::int64_t bytes : {1, 4097, 65537, 1000000, 5000001})
    EXPECT_LE(FreeBlocks::capacity(bytes), std::max<std::int64_t>(round_up(bytes, 64), bytes + bytes / 8));
  auto counters = std::make_shared<MemoryCounters>();
  counters->free_blocks = std::make_shared<FreeBlocks>();
  std::byte* first = nullptr;
  { first = allocate_host(1000000, counters).data(); }
  EXPECT_EQ(counters->current, 0);
  EXPECT_EQ(counters->free_blocks->bytes(), FreeBlocks::capacity(1000000));
  Memory same = allocate_host(999999, counters), new_block = allocate_host(1000000, counters);
  EXPECT_EQ(same.data(), first);
  EXPECT_NE(new_block.data(), first);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(new_block.data()) % 64, 0u);
  EXPECT_EQ(same.bytes(), 999999);
  EXPECT_EQ(counters->current, 1999999);
  EXPECT_EQ(counters->free_blocks->bytes(), 0);
}

TEST(FreeBlocks, TheBlocksThatWereKeptFirstAreFreedFirst) {
  FreeBlocks blocks;
  const std::int64_t third = FreeBlocks::max_bytes / 4 + FreeBlocks::max_bytes / 8;
  auto give = [&](std::int64_t bytes, std::int64_t bytes_in_use = 0) {
    auto* data = static_cast<std::byte*>(std::aligned_alloc(64, static_cast<std::size_t>(FreeBlocks::capacity(bytes))));
    blocks.keep(data, bytes, bytes_in_use);
    return data;
  };
  give(100);
  EXPECT_EQ(blocks.bytes(), 0) << "malloc keeps small blocks";
  give(third);
  give(third);
  give(1 << 20);
  EXPECT_EQ(blocks.bytes(), 2 * third + (1 << 20));
  std::byte* last = give(third);
  EXPECT_EQ(blocks.bytes(), 2 * third + (1 << 20)) << "the first block must be freed";
  EXPECT_EQ(blocks.take(third), last) << "the block that was kept last is taken first";
  blocks.keep(last, third, 0);
  blocks.keep(blocks.take(1 << 20), 1 << 20, 100 * FreeBlocks::max_bytes);
  give(2 * third, 100 * FreeBlocks::max_bytes);
  EXPECT_EQ(blocks.bytes(), 4 * third + (1 << 20)) << "more is kept while many bytes are in use";
  give(100);
  EXPECT_EQ(blocks.bytes(), 2 * third + (1 << 20)) << "the two blocks that were kept first must be freed";
  EXPECT_EQ(blocks.take(third), nullptr);
}

TEST(FreeBlocks, ValuesOfADeviceReuseMemoryAndPlansDoNot) {
  const auto device = make_device("0.0", "cpu");
  std::byte* value = nullptr;
  { value = device->allocate_value(1 << 20).data(); }
  EXPECT_EQ(device->allocate_value(1 << 20).data(), value);
  EXPECT_EQ(device->value_memory().current, 0);
  Memory held = device->allocate_value(1 << 20);
  std::memset(held.data(), 1, 1 << 20);
  held = Memory();
  const Memory plan = device->allocate(1 << 20);
  EXPECT_NE(plan.data(), value);
  EXPECT_EQ(std::count(plan.data(), plan.data() + (1 << 20), std::byte{0}), 1 << 20);
}

TEST(Memory, AFailedAllocationIsAnErrorWithTheSize) {
  auto counters = std::make_shared<MemoryCounters>();
  EXPECT_THROW(allocate_host(-1, counters), Error);
  try {
    allocate_host(std::int64_t{1} << 60, counters);
    FAIL() << "an allocation of an exbibyte must fail";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("TiB requested"), std::string::npos) << error.what();
  }
  EXPECT_EQ(counters->current, 0);
}

TEST(Memory, PoisonIsInvalidForAllTypes) {
  alignas(8) std::byte bytes[17];
  poison(bytes, 17);
  float f;
  double d;
  std::int32_t i;
  std::int64_t l;
  std::memcpy(&f, bytes + 4, 4);
  std::memcpy(&d, bytes + 8, 8);
  std::memcpy(&i, bytes, 4);
  std::memcpy(&l, bytes, 8);
  EXPECT_TRUE(std::isnan(f));
  EXPECT_TRUE(std::isnan(d));
  EXPECT_LT(i, 0);
  EXPECT_LT(l, 0);
  for (std::byte b : bytes) EXPECT_GT(static_cast<int>(b), 1);
}

TEST(Memory, PoisonFillsExactlyTheGivenBytes) {
  const unsigned char pattern[] = {0xFB, 0xFB, 0xFB, 0xFF};
  for (std::int64_t size = 0; size <= 9; ++size) {
    alignas(8) std::byte bytes[24];
    std::memset(bytes, 7, sizeof bytes);
    poison(bytes + 8, size);
    for (std::int64_t i = 0; i < 24; ++i) {
      const std::int64_t at = i - 8;
      EXPECT_EQ(bytes[i], at >= 0 && at < size ? std::byte{pattern[at % 4]} : std::byte{7})
          << "byte " << at << " of " << size;
    }
  }
}

TEST(Device, EmptyCopiesMayHaveNullPointers) {  // the undefined-behaviour sanitizer checks the copy
  auto device = make_device("0.0", "cpu");
  EXPECT_NO_THROW(device->write(nullptr, nullptr, 0));
  EXPECT_NO_THROW(device->read(nullptr, nullptr, 0));
}

TEST(Device, TheCpuDeviceReadsWritesAndCountsItsMemory) {
  auto device = make_device("0.1", "cpu");
  EXPECT_EQ(device->name(), "0.1");
  Memory block = device->allocate(16);
  float in[4] = {1, 2, 3, 4}, out[4] = {};
  device->write(block.data(), reinterpret_cast<std::byte*>(in), 16);
  device->read(reinterpret_cast<std::byte*>(out), block.data(), 16);
  EXPECT_EQ(std::memcmp(in, out, 16), 0);
  EXPECT_EQ(device->memory().current, 16);
  EXPECT_TRUE(device->make_stream()->finished());
  EXPECT_THROW(make_device("0.0", "abacus"), Error);
}

TEST(HostArray, CopiesShareTheirBytesAndOtherTypesAreRejected) {
  HostArray a = HostArray::of<float>({2, 2}, {1, 2, 3, 4}), b = a;
  b.data<float>()[3] = 5;
  EXPECT_EQ(a.data<float>()[3], 5);
  EXPECT_THROW(a.data<double>(), Error);
  EXPECT_EQ(error_of([] { HostArray::of<float>({3}, {1, 2}); }), "an array of shape [3] must have 3 values, got 2");
}

TEST(HostArray, ANewArrayIsZeroEvenInReusedMemory) {
  for (int round = 0; round < 3; ++round) {
    HostArray array(TensorType{DType::f32, {3, 5}});
    EXPECT_EQ(array.count(), 15);
    for (float& element : array.data<float>()) {
      EXPECT_EQ(element, 0.0f);
      element = 1;
    }
  }
}

}  // namespace
}  // namespace karez::device
