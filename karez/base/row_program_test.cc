// Tests of the text of row programs.
#include "karez/base/row_program.h"

#include <gtest/gtest.h>

#include "karez/base/test_error.h"

namespace karez::base {
namespace {

constexpr std::string_view softmax =
    "x1 = row_max(x0); x2 = exp(x0 - x1); x3 = row_sum(x2); x4 = x2 / x3; return x4, x1";

TEST(RowProgram, TheTextIsParsedAndPrintedUnchanged) {
  const RowProgram program = parse_row_program(softmax);
  EXPECT_EQ(print(program), softmax);
  EXPECT_EQ(program.inputs, 1);
  EXPECT_EQ(program.results, (std::vector<int>{4, 1}));
  ASSERT_EQ(program.statements.size(), 4u);
  EXPECT_EQ(program.statements[0].kind, RowStatementKind::max);
  EXPECT_EQ(program.statements[1].kind, RowStatementKind::each);
  const std::string_view mask = "x2 = one_hot(x1); x3 = select(x2, x0, 0); x4 = row_sum(x3); return x4";
  EXPECT_EQ(print(parse_row_program(mask)), mask);
}

TEST(RowProgram, AWrongStatementIsNamed) {
  const auto error_of = [](std::string_view text) {
    try {
      parse_row_program(text);
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string("no error");
  };
  EXPECT_EQ(error_of("x1 = exp(x0); x3 = x1; return x3"), "row program: expected a definition of x2, got 'x3 = x1'");
  EXPECT_EQ(error_of("x1 = row_sum(x0 + 1); return x1"), "row program: expected a variable in 'x1 = row_sum(x0 + 1)'");
  EXPECT_EQ(error_of("x1 = x0 + x2; return x1"), "row program: 'x1 = x0 + x2' reads x2, which is not defined yet");
  EXPECT_EQ(error_of("x1 = -x0; return x0"), "row program: a result must be x1 to x1, got x0");
  EXPECT_EQ(error_of("x1 = -x0"), "row program: expected 'x0 = ...' or 'return x0', got ''");
  EXPECT_EQ(error_of("x1 = -x0; return x1; x2 = x1"), "row program: nothing may follow 'return x1', got ' x2 = x1'");
}

}  // namespace
}  // namespace karez::base
