// Tests of the kinds, messages and exit codes of errors.
#include "karez/base/error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>

namespace karez::base {
namespace {

struct Well {
  int depth;
};
std::ostream& operator<<(std::ostream& out, const Well& well) { return out << "well of " << well.depth << " m"; }

template <class Body> Error thrown_by(Body&& body) {
  try {
    body();
  } catch (const Error& error) { return error; }
  return Error("nothing was thrown");
}

TEST(Error, TheDefaultKindIsUser) {
  Error error = thrown_by([] { require(1 > 2, "one ", 1, " is not more than ", 2.0); });
  EXPECT_EQ(error.kind, ErrorKind::user);
  EXPECT_STREQ(error.what(), "one 1 is not more than 2.0");
  EXPECT_EQ(error.where, "");
}

TEST(Error, AnErrorHasItsKindAndText) {
  Error error = thrown_by([] { require(ErrorKind::shape, false, "sizes ", 3, " and ", 4); });
  EXPECT_EQ(error.kind, ErrorKind::shape);
  EXPECT_STREQ(error.what(), "sizes 3 and 4");
  EXPECT_EQ(thrown_by([] { fail(ErrorKind::peer, "rank ", 3); }).kind, ErrorKind::peer);
  EXPECT_EQ(thrown_by([] { fail("a message"); }).kind, ErrorKind::user);
}

TEST(Error, ATrueConditionThrowsNothing) {
  EXPECT_NO_THROW(require(true, "never"));
  EXPECT_NO_THROW(require(ErrorKind::data, true, "never"));
}

TEST(Error, TheKindDeterminesTheExitCode) {
  for (ErrorKind kind :
       {ErrorKind::user, ErrorKind::shape, ErrorKind::type, ErrorKind::layout, ErrorKind::name, ErrorKind::device})
    EXPECT_EQ(exit_code(kind), 64);
  EXPECT_EQ(exit_code(ErrorKind::peer), 75);
  EXPECT_EQ(exit_code(ErrorKind::hang), 76);
  EXPECT_EQ(exit_code(ErrorKind::data), 77);
  EXPECT_EQ(name_of(ErrorKind::user), "user");
  EXPECT_EQ(name_of(ErrorKind::data), "data");
}

TEST(Error, AValueWithAStreamOperatorIsPrinted) {
  EXPECT_EQ(cat("a ", Well{12}, ", ", true, 'x'), "a well of 12 m, truex");
}

TEST(Error, AnOverflowOfSizesIsAShapeError) {
  constexpr std::int64_t max_int = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(checked_mul(max_int, 1), max_int);
  EXPECT_EQ(thrown_by([] { checked_mul(max_int, 2); }).kind, ErrorKind::shape);
  EXPECT_EQ(thrown_by([] { checked_add(max_int, 1); }).kind, ErrorKind::shape);
}

}  // namespace
}  // namespace karez::base
