// Tests of how lists of variable accesses are sorted.
#include "karez/runtime/variables.h"

#include <gtest/gtest.h>

namespace karez::runtime {
namespace {

TEST(VariableAccesses, SortingMergesTheAccessesOfEachVariableAndKeepsAWrite) {
  const Variable variables[2];
  const Variable *const a = &variables[0], *const b = &variables[1];
  for (const bool write_first : {false, true}) {
    std::vector<VariableAccess> accesses = {{b, false}, {a, write_first}, {b, false}, {a, !write_first}, {a, false}};
    sort_accesses(accesses);
    ASSERT_EQ(accesses.size(), 2u);
    EXPECT_EQ(accesses[0].variable, a);
    EXPECT_TRUE(accesses[0].writes) << "without the write, two launches that write the variable could run concurrently";
    EXPECT_EQ(accesses[1].variable, b);
    EXPECT_FALSE(accesses[1].writes);
  }
}

}  // namespace
}  // namespace karez::runtime
