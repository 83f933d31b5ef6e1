// Processors by what the kernel says of them.
#include "device/processor.h"

#include <gtest/gtest.h>

namespace karez::device {
namespace {

TEST(Processor, IsNamedByModelAndFamily) {
  EXPECT_EQ(processor_name("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\nstepping\t: 1\n\n"
                           "processor\t: 1\nmodel name\t: another\n"),
            "AMD EPYC, family 26 model 2");
  EXPECT_EQ(processor_name("model name : Some CPU @ 2.6GHz: fast\n"), "Some CPU @ 2.6GHz: fast");
  EXPECT_EQ(processor_name("CPU implementer : 0x41\n"), "unnamed");
  EXPECT_EQ(processor_name(""), "unnamed");
}

TEST(Processor, OfThisMachineHasInstructionsThatKernelsAreWrittenFor) {
  const std::string isa = processor().isa;
  EXPECT_TRUE(isa == "avx512" || isa == "avx2" || isa == "baseline") << isa;
  EXPECT_EQ(processor("/nowhere"), (Processor{"unnamed", isa}));
}

}  // namespace
}  // namespace karez::device
