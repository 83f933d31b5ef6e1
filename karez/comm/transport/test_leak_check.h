// A fixture that runs a test for each transport between processes, and checks that no descriptor or segment remains.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/test_links.h"

namespace karez::comm::test {

class LeakCheckedTest : public ::testing::TestWithParam<TransportKind> {
 protected:
  void SetUp() override {
    if (!GetParam().exists()) GTEST_SKIP() << "no UCX library";
    initial_descriptors_ = count_descriptors();
    initial_segments_ = count_segments();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(count_descriptors(), initial_descriptors_);
    EXPECT_TRUE(await([&] { return count_segments() <= initial_segments_; }))
        << "shared memory segments remain in /dev/shm";
  }

 private:
  static std::size_t count_entries(const char* folder) {
    namespace fs = std::filesystem;
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }
  static std::size_t count_descriptors() { return count_entries("/proc/self/fd"); }
  static std::size_t count_segments() { return count_entries("/dev/shm"); }

  std::size_t initial_descriptors_ = 0, initial_segments_ = 0;
};

// All transports except the first one, which is within one process.
inline auto process_transports() { return ::testing::ValuesIn(transports.begin() + 1, transports.end()); }
inline std::string transport_name(const ::testing::TestParamInfo<TransportKind>& info) { return info.param.name; }

}  // namespace karez::comm::test
