// Tests of gzip reading: compressed bytes are restored, and each kind of damage is an error.
#include "karez/data/gzip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "karez/base/error.h"

namespace karez::data {
namespace {
using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;
using Bytes = std::vector<std::uint8_t>;

Bytes gzip(const Bytes& plain) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&stream, plain.size()));
  stream.next_in = const_cast<Bytef*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Bytes make_bytes(std::size_t count) {
  Bytes out(count);
  std::uint32_t word = 7;
  for (auto& byte : out) byte = static_cast<std::uint8_t>((word = word * 1664525u + 1013904223u) >> 28);
  return out;
}

auto fails_with(const std::string& text) { return Throws<Error>(Property(&Error::what, HasSubstr(text))); }

TEST(Gzip, CompressedBytesAreRestored) {
  for (std::size_t count : {0u, 1u, 100u, 300000u})
    EXPECT_EQ(gunzip(gzip(make_bytes(count)), "x"), make_bytes(count)) << count;
}

TEST(Gzip, MegabytesOfZerosAreUnpackedIntoAGrowingBuffer) {
  EXPECT_EQ(gunzip(gzip(Bytes(5000000)), "x"), Bytes(5000000));
}

TEST(Gzip, AtMostTheRequestedBytesAreUnpacked) {
  Bytes zeros = gzip(Bytes(5000000));
  EXPECT_EQ(gunzip(zeros, "x", 7), Bytes(7));
  EXPECT_EQ(gunzip(zeros, "x", 0), Bytes());
  EXPECT_EQ(gunzip(zeros, "x", 5000001), Bytes(5000000));
  EXPECT_LE(gunzip(zeros, "x", 100).capacity(), 4 * zeros.size());
}

TEST(Gzip, ConcatenatedMembersAreOneStream) {
  Bytes members = gzip({1, 2, 3}), more = gzip({4, 5});
  members.insert(members.end(), more.begin(), more.end());
  EXPECT_EQ(gunzip(members, "x"), (Bytes{1, 2, 3, 4, 5}));
}

TEST(Gzip, AnEarlyEndIsAnErrorAtEveryLength) {
  Bytes gzip_bytes = gzip(make_bytes(2000));
  for (std::size_t length = 2; length < gzip_bytes.size(); ++length)
    EXPECT_THAT([&] { gunzip(std::span(gzip_bytes).first(length), "cut.gz"); },
                fails_with("cut.gz: gzip data ends early"))
        << length;
}

TEST(Gzip, AWrongChecksumIsAnError) {
  Bytes gzip_bytes = gzip(make_bytes(2000));
  gzip_bytes[gzip_bytes.size() - 8] ^= 1;  // the stored checksum
  EXPECT_THAT([&] { gunzip(gzip_bytes, "bad.gz"); }, fails_with("bad.gz: gzip data is damaged near byte"));
}

TEST(Gzip, RandomDamageIsAlwaysAnError) {
  Bytes plain = make_bytes(3000), gzip_bytes = gzip(plain);
  for (std::size_t at = 10; at < gzip_bytes.size() - 4;
       ++at) {  // after the header: its time and flags may change freely
    Bytes damaged = gzip_bytes;
    damaged[at] ^= 0x55;
    EXPECT_THROW(gunzip(damaged, "x"), Error) << "byte " << at;
  }
}

TEST(Gzip, DataWithoutTheMagicNumberIsRejected) {
  EXPECT_FALSE(is_gzip(Bytes{0, 0, 8, 3}));
  EXPECT_FALSE(is_gzip(Bytes{0x1f}));
  EXPECT_THAT([] { gunzip(Bytes{1, 2, 3}, "x"); }, fails_with("x: not gzip data"));
}

}  // namespace
}  // namespace karez::data
