// Tests of byte copies at many offsets within a page, and of their speed.
#include "karez/base/copy_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace karez::base {
namespace {

using Clock = std::chrono::steady_clock;

struct Pages {
  explicit Pages(std::size_t bytes) : memory(static_cast<unsigned char*>(std::aligned_alloc(4096, bytes)), std::free) {}
  std::unique_ptr<unsigned char, void (*)(void*)> memory;
};

TEST(CopyBytes, ExactlyTheGivenBytesAreCopied) {
  constexpr std::size_t size = 1 << 16;
  Pages a(size), b(size);
  for (std::size_t i = 0; i < size; ++i) a.memory.get()[i] = static_cast<unsigned char>(i * 7 + i / 251);
  for (std::size_t bytes : {0, 1, 63, 2047, 2048, 2049, 4096, 4097, 6144, 20000})
    for (std::size_t from : {0, 1, 48, 4095})
      for (std::size_t to = 0; to < 200; to += to < 70 ? 1 : 13) {
        unsigned char *source = a.memory.get() + from, *target = b.memory.get() + 4096 + to;
        std::fill_n(b.memory.get(), size, 0xee);
        copy_bytes(target, source, bytes);
        ASSERT_TRUE(std::equal(source, source + bytes, target))
            << bytes << " bytes, from offset " << from << " to offset " << to;
        ASSERT_EQ(std::count(b.memory.get(), target, 0xee), target - b.memory.get())
            << bytes << " bytes, from offset " << from << " to offset " << to;
        ASSERT_EQ(std::count(target + bytes, b.memory.get() + size, 0xee),
                  b.memory.get() + size - target - static_cast<std::ptrdiff_t>(bytes));
      }
}

// Returns the seconds of the fastest of 200 copies of 64 KB to an address `distance` bytes above the start of a page.
double seconds_of_copy(const Pages& from, const Pages& to, std::size_t distance) {
  double min_seconds = 1;
  for (int i = 0; i < 200; ++i) {
    const auto begin = Clock::now();
    copy_bytes(to.memory.get() + distance, from.memory.get(), 1 << 16);
    min_seconds = std::min(min_seconds, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return min_seconds;
}

TEST(CopyBytes, SpeedDoesNotDependOnTheOffset) {
  Pages from(1 << 17), to(1 << 17);
  std::fill_n(from.memory.get(), 1 << 17, 1);
  std::fill_n(to.memory.get(), 1 << 17, 2);
  const double reference = seconds_of_copy(from, to, 1024);
  for (std::size_t distance : {0, 1, 16, 32, 48, 63, 64})
    EXPECT_LT(seconds_of_copy(from, to, distance), 5 * reference) << distance;
}

}  // namespace
}  // namespace karez::base
