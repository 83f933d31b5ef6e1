// Tests of unpacking: several parts, every truncation, every changed byte, limits, and positions in compressed files.
#include "karez/data/formats/byte_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "karez/base/test_error.h"
#include "karez/data/formats/stream_buffer.h"
#include "karez/data/formats/test_records.h"

namespace karez::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string gzip(const std::string& bytes, int level = 6) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, level, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  out.resize(ZSTD_compress2(context, out.data(), out.size(), bytes.data(), bytes.size()));
  ZSTD_freeCCtx(context);
  return out;
}

struct Format {
  std::string suffix;
  std::string (*pack)(const std::string&);
};
const Format formats[] = {{".gz", [](const std::string& bytes) { return gzip(bytes); }}, {".zst", zstd}};

std::string unpacked(const std::string& packed, const std::string& suffix, std::size_t piece = 1 << 20,
                     std::size_t out_piece = 1 << 16, std::int64_t offset = 0, std::int64_t limit = 0) {
  const auto stream = open_unpacked("a" + suffix, offset, memory_files({{"a" + suffix, packed}}, piece), {limit});
  std::string out;
  std::vector<std::uint8_t> buffer(out_piece);
  while (const std::size_t count = stream->read(buffer)) out += text_of(std::span(buffer).first(count));
  EXPECT_EQ(stream->read(buffer), 0u) << "the end stays the end";
  return out;
}

// Text that is neither all zeros nor incompressible.
std::string sample(std::size_t size) {
  std::string out;
  for (std::uint32_t i = 1; out.size() < size; i = i * 1664525 + 1013904223) out += cat(i >> 24, i % 5 ? "," : "\n");
  out.resize(size);
  return out;
}

TEST(ByteStream, UnpacksWhatTheLibrariesPack) {
  for (const Format& format : formats)
    for (std::size_t size : {0, 1, 100, 65536, 700'000})
      for (std::size_t piece : {7, 65536, 1 << 20}) {
        const std::string bytes = sample(size);
        EXPECT_TRUE(unpacked(format.pack(bytes), format.suffix, piece) == bytes)
            << format.suffix << " " << size << " " << piece;
      }
  for (const Format& format : formats) {
    const std::string bytes = sample(3000);
    EXPECT_TRUE(unpacked(format.pack(bytes), format.suffix, 1, 1) == bytes) << format.suffix;
    EXPECT_TRUE(unpacked(format.pack(std::string(1 << 22, 'x')), format.suffix, 1 << 20, 5000) ==
                std::string(1 << 22, 'x'))
        << format.suffix;
  }
  EXPECT_TRUE(unpacked(gzip(sample(100'000), 0), ".gz", 1000) == sample(100'000)) << "stored blocks";
}

TEST(ByteStream, SeveralPartsAreOneFile) {
  for (const Format& format : formats)
    for (std::size_t piece : {1, 9, 1000}) {
      const std::string packed = format.pack("one") + format.pack("") + format.pack(sample(500)) + format.pack("end");
      EXPECT_EQ(unpacked(packed, format.suffix, piece), "one" + sample(500) + "end") << format.suffix << " " << piece;
    }
  for (std::size_t piece : {1, 1000})
    EXPECT_EQ(unpacked(gzip("a") + std::string(9, '\0') + gzip("b") + std::string(700, '\0'), ".gz", piece), "ab");
}

TEST(ByteStream, EveryTruncationIsAnError) {
  for (const Format& format : formats) {
    const std::string first = format.pack("one"), packed = first + format.pack(sample(200));
    for (std::size_t size = 0; size < packed.size(); ++size) {
      const std::string error = error_of([&] { unpacked(packed.substr(0, size), format.suffix, 50); });
      if (size == first.size()) EXPECT_EQ(error, "no error");
      else
        EXPECT_THAT(error, ::testing::AllOf(HasSubstr("a" + format.suffix + ": "),
                                            HasSubstr(cat("data ends early, after ", size, " bytes"))));
    }
  }
}

TEST(ByteStream, NoChangedByteGivesOtherBytesWithoutAnError) {
  for (const Format& format : formats) {
    const std::string bytes = sample(300), packed = format.pack(bytes);
    for (std::size_t i = 0; i < packed.size(); ++i)
      for (int bit = 0; bit < 8; ++bit) {
        std::string changed = packed;
        changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
        std::string got;
        const std::string error = error_of([&] { got = unpacked(changed, format.suffix, 64); });
        if (error == "no error") { EXPECT_EQ(got, bytes) << format.suffix << " byte " << i; }
      }
  }
}

TEST(ByteStream, OtherDataIsAnErrorThatNamesTheReason) {
  EXPECT_THAT(error_of([] { unpacked("plain text, no gzip", ".gz"); }),
              HasSubstr("a.gz: gzip data is damaged near byte "));
  EXPECT_THAT(error_of([] { unpacked("plain text, no zstd", ".zst"); }),
              HasSubstr("a.zst: zstd data is damaged near byte "));
  EXPECT_THAT(error_of([] { unpacked(gzip("a") + "garbage after it", ".gz"); }),
              HasSubstr("does not begin with the magic number"));
  std::string wrong_sum = gzip("abc");
  wrong_sum[wrong_sum.size() - 7] ^= 1;
  EXPECT_THAT(error_of([&] { unpacked(wrong_sum, ".gz"); }), HasSubstr("the checksum of a member is wrong"));
}

TEST(ByteStream, AnOffsetDropsTheBytesBeforeIt) {
  const std::string bytes = sample(200'000);
  for (std::int64_t offset : {0, 1, 65535, 65536, 199'999, 200'000, 200'001}) {
    const std::string rest = bytes.substr(std::min<std::size_t>(static_cast<std::size_t>(offset), bytes.size()));
    for (const Format& format : formats)
      EXPECT_TRUE(unpacked(format.pack(bytes), format.suffix, 1000, 1000, offset) == rest)
          << format.suffix << " " << offset;
    EXPECT_TRUE(unpacked(bytes, ".txt", 1000, 1000, offset) == rest) << offset;
  }
}

TEST(ByteStream, AFileThatUnpacksToMoreThanTheLimitIsAnError) {
  const std::string bomb(1 << 20, '\0');
  for (const Format& format : formats) {
    EXPECT_EQ(error_of([&] { unpacked(format.pack(bomb), format.suffix, 1 << 20, 4096, 0, 100'000); }),
              "a" + format.suffix + ": the file has more than 100000 bytes, the limit max_file_bytes");
    EXPECT_EQ(unpacked(format.pack("four"), format.suffix, 100, 100, 0, 4), "four");
    EXPECT_THAT(error_of([&] { unpacked(format.pack("fives"), format.suffix, 100, 100, 2, 4); }),
                HasSubstr("more than 4 bytes"));
  }
  EXPECT_THAT(error_of([] { unpacked("fives", "", 100, 100, 2, 4); }), HasSubstr("the limit max_file_bytes"));
}

TEST(ByteStream, RecordsOfCompressedFilesHavePositions) {
  FileOptions options;
  for (const Format& format : formats) {
    options.open = memory_files({{"t" + format.suffix, format.pack("one\n") + format.pack("two\nthree")},
                                 {"r.tfrecord" + format.suffix, format.pack(tfrecord_file({"a", "bc"}))}});
    EXPECT_THAT(read_records(from_text({"t" + format.suffix}, options)).records,
                ElementsAre("\"one\"", "\"two\"", "\"three\""));
    EXPECT_THAT(read_records(from_tfrecord({"r.tfrecord" + format.suffix}, {}, options)).records,
                ElementsAre("\"a\"", "\"bc\""));
  }
}

}  // namespace
}  // namespace karez::data
