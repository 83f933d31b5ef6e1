// Tests of reading tables of blocks, and of errors with file and line.
#include "bench/memory_file.h"

#include <gtest/gtest.h>

namespace karez::bench {
namespace {

std::string read_error(const std::string& text) {
  try {
    read_blocks(text, "x.csv");
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind, base::ErrorKind::data);
    return error.what();
  }
  return "none";
}

TEST(MemoryFile, ColumnsMayBeInAnyOrder) {
  for (const char* text : {"id,lower,upper,size\nb1,0,3,4\nb2,3,9,0\n", "size,id,upper,lower\n4,b1,3,0\n0,b2,9,3",
                           "\n lower , upper,size \r\n\r\n0, 3,4\r\n3,9,0\r\n"}) {
    auto blocks = read_blocks(text, "x.csv");
    ASSERT_EQ(blocks.size(), 2u);
    EXPECT_EQ(blocks[0].begin, 0);
    EXPECT_EQ(blocks[0].end, 3);
    EXPECT_EQ(blocks[0].size, 4);
    EXPECT_EQ(blocks[1].begin, 3);
    EXPECT_EQ(blocks[1].end, 9);
    EXPECT_EQ(blocks[1].size, 0);
  }
  EXPECT_EQ(read_blocks("lower,upper,size\n-5,-3,1\n", "x.csv")[0].begin, -5);
}

TEST(MemoryFile, ErrorsNameFileLineAndFault) {
  EXPECT_EQ(read_error(""), "x.csv:1: the file is empty; the first line must name the columns lower, upper and size");
  EXPECT_EQ(read_error("id,lower,upper,size\n"), "x.csv:2: the file lists no block");
  EXPECT_EQ(read_error("id,lower,size\nb1,0,4\n"), "x.csv:1: no column 'upper' in 'id,lower,size'");
  EXPECT_EQ(read_error("lower,upper,size,size\n0,1,2,3\n"), "x.csv:1: two columns are called 'size'");
  EXPECT_EQ(read_error("id,lower,upper,size\nb1,0,3,4\nb2,0,3\n"),
            "x.csv:3: 3 cells, but the first line names 4 columns");
  EXPECT_EQ(read_error("id,lower,upper,size\nb1,4,4,4\n"), "x.csv:2: upper 4 is not above lower 4");
  EXPECT_EQ(read_error("id,lower,upper,size\n\nb1,0,4,-1\n"), "x.csv:3: size -1 is negative");
  EXPECT_EQ(read_error("id,lower,upper,size\nb1,0,4,\n"), "x.csv:2: size '' is not a whole number");
  EXPECT_EQ(read_error("id,lower,upper,size\nb1,0x1,4,1\n"), "x.csv:2: lower '0x1' is not a whole number");
  EXPECT_EQ(read_error("id,lower,upper,size\nb1,0,4.5,1\n"), "x.csv:2: upper '4.5' is not a whole number");
  EXPECT_EQ(read_error("id,lower,upper,size\nb1,0,4,9223372036854775808\n"),
            "x.csv:2: size 9223372036854775808 is beyond 64 bits");
}

TEST(MemoryFile, TheCapacityIsInTheName) {
  EXPECT_EQ(capacity_in_name("A.1048576.csv"), 1048576);
  EXPECT_EQ(capacity_in_name("some.7.where/input.12.csv"), 12);
  for (const char* path : {"A.csv", "A", "", "12.csv", "dir.12.csv/A.csv", "A.12k.csv", "A.0.csv", "A.-3.csv", "A..csv",
                           "A.99999999999999999999.csv"})
    EXPECT_EQ(capacity_in_name(path), std::nullopt) << path;
}

TEST(MemoryFile, BlocksThatShareBytesAreFound) {
  std::vector<solve::Interval> blocks{{0, 2, 4}, {1, 3, 4}, {2, 4, 4}};
  EXPECT_EQ(overlap(blocks, {0, 4, 0}), std::nullopt);
  EXPECT_EQ(overlap(blocks, {0, 3, 8}), (std::pair<std::size_t, std::size_t>(0, 1)));
  EXPECT_EQ(overlap(blocks, {0, 4, 7}), (std::pair<std::size_t, std::size_t>(1, 2)));
}

}  // namespace
}  // namespace karez::bench
