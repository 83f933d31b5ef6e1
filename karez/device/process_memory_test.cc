// Tests of the memory of this process.
#include "karez/device/process_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace karez::device {
namespace {

TEST(ProcessMemory, GrowsByBytesThatAreWritten) {
  constexpr std::int64_t size = std::int64_t{64} << 20;
  const std::int64_t before = process_memory();
  EXPECT_GT(before, 0);
  const auto bytes = std::make_unique_for_overwrite<char[]>(size);
  std::memset(bytes.get(), 1, size);
  EXPECT_NEAR(static_cast<double>(process_memory() - before), size, size / 16.0);
  EXPECT_EQ(bytes[size - 1], 1);
}

}  // namespace
}  // namespace karez::device
