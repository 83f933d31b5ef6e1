// Test of a world while other programs use the CPUs: threads of a team sleep while they wait for each other, and the
// results are bit for bit the same as without contention.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "karez/api/compile.h"
#include "karez/device/cpu_contention.h"

namespace karez {
namespace {

TEST(CpuContention, ContentionIsReportedAndDoesNotChangeResults) {
  if (device::SchedTimesReader waits; !waits.since_last()) GTEST_SKIP() << "this kernel has no schedstat";
  World world({.team = 2});
  auto f = compile(world.mesh(), [](const Tensor& x) { return sum(matmul(x, x)); });
  std::vector<float> values(256 * 256);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) / 97;
  const HostArray x = HostArray::of<float>({256, 256}, values);
  const double expected = f(x).item();
  const std::string plan = f.plan_text();

  std::atomic<bool> stop = false;
  std::vector<std::thread> competitors;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i)
    competitors.emplace_back([&] {
      while (!stop) {}
    });
  const auto begin = std::chrono::steady_clock::now();
  bool all_equal = true;
  while (f.summary().find("cores: other programs use the cores") == std::string::npos &&
         std::chrono::steady_clock::now() - begin < std::chrono::seconds(20))
    all_equal &= f(x).item() == expected;
  for (int i = 0; i < 20; ++i) all_equal &= f(x).item() == expected;
  EXPECT_TRUE(all_equal);
  EXPECT_NE(f.summary().find(
                "cores: other programs use the cores, so threads of a team sleep while they wait for each other\n"),
            std::string::npos)
      << f.summary();
  EXPECT_EQ(f.plan_text(), plan);
  stop = true;
  for (auto& thread : competitors) thread.join();
}

}  // namespace
}  // namespace karez
