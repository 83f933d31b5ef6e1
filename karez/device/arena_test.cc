// Tests of the growth, counters and lifetime of arenas.
#include "karez/device/arena.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <fstream>
#include <string>

#include "karez/base/test_error.h"

namespace karez::device {
namespace {

TEST(Arena, TheLargestLeaseIsCommittedAtOneAddress) {
  auto counters = std::make_shared<MemoryCounters>();
  Arena arena(counters);
  EXPECT_EQ(arena.bytes(), 0);
  auto small = arena.lease(100);
  std::byte* const begin = small->data();
  EXPECT_EQ(small->zeroed_from(), 0);
  EXPECT_EQ(begin[99], std::byte{0});
  std::memset(begin, 7, 100);
  {
    auto large = arena.lease(10'000'000);
    EXPECT_EQ(large->data(), begin);
    EXPECT_EQ(large->zeroed_from(), 100);
    EXPECT_EQ(begin[99], std::byte{7}) << "the bytes of the other lease must be kept";
    EXPECT_EQ(begin[100], std::byte{0});
    EXPECT_EQ(begin[9'999'999], std::byte{0});
    begin[100] = begin[9'999'999] = std::byte{1};
    EXPECT_EQ(counters->current, 10'000'000);
  }
  EXPECT_EQ(arena.bytes(), 100);
  EXPECT_EQ(counters->current, 100);
  EXPECT_EQ(begin[99], std::byte{7});
  auto second_large = arena.lease(10'000'000);
  EXPECT_EQ(begin[9'999'999], std::byte{0}) << "the page must have been freed and be zero";
  EXPECT_EQ(begin[100], std::byte{0}) << "the byte must be zeroed, although its page was kept";
  small.reset();
  EXPECT_EQ(counters->current, 10'000'000);
  second_large.reset();
  EXPECT_EQ(counters->current, 0);
  EXPECT_EQ(counters->peak, 10'000'000);
  EXPECT_EQ(arena.lease(0)->data(), begin);
}

TEST(Arena, AnArenaMayBeDestroyedBeforeItsLeases) {
  auto counters = std::make_shared<MemoryCounters>();
  auto arena = std::make_unique<Arena>(counters);
  auto held_lease = arena->lease(4096);
  arena.reset();
  std::memset(held_lease->data(), 1, 4096);
  EXPECT_EQ(counters->current, 4096);
  held_lease.reset();
  EXPECT_EQ(counters->current, 0);
}

TEST(Arena, AnArenaThatCannotGrowReturnsNoLease) {
  Arena arena(std::make_shared<MemoryCounters>());
  auto held_lease = arena.lease(64);
  EXPECT_FALSE(arena.lease(std::int64_t{1} << 62).has_value());
  EXPECT_EQ(arena.bytes(), 64);
  EXPECT_FALSE(Arena(std::make_shared<MemoryCounters>()).lease(std::int64_t{1} << 61).has_value())
      << "a lease larger than any range of addresses must fail";
  EXPECT_EQ(error_of([&] { arena.lease(-1); }), "an arena must have at least 0 bytes, got -1");
}

TEST(Arena, MemoryThatTheSystemRefusesIsAnErrorAndTheArenaStaysUsable) {
  Arena arena(std::make_shared<MemoryCounters>());
  auto held_lease = arena.lease(64);
  long data_kib = 0;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmData:")) data_kib = std::stol(line.substr(7));
  ASSERT_GT(data_kib, 0);
  rlimit original{};
  getrlimit(RLIMIT_DATA, &original);
  const rlimit limited{static_cast<rlim_t>(data_kib + 16 * 1024) * 1024, original.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &limited), 0);
  const std::string error = error_of([&] { arena.lease(std::int64_t{1} << 28); });
  setrlimit(RLIMIT_DATA, &original);
  EXPECT_EQ(error, "out of host memory: 256.00 MiB requested, 64 B in use");
  EXPECT_TRUE(arena.lease(std::int64_t{1} << 20).has_value());
}

}  // namespace
}  // namespace karez::device
