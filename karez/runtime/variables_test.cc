// Tests of lists of variable accesses.
#include "karez/runtime/variables.h"

#include <gtest/gtest.h>

namespace karez::runtime {
namespace {

TEST(VariableAccesses, ASortedListHasEachVariableOnceAndAWriteWinsOverReadsOfTheSameVariable) {
  const Variable variables[2];
  const Variable *const a = &variables[0], *const b = &variables[1];
  for (const bool write_first : {false, true}) {
    std::vector<VariableAccess> accesses = {{b, false}, {a, write_first}, {b, false}, {a, !write_first}, {a, false}};
    sort_accesses(accesses);
    ASSERT_EQ(accesses.size(), 2u);
    EXPECT_EQ(accesses[0].variable, a);
    EXPECT_TRUE(accesses[0].writes) << "or two launches that write it would run at once";
    EXPECT_EQ(accesses[1].variable, b);
    EXPECT_FALSE(accesses[1].writes);
  }
}

}  // namespace
}  // namespace karez::runtime
