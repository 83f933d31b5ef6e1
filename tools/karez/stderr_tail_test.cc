// Tests of the tail of standard error, with bytes that arrive in pieces of different sizes.
#include "tools/karez/stderr_tail.h"

#include <gtest/gtest.h>

#include "karez/base/cat.h"

namespace karez::tools {
namespace {

std::string tail_of(std::string_view text, std::size_t step) {
  StderrTail tail;
  for (std::size_t at = 0; at < text.size(); at += step) tail.take(text.substr(at, step));
  return tail.text();
}

TEST(StderrTail, TheTailIsTheLastLineWithTheIndentedLinesAfterIt) {
  for (std::size_t step : {1, 3, 1000}) {
    EXPECT_EQ(tail_of("", step), "");
    EXPECT_EQ(tail_of("one\ntwo\n", step), "two");
    EXPECT_EQ(tail_of("one\ntwo", step), "two") << "a line without a line end must be included";
    EXPECT_EQ(tail_of("one\n\n\n", step), "one");
    EXPECT_EQ(tail_of("terminate called\n  what():  the disk is full\n", step),
              "terminate called what():  the disk is full");
    EXPECT_EQ(tail_of("old\n  more\nnew:\n  a\n\tb\n", step), "new: a b");
    EXPECT_EQ(tail_of("  indented alone\n", step), "indented alone");
    EXPECT_EQ(tail_of("karez: 3 ranks x 1 device, from karez run, links shm\nkarez warning: rank 1 is slow\n", step),
              "");
  }
  EXPECT_EQ(tail_of(std::string(5000, 'x'), 7).size(), StderrTail::max_bytes);
  EXPECT_EQ(tail_of(base::cat(std::string(900, 'x'), "\n ", std::string(900, 'y')), 7).size(), StderrTail::max_bytes);
}

}  // namespace
}  // namespace karez::tools
