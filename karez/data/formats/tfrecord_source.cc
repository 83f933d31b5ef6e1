// TFRecord files: each record has its length (8 bytes), the checksum of the length, the bytes, and their checksum.
#include <bit>
#include <cstring>

#include "karez/base/error.h"
#include "karez/data/formats/isal_crc32c.h"
#include "karez/data/formats/record_reader.h"
#include "karez/data/formats/stream_buffer.h"

namespace karez::data {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers in the file are little-endian");

template <class T> T number_at(std::span<const std::uint8_t> bytes, std::size_t at) {
  T out;
  std::memcpy(&out, bytes.data() + at, sizeof(T));
  return out;
}

// TensorFlow stores checksums in this form, so that checksums of bytes that contain checksums stay useful.
std::uint32_t masked_crc32c(std::span<const std::uint8_t> bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

class TfrecordReader : public RecordReader {
 public:
  TfrecordReader(std::string path, RecordPlace place, bool examples, const FileOptions& options)
      : path_(std::move(path)),
        max_bytes_(options.max_record_bytes),
        examples_(examples),
        buffer_(open_unpacked(path_, place.byte, options.open, {options.max_file_bytes}), place.byte),
        number_(place.number) {}

  std::optional<Element> next() override {
    length_is_known_ = false;
    const std::span<const std::uint8_t> header = buffer_.fill(header_bytes);
    if (header.empty()) return std::nullopt;
    if (header.size() < header_bytes) fail_at_end(header.size(), header_bytes, "length");
    const auto length = number_at<std::uint64_t>(header, 0);
    check_sum(header.first(8), number_at<std::uint32_t>(header, 8), "length");
    require(ErrorKind::data, length <= static_cast<std::uint64_t>(max_bytes_), place_text(), ": the record has ",
            length, " bytes, more than the limit of ", max_bytes_, " (max_record_bytes)");
    const std::size_t bytes = header_bytes + static_cast<std::size_t>(length) + sum_bytes;
    const std::span<const std::uint8_t> record = buffer_.fill(bytes);
    if (record.size() < bytes) fail_at_end(record.size(), bytes, "record");
    length_is_known_ = true;
    const std::string place = place_text();
    ++number_;
    buffer_.consume(bytes);  // the bytes stay valid until the next record is read
    const auto data = record.subspan(header_bytes, static_cast<std::size_t>(length));
    check_sum(data, number_at<std::uint32_t>(record, bytes - sum_bytes), "record", place);
    if (!examples_) return element(bytes_array(data));
    try {
      return parse_example(data);
    } catch (const Error& error) { fail(ErrorKind::data, place, ": ", error.what()); }
  }
  RecordPlace place() const override { return {number_, buffer_.offset()}; }
  bool can_continue() const override { return length_is_known_; }

 private:
  static constexpr std::size_t header_bytes = 12, sum_bytes = 4;

  std::string place_text() const { return cat(path_, ": record ", number_, " at byte ", buffer_.offset()); }
  void check_sum(std::span<const std::uint8_t> bytes, std::uint32_t stored, std::string_view what) const {
    if (masked_crc32c(bytes) != stored) check_sum(bytes, stored, what, place_text());
  }
  static void check_sum(std::span<const std::uint8_t> bytes, std::uint32_t stored, std::string_view what,
                        const std::string& place) {
    const std::uint32_t computed = masked_crc32c(bytes);
    require(ErrorKind::data, computed == stored, place, ": the checksum of the ", what, " is wrong: ", stored,
            " is stored, but its bytes have ", computed);
  }
  [[noreturn]] void fail_at_end(std::size_t got, std::size_t expected, std::string_view what) const {
    fail(ErrorKind::data, place_text(), ": the file ends at byte ", buffer_.offset() + static_cast<std::int64_t>(got),
         " in the ", what, ", which needs ", expected, " bytes");
  }

  std::string path_;
  std::int64_t max_bytes_;
  bool examples_;
  StreamBuffer buffer_;
  std::int64_t number_;
  bool length_is_known_ = false;
};

}  // namespace

Dataset from_tfrecord(std::vector<std::string> paths, const TfrecordOptions& format, const FileOptions& options) {
  return from_records(
      "from_tfrecord", format.examples ? "examples" : "", std::move(paths),
      [options, examples = format.examples](const std::string& path, RecordPlace place) {
        return std::make_unique<TfrecordReader>(path, place, examples, options);
      },
      options);
}

}  // namespace karez::data
