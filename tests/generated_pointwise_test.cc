// Tests that the rows of the pointwise table and the kernels generated at build time correspond one to one.
#include <gtest/gtest.h>

#include <set>

#include "karez/kernels/cpu/pointwise_generated.h"
#include "karez/ops/pointwise.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

TEST(GeneratedPointwise, RowsAndKernelsCorrespondOneToOne) {
  std::set<std::string> generated;
  for (const GeneratedPointwise& row : generated_pointwise())
    EXPECT_TRUE(generated.insert(row.expr).second) << row.expr << " occurs twice";
  std::set<std::string> expected;
  for (const Pointwise& row : pointwise_rows()) {
    expected.insert(row.expr);
    EXPECT_TRUE(generated.contains(row.expr)) << row.name << ": no kernel was generated for " << row.expr;
  }
  for (const std::string& expr : generated) EXPECT_TRUE(expected.contains(expr)) << expr << " belongs to no op";
}

}  // namespace
}  // namespace karez::tests
