// Tests of the memory that threads share: reuse, limits, and blocks that are not needed any more.
#include "karez/device/block_cache.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "karez/base/error.h"

namespace karez::device {
namespace {

TEST(BlockCache, AThreadReusesWhatAnotherFreed) {
  BlockCache cache;
  for (const std::int64_t bytes : {70000, 100000, 1000001}) {
    std::byte* first = cache.allocate(bytes);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
    first[0] = first[bytes - 1] = std::byte{7};
    std::thread([&] { cache.free(first, bytes); }).join();
    EXPECT_GE(cache.idle_bytes(), bytes);
    EXPECT_EQ(cache.allocate(bytes - 100), first);
    EXPECT_EQ(cache.idle_bytes(), 0);
    EXPECT_GE(cache.bytes_in_use(), bytes);
  }
}

TEST(BlockCache, BlocksThatNoAllocationNeededForAWindowAreFreed) {
  BlockCache cache;
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(cache.allocate(1 << 20));
  for (std::byte* block : blocks) cache.free(block, 1 << 20);
  EXPECT_EQ(cache.idle_bytes(), 10 << 20);
  const auto allocate = [&](int used) {  // `used` blocks at once, over and over
    for (std::int64_t i = 0; i < 2 * BlockCache::window; i += used) {
      blocks.clear();
      for (int k = 0; k < used; ++k) blocks.push_back(cache.allocate(1 << 20));
      for (std::byte* block : blocks) cache.free(block, 1 << 20);
    }
  };
  allocate(4);
  EXPECT_EQ(cache.idle_bytes(), 4 << 20);
  allocate(1);
  EXPECT_EQ(cache.idle_bytes(), 1 << 20);
  EXPECT_EQ(cache.bytes_in_use(), 0);
}

TEST(BlockCache, IdleBlocksAreLimited) {
  BlockCache cache;
  const std::int64_t bytes = BlockCache::max_idle / 2;
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(cache.allocate(bytes));
  for (int i = 0; i < 4; ++i) {
    cache.free(blocks[static_cast<std::size_t>(i)], bytes);
    EXPECT_EQ(cache.bytes_in_use(), (3 - i) * bytes);
    EXPECT_LE(cache.idle_bytes(), std::max(BlockCache::max_idle, cache.bytes_in_use() / 2)) << i;
  }
  EXPECT_EQ(cache.idle_bytes(), BlockCache::max_idle);
}

TEST(BlockCache, FurtherBlocksThanMayBeMappedComeFromMalloc) {
  BlockCache cache(2);
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 5; ++i) {
    blocks.push_back(cache.allocate(BlockCache::max_idle / 2));
    ASSERT_NE(blocks.back(), nullptr);
    blocks.back()[0] = std::byte{1};
  }
  for (std::byte* block : blocks) cache.free(block, BlockCache::max_idle / 2);
  EXPECT_EQ(cache.bytes_in_use(), 0);
}

TEST(BlockCache, SeveralThreadsAllocateAndFree) {
  BlockCache cache;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const std::int64_t bytes = (64 << 10) + (i * 7919 + t * 104729) % 500000;
        std::byte* block = cache.allocate(bytes);
        block[0] = block[bytes - 1] = static_cast<std::byte>(t);
        if (i % 16 == 0) std::this_thread::yield();
        wrong += block[0] != static_cast<std::byte>(t) || block[bytes - 1] != static_cast<std::byte>(t);
        cache.free(block, bytes);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache.bytes_in_use(), 0);
}

TEST(SharedBytes, AnySizeIsAlignedAndWritable) {
  for (const std::int64_t bytes : {0, 1, 1000, 65535, 65536, 300000, 5000000}) {
    const auto block = allocate_shared_bytes(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.get()) % 64, 0u);
    if (bytes > 0) block[0] = block[static_cast<std::size_t>(bytes - 1)] = std::byte{1};
  }
}

TEST(SharedBytes, TooLargeSizesAreErrors) {
  try {
    allocate_shared_bytes(std::int64_t{1} << 60);
    FAIL() << "no error";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind, base::ErrorKind::device);
    EXPECT_NE(std::string(error.what()).find("out of host memory"), std::string::npos) << error.what();
  }
}

// The child of a fork can allocate although other threads of its parent did at that time.
TEST(SharedBytes, AForkedProcessCanAllocate) {
  std::atomic<bool> ended{false};
  std::thread other([&] {
    while (!ended) allocate_shared_bytes(100000);
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      allocate_shared_bytes(100000);
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0) << "fork " << i;
  }
  ended = true;
  other.join();
}

// The same if the fork meets the first allocation of its process, as long as this test runs alone.
TEST(SharedBytes, AProcessForkedDuringTheFirstAllocationCanAllocate) {
  for (int i = 0; i < 200; ++i) {
    const pid_t parent = fork();
    if (parent == 0) {
      alarm(20);
      std::atomic<bool> started{false};
      std::thread other([&] {
        started = true;
        allocate_shared_bytes(100000);
      });
      while (!started) {}
      const pid_t child = fork();
      if (child == 0) {
        alarm(5);
        const auto bytes = allocate_shared_bytes(100000);
        _exit(bytes == nullptr);
      }
      int status = -1;
      waitpid(child, &status, 0);
      other.join();
      _exit(status != 0);
    }
    int status = -1;
    waitpid(parent, &status, 0);
    ASSERT_EQ(status, 0) << "fork " << i;
  }
}

}  // namespace
}  // namespace karez::device
