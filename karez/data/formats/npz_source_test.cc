// Tests of the rows of an .npz file that NumPy has written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/data/formats/test_records.h"

namespace karez::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// numpy.savez_compressed(x=numpy.arange(6, dtype="i4").reshape(3, 2), y=numpy.array([0.5, 1.5, 2.5], "f4"))
const char file_in_hex[] =
    "504b03042d000000080000002100d397d113ffffffffffffffff05001400782e6e7079010010009800000000000000550000"
    "00000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a2aea3a09e965f54529498179f5f94920a12774bcc"
    "294e058a17672416a402f91ac63a0a469a3a0ab50a64032e06206004622620660662162066056200504b03042d0000000800"
    "000021007badd238ffffffffffffffff05001400792e6e7079010010008c000000000000004f000000000000009bec17ea1b"
    "10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402"
    "f91ac63a9a3a0ab50a14002e0606067b06860340ace00000504b01022d032d000000080000002100d397d113550000009800"
    "0000050000000000000000000000800100000000782e6e7079504b01022d032d0000000800000021007badd2384f0000008c"
    "00000005000000000000000000000080018c000000792e6e7079504b0506000000000200020066000000120100000000";

std::string file() {
  std::string out;
  for (std::size_t i = 0; i + 1 < sizeof file_in_hex; i += 2)
    out += static_cast<char>(std::stoi(std::string(file_in_hex + i, 2), nullptr, 16));
  return out;
}

ReadRecords read(const std::string& bytes, FileOptions options = {}) {
  options.open = memory_files({{"a.npz", bytes}}, 100);
  return read_records(from_npz({"a.npz"}, options), false);
}

TEST(FromNpz, RowsAreDictsOfTheArrays) {
  const ReadRecords got = read(file());
  EXPECT_EQ(got.error, "");
  EXPECT_THAT(got.records, ElementsAre("{x: i32[2](0 1), y: f32[](0.5)}", "{x: i32[2](2 3), y: f32[](1.5)}",
                                       "{x: i32[2](4 5), y: f32[](2.5)}"));
}

TEST(FromNpz, DamagedFilesAreErrors) {
  const std::string bytes = file();
  for (std::size_t size : {0, 30, 100, 200}) EXPECT_THAT(read(bytes.substr(0, size)).error, HasSubstr("a.npz")) << size;
  std::string damaged = bytes;
  damaged[100] = static_cast<char>(damaged[100] ^ 0x10);
  EXPECT_THAT(read(damaged).error, HasSubstr("a.npz"));
  EXPECT_THAT(read("PK\x05\x06" + std::string(18, '\0')).error, HasSubstr("the file contains no arrays"));
}

}  // namespace
}  // namespace karez::data
