// Tests of the cursor that the hand-written parsers use.
#include "karez/base/scanner.h"
#include "karez/base/test_error.h"
#include "karez/base/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace karez::base {
namespace {

TEST(Scanner, WhiteSpaceAndCommentsAreSkipped) {
  Scanner in("  # a comment\n\t a # another", "text");
  EXPECT_TRUE(in.accept("a"));
  EXPECT_TRUE(in.at_end());
  EXPECT_FALSE(in.accept("b"));
  EXPECT_TRUE(Scanner("", "text").at_end());
}

TEST(Scanner, NamesMayContainPathsAndEndBeforeArrowsAndColons) {
  EXPECT_EQ(Scanner("fc1.conv_2:3/a-b rest", "text").name(), "fc1.conv_2:3/a-b");
  Scanner arrow("a->b", "text");
  EXPECT_EQ(arrow.name(), "a");
  EXPECT_TRUE(arrow.accept("->"));
  Scanner colon("key: value", "text");
  EXPECT_EQ(colon.name(), "key");
  EXPECT_TRUE(colon.accept(":"));
  EXPECT_EQ(Scanner("a-", "text").name(), "a-");
}

TEST(Scanner, AWordHasNoPunctuation) {
  Scanner in("x0-x1", "text");
  EXPECT_EQ(in.word(), "x0");
  EXPECT_TRUE(in.accept("-"));
  EXPECT_EQ(in.word(), "x1");
  EXPECT_EQ(error_of([] { Scanner("9", "text").word(); }), "text: line 1, column 1: expected a name at '9'");
}

TEST(Scanner, QuotedTextRoundTrips) {
  std::string text = "a \"b\" \\ \n\t # no comment \x01";
  std::string written = quote(text);
  Scanner in(written, "text");
  EXPECT_EQ(in.quoted(), text);
  EXPECT_TRUE(in.at_end());
  EXPECT_EQ(error_of([] { Scanner("\"abc", "text").quoted(); }),
            "text: line 1, column 5: a quoted string is not closed at the end");
  EXPECT_EQ(error_of([] { Scanner("\"abc\\", "text").quoted(); }),
            "text: line 1, column 6: a quoted string is not closed at the end");
  EXPECT_EQ(error_of([] { Scanner("\"abc\\\"", "text").quoted(); }),
            "text: line 1, column 7: a quoted string is not closed at the end");
}

TEST(Scanner, NumberReportsWhetherItIsAnInteger) {
  bool is_integer = false;
  EXPECT_EQ(Scanner("-12,", "text").number(is_integer), -12);
  EXPECT_TRUE(is_integer);
  EXPECT_EQ(Scanner("1e-3-2", "text").number(is_integer), 1e-3) << "a sign that does not follow 'e' ends the number";
  EXPECT_FALSE(is_integer);
  EXPECT_EQ(Scanner(".5", "text").number(is_integer), 0.5);
  EXPECT_EQ(Scanner("-inf", "text").number(is_integer), -INFINITY);
  EXPECT_TRUE(std::isnan(Scanner("nan", "text").number(is_integer)));
  EXPECT_FALSE(is_integer);
  EXPECT_FALSE(Scanner("-x", "text").peek_number());
  EXPECT_FALSE(Scanner("-", "text").peek_number());
}

TEST(Scanner, MalformedNumbersAreRejected) {
  for (const char* text : {"1.2.3", "1e", ".", "1e+", "-."}) {
    bool is_integer = false;
    EXPECT_NE(error_of([&] { Scanner(text, "text").number(is_integer); }), "no error") << text;
  }
  EXPECT_EQ(error_of([] { Scanner("abc", "text").integer(); }), "text: line 1, column 1: expected an integer at 'abc'");
  EXPECT_NE(error_of([] { Scanner("99999999999999999999", "text").integer(); }), "no error");
}

TEST(Scanner, IntegersKeepAllTheirBits) {
  EXPECT_EQ(Scanner("9223372036854775807", "text").integer(), INT64_MAX);
  EXPECT_EQ(Scanner(" -9223372036854775808 ", "text").integer(), INT64_MIN);
}

TEST(Scanner, ErrorsGiveLineAndColumnOfTheNextToken) {
  Scanner in("one\n  two\n  three", "plan");
  in.expect("one");
  EXPECT_EQ(error_of([&] { in.fail_here("odd"); }), "plan: line 2, column 3: odd at 'two'");
  in.expect("two");
  EXPECT_EQ(error_of([&] { in.expect("four"); }), "plan: line 3, column 3: expected 'four' at 'three'");
  in.expect("three");
  EXPECT_EQ(error_of([&] { in.expect("more"); }), "plan: line 3, column 8: expected 'more' at the end");
}

TEST(Scanner, ANameEndsBeforeAllTrailingColons) {
  Scanner in("fc1.weight:: rest", "plan");
  EXPECT_EQ(in.name(), "fc1.weight");
  EXPECT_TRUE(in.accept("::"));
}

}  // namespace
}  // namespace karez::base
