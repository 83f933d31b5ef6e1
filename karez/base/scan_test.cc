// Tests of the cursor under the hand-written parsers.
#include "karez/base/scan.h"
#include "karez/base/test_error.h"
#include "karez/base/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace karez::base {
namespace {

TEST(Scan, WhiteSpaceAndCommentsAreSkipped) {
  Scan in("  # a comment\n\t a # another", "text");
  EXPECT_TRUE(in.accept("a"));
  EXPECT_TRUE(in.at_end());
  EXPECT_FALSE(in.accept("b"));
  EXPECT_TRUE(Scan("", "text").at_end());
}

TEST(Scan, NamesMayHavePathsAndEndBeforeArrowsAndColons) {
  EXPECT_EQ(Scan("fc1.conv_2:3/a-b rest", "text").name(), "fc1.conv_2:3/a-b");
  Scan arrow("a->b", "text");
  EXPECT_EQ(arrow.name(), "a");
  EXPECT_TRUE(arrow.accept("->"));
  Scan colon("key: value", "text");
  EXPECT_EQ(colon.name(), "key");
  EXPECT_TRUE(colon.accept(":"));
  EXPECT_EQ(Scan("a-", "text").name(), "a-");
}

TEST(Scan, AWordHasNoPunctuation) {
  Scan in("x0-x1", "text");
  EXPECT_EQ(in.word(), "x0");
  EXPECT_TRUE(in.accept("-"));
  EXPECT_EQ(in.word(), "x1");
  EXPECT_EQ(error_of([] { Scan("9", "text").word(); }), "text: line 1, column 1: expected a name at '9'");
}

TEST(Scan, QuotedTextReadsBack) {
  std::string text = "a \"b\" \\ \n\t # no comment \x01";
  std::string written = quote(text);
  Scan in(written, "text");
  EXPECT_EQ(in.quoted(), text);
  EXPECT_TRUE(in.at_end());
  EXPECT_EQ(error_of([] { Scan("\"abc", "text").quoted(); }),
            "text: line 1, column 5: a quoted text does not end at the end");
  EXPECT_EQ(error_of([] { Scan("\"abc\\", "text").quoted(); }),
            "text: line 1, column 6: a quoted text does not end at the end");
  EXPECT_EQ(error_of([] { Scan("\"abc\\\"", "text").quoted(); }),
            "text: line 1, column 7: a quoted text does not end at the end");
}

TEST(Scan, NumbersTellWhetherTheyAreIntegers) {
  bool is_integer = false;
  EXPECT_EQ(Scan("-12,", "text").number(is_integer), -12);
  EXPECT_TRUE(is_integer);
  EXPECT_EQ(Scan("1e-3-2", "text").number(is_integer), 1e-3) << "a sign not behind an exponent ends the number";
  EXPECT_FALSE(is_integer);
  EXPECT_EQ(Scan(".5", "text").number(is_integer), 0.5);
  EXPECT_EQ(Scan("-inf", "text").number(is_integer), -INFINITY);
  EXPECT_TRUE(std::isnan(Scan("nan", "text").number(is_integer)));
  EXPECT_FALSE(is_integer);
  EXPECT_FALSE(Scan("-x", "text").peek_number());
  EXPECT_FALSE(Scan("-", "text").peek_number());
}

TEST(Scan, MalformedNumbersAreRefused) {
  for (const char* text : {"1.2.3", "1e", ".", "1e+", "-."}) {
    bool is_integer = false;
    EXPECT_NE(error_of([&] { Scan(text, "text").number(is_integer); }), "no error") << text;
  }
  EXPECT_EQ(error_of([] { Scan("abc", "text").integer(); }), "text: line 1, column 1: expected an integer at 'abc'");
  EXPECT_NE(error_of([] { Scan("99999999999999999999", "text").integer(); }), "no error");
}

TEST(Scan, IntegersHaveAllTheirBits) {
  EXPECT_EQ(Scan("9223372036854775807", "text").integer(), INT64_MAX);
  EXPECT_EQ(Scan(" -9223372036854775808 ", "text").integer(), INT64_MIN);
}

TEST(Scan, ErrorsNameLineAndColumnOfTheNextToken) {
  Scan in("one\n  two\n  three", "plan");
  in.expect("one");
  EXPECT_EQ(error_of([&] { in.fail_here("odd"); }), "plan: line 2, column 3: odd at 'two'");
  in.expect("two");
  EXPECT_EQ(error_of([&] { in.expect("four"); }), "plan: line 3, column 3: expected 'four' at 'three'");
  in.expect("three");
  EXPECT_EQ(error_of([&] { in.expect("more"); }), "plan: line 3, column 8: expected 'more' at the end");
}

TEST(Scan, ANameEndsBeforeAllColonsBehindIt) {
  Scan in("fc1.weight:: rest", "plan");
  EXPECT_EQ(in.name(), "fc1.weight");
  EXPECT_TRUE(in.accept("::"));
}

}  // namespace
}  // namespace karez::base
