// Tests the names of processors in /proc/cpuinfo, and the limit on instruction sets.
#include "karez/device/processor.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "karez/base/test_error.h"
#include "karez/device/cpu_budget.h"

namespace karez::device {
namespace {

TEST(Processor, TheProcessorIsNamedByModelAndFamily) {
  EXPECT_EQ(processor_name("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: "
                           "AMD EPYC\nstepping\t: 1\n\n"
                           "processor\t: 1\nmodel name\t: another\n"),
            "AMD EPYC, family 26 model 2");
  EXPECT_EQ(processor_name("model name : Some CPU @ 2.6GHz: fast\n"), "Some CPU @ 2.6GHz: fast");
  EXPECT_EQ(processor_name("CPU implementer : 0x41\n"), "unnamed");
  EXPECT_EQ(processor_name(""), "unnamed");
}

TEST(Processor, ThisMachineHasAKnownInstructionSet) {
  const std::string isa = processor().isa;
  EXPECT_TRUE(isa == "avx512" || isa == "avx2" || isa == "baseline") << isa;
  EXPECT_EQ(processor("/nowhere"), (Processor{"unnamed", isa, processor().cpus}));
  EXPECT_GE(processor().cpus, static_cast<int>(cpu_budget().cpus.size())) << "a process cannot use more than all CPUs";
}

// Sets KAREZ_MAX_CPU_ISA and restores the old value.
class ScopedIsaLimit {
 public:
  explicit ScopedIsaLimit(const char* isa) : old_value_(std::getenv(name) == nullptr ? "" : std::getenv(name)) {
    setenv(name, isa, 1);
  }
  ~ScopedIsaLimit() { setenv(name, old_value_.c_str(), 1); }  // empty counts as not set
  ScopedIsaLimit(const ScopedIsaLimit&) = delete;
  ScopedIsaLimit& operator=(const ScopedIsaLimit&) = delete;

 private:
  static constexpr const char* name = "KAREZ_MAX_CPU_ISA";
  std::string old_value_;
};
std::string limited_to(const char* isa) {
  const ScopedIsaLimit limit(isa);
  return processor("/nowhere").isa;
}

TEST(Processor, TheInstructionSetIsAtMostTheLimit) {
  const std::string unlimited = limited_to("");
  EXPECT_EQ(limited_to("avx512"), unlimited);
  EXPECT_EQ(limited_to("avx2"), unlimited == "avx512" ? "avx2" : unlimited);
  EXPECT_EQ(limited_to("baseline"), "baseline");
  EXPECT_EQ(base::error_of([] { limited_to("AVX9"); }),
            "KAREZ_MAX_CPU_ISA must be baseline, avx2 or avx512, got 'AVX9'");
}

}  // namespace
}  // namespace karez::device
