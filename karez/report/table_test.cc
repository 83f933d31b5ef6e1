// Tests of text tables and of numbers as text.
#include "karez/report/table.h"

#include <gtest/gtest.h>

namespace karez::report {
namespace {

TEST(Table, TextIsLeftAlignedAndNumbersAreRightAligned) {
  EXPECT_EQ(table({{"us", "name", "note"}, {"12.5", "a", "first"}, {"7", "matmul", "-"}, {"-1.25", "x", "5"}}),
            "  us     name    note\n"
            "   12.5  a       first\n"
            "      7  matmul  -\n"
            "  -1.25  x           5\n");
}

TEST(Table, RowsMayHaveDifferentLengths) {
  EXPECT_EQ(table({{"a"}, {"bb", "c"}, {}, {"d", ""}}), "  a\n  bb  c\n\n  d\n");
  EXPECT_EQ(table({}), "");
}

TEST(Table, NumbersAreRounded) {
  EXPECT_EQ(fixed(12.345, 1), "12.3");
  EXPECT_EQ(fixed(-0.5, 0), "-0");
  EXPECT_EQ(microseconds(812.34e-6), "812.3");
  EXPECT_EQ(percent(0.5), "50.0 %");
}

}  // namespace
}  // namespace karez::report
