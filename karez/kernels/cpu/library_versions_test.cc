// Tests the limits on instruction sets, each in a separate process, because a process reads its limit once.
#include "karez/kernels/cpu/library_versions.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "karez/device/processor.h"

namespace karez::kernels {
namespace {

TEST(Libraries, HighwayUsesOnlyInstructionsWithinTheLimit) {
#ifdef __x86_64__
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::map<std::string, std::string> targets = {
      {"baseline", "(SSE|SCALAR|EMU)"}, {"avx2", "AVX2"}, {"avx512", "AVX3"}};
  const char* name = "KAREZ_MAX_CPU_ISA";
  const char* before = std::getenv(name);
  const std::string old_limit = before == nullptr ? "" : before;
  for (const auto& [limit, unused] : targets) {
    setenv(name, limit.c_str(), 1);
    EXPECT_EXIT(
        {
          std::fputs(library_versions().c_str(), stderr);
          std::exit(0);
        },
        ::testing::ExitedWithCode(0), "Highway = [0-9]+\\.[0-9]+, " + targets.at(device::processor().isa))
        << limit;
  }
  setenv(name, old_limit.c_str(), 1);  // empty counts as unset
#endif
}

}  // namespace
}  // namespace karez::kernels
