// Tests of attributes.
#include "karez/base/attrs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "karez/base/scanner.h"
#include "karez/base/test_error.h"

namespace karez::base {
namespace {

TEST(Attrs, TextIsSortedAndParsesToEqualAttributes) {
  Attrs attrs{{"to", "f32"}, {"shape", Ints{2, 3}}, {"eps", 1e-5}, {"axis", 1},
              {"on", true},  {"none", Ints{}},      {"whole", 2.0}};
  const char* text = R"({axis=1, eps=1e-05, none=[], on=true, shape=[2, 3], to="f32", whole=2.0})";
  EXPECT_EQ(attrs.print(), text);
  EXPECT_EQ(Attrs::parse(text), attrs);
  EXPECT_EQ(Attrs::parse(" { } "), Attrs());
  EXPECT_EQ(Attrs().print(), "{}");
}

TEST(Attrs, TheOrderOfSettingDoesNotMatterAndTheLastValueIsKept) {
  Attrs a, b;
  a.set("x", 1).set("y", 2).set("x", 3);
  b.set("y", 2).set("x", 3);
  EXPECT_EQ(a, b);
  a.erase("x");
  EXPECT_FALSE(a.has("x"));
  EXPECT_EQ(a.print(), "{y=2}");
}

TEST(Attrs, EveryKindOfNumberKeepsItsKindAndItsBits) {
  Attrs attrs;
  std::int64_t min_int64 = std::numeric_limits<std::int64_t>::min();
  attrs.set("flag", true)
      .set("eps", 1e-5)
      .set("big", min_int64)
      .set("size", std::size_t{7})
      .set("f", 0.5f)
      .set("text", "t")
      .set("inf", -INFINITY);
  EXPECT_EQ(attrs.print(), R"({big=-9223372036854775808, eps=1e-05, f=0.5, flag=true, inf=-inf, size=7, text="t"})");
  EXPECT_EQ(Attrs::parse(attrs.print()), attrs);
  EXPECT_TRUE(attrs.flag("flag"));
  EXPECT_EQ(attrs.integer("big"), min_int64);
}

TEST(Attrs, TypedReadsTakeDefaultsAndConvertIntegersToReals) {
  Attrs attrs{{"axis", 1}, {"to", "f32"}};
  EXPECT_EQ(attrs.integer("axis"), 1);
  EXPECT_EQ(attrs.real("axis"), 1.0);
  EXPECT_EQ(attrs.integer("other", 5), 5);
  EXPECT_EQ(attrs.text("other", "x"), "x");
  EXPECT_TRUE(attrs.flag("other", true));
  EXPECT_EQ(attrs.real("other", 0.5), 0.5);
}

TEST(Attrs, AMissingNameOrADifferentKindIsAnErrorThatShowsTheAttributes) {
  Attrs attrs{{"axis", 1}};
  EXPECT_EQ(error_of([&] { attrs.integer("axes"); }), "attribute 'axes' is missing in {axis=1}");
  EXPECT_EQ(error_of([&] { attrs.flag("axis"); }), "attribute 'axis' must be true or false, got {axis=1}");
  EXPECT_EQ(error_of([&] { attrs.ints("axis"); }), "attribute 'axis' must be a list of integers, got {axis=1}");
  EXPECT_EQ(error_of([&] { attrs.text("axis", "x"); }), "attribute 'axis' must be a string, got {axis=1}");
}

TEST(Attrs, NamesThatWouldNotParseAreRejected) {
  Attrs attrs;
  for (const char* name : {"", "a b", "1a", "a=", "a-b"})
    EXPECT_THAT(error_of([&] { attrs.set(name, 1); }), ::testing::HasSubstr("cannot be named")) << name;
}

TEST(Attrs, BadTextIsRejectedWithItsPosition) {
  auto error = [](std::string_view text) { return error_of([&] { Attrs::parse(text); }); };
  EXPECT_EQ(error("{a=1"), "attributes: line 1, column 5: expected ',' at the end");
  EXPECT_EQ(error("{a=1, a=2}"), "attributes: line 1, column 7: attribute 'a' is given twice at 'a=2}'");
  EXPECT_EQ(error("{a=b}"), "attributes: line 1, column 4: expected a number at 'b}'");
  EXPECT_EQ(error("{a=[1, x]}"), "attributes: line 1, column 8: expected an integer at 'x]}'");
  EXPECT_EQ(error("{a=1} b"), "attributes: line 1, column 7: unexpected text after the attributes at 'b'");
  EXPECT_EQ(error("a=1"), "attributes: line 1, column 1: expected '{' at 'a=1'");
}

TEST(Attrs, AttributesAreParsedFromALongerText) {
  Scanner in("{a=1} : rest", "text");
  EXPECT_EQ(Attrs::parse(in).print(), "{a=1}");
  EXPECT_TRUE(in.accept(":"));
}

TEST(Attrs, ParsedIntegersKeepAll64Bits) {
  EXPECT_EQ(Attrs::parse("{a=9007199254740993}").integer("a"),
            9007199254740993);  // 2^53 + 1, which no double represents
  EXPECT_EQ(Attrs::parse("{a=-9223372036854775807}").integer("a"), -9223372036854775807);
}

TEST(Attrs, AnIntegerBeyond32BitsConvertsToReal) { EXPECT_EQ(Attrs::parse("{a=5000000000}").real("a"), 5e9); }

}  // namespace
}  // namespace karez::base
