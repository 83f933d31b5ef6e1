// Tests of IDX files: valid files are read, and the error for each kind of invalid file states the wrong values.
#include "karez/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/data/test_idx.h"

namespace karez::data {
namespace {

TEST(Idx, AValidFileIsRead) {
  IdxArray a = parse_idx(idx(0x803, {2, 1, 3}, {1, 2, 3, 4, 5, 6}), 3, "x");
  EXPECT_EQ(a.shape, (Shape{2, 1, 3}));
  EXPECT_EQ(a.bytes, (Bytes{1, 2, 3, 4, 5, 6}));
}

TEST(Idx, AnUnexpectedMagicNumberIsReportedWithTheExpectedOne) {
  EXPECT_EQ(
      error_of([] {
        parse_idx(idx(0xd03, {1, 1, 1}, {1}), 3, "f");
      }),
      "f: unexpected magic number 0x00000d03; an IDX file of unsigned bytes with 3 dimensions begins with 0x00000803");
  EXPECT_EQ(
      error_of([] {
        parse_idx(idx(0x803, {1, 1, 1}, {1}), 1, "f");
      }),
      "f: unexpected magic number 0x00000803; an IDX file of unsigned bytes with 1 dimension begins with 0x00000801");
}

TEST(Idx, CountsBeyondTheFileAreReportedWithTheBytesPresent) {
  EXPECT_EQ(error_of([] {
              parse_idx(idx(0x803, {60000, 28, 28}, {1, 2}), 3, "f");
            }),
            "f: the shape [60000, 28, 28] in the header takes 47040000 bytes, but only 2 follow it");
  EXPECT_EQ(error_of([] {
              parse_idx(idx(0x801, {1}, {1, 2}), 1, "f");
            }),
            "f: the shape [1] in the header takes 1 bytes, but 2 follow it");
}

TEST(Idx, CountsWithAnOverflowingProductAreAnError) {
  EXPECT_THAT(error_of([] {
                parse_idx(idx(0x803, {0xffffffff, 0xffffffff, 0xffffffff}, {}), 3, "f");
              }),
              ::testing::HasSubstr("overflows"));
}

TEST(Idx, ATruncatedHeaderIsAnError) {
  EXPECT_EQ(error_of([] { parse_idx(Bytes{0, 0}, 3, "f"); }), "f: 2 bytes are too few for an IDX header");
  EXPECT_EQ(error_of([] { parse_idx(idx(0x803, {5}, {}), 3, "f"); }),
            "f: truncated: the header takes 16 bytes, but the file has 8");
}

// Stores `plain` as one block of gzip without its checksum.
Bytes stored_gzip(const Bytes& plain) {
  Bytes out{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
  auto length = static_cast<std::uint16_t>(plain.size()), complement = static_cast<std::uint16_t>(~length);
  for (int byte : {1, length & 255, length >> 8, complement & 255, complement >> 8})
    out.push_back(static_cast<std::uint8_t>(byte));
  out.insert(out.end(), plain.begin(), plain.end());
  return out;
}

TEST(Idx, GzipUnpacksNoMoreThanTheHeaderCounts) {
  // The damage after the counted bytes is never read.
  EXPECT_EQ(error_of([] {
              unpack_idx(stored_gzip(idx(0x801, {2}, {1, 2, 3})), 1, "f");
            }),
            "f: the shape [2] in the header takes 2 bytes, but more follow it");
  EXPECT_EQ(
      error_of([] {
        unpack_idx(stored_gzip(idx(0x802, {2}, {1, 2, 3})), 1, "f");
      }),
      "f: unexpected magic number 0x00000802; an IDX file of unsigned bytes with 1 dimension begins with 0x00000801");
  EXPECT_THAT(error_of([] {
                unpack_idx(stored_gzip(idx(0x801, {12}, {1, 2, 3})), 1, "f");
              }),
              ::testing::HasSubstr("gzip data ends early"));
}

TEST(Idx, TheErrorForAMissingFileHasItsPath) {
  EXPECT_EQ(error_of([] { read_idx("/nowhere/x", 1); }), "cannot open '/nowhere/x'");
  EXPECT_EQ(error_of([] { read_idx("/tmp", 1); }), "cannot open '/tmp'");
}

}  // namespace
}  // namespace karez::data
