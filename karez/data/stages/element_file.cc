// Writes and reads files of elements.
#include "karez/data/stages/element_file.h"

#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "karez/base/text.h"
#include "karez/base/xxhash.h"
#include "karez/data/stages/element_record.h"

namespace karez::data {
namespace {

constexpr std::string_view begin_mark = "KAREZ ELEMENTS 1", end_mark = "KAREZ ELEMENTS E";
constexpr std::int64_t mark_bytes = 16, record_header = 16;  // of a record: its size and checksum
constexpr std::int64_t header_bytes = mark_bytes + 16, trailer_bytes = 24 + mark_bytes;
constexpr std::size_t buffer_bytes = 1 << 20;
constexpr const char* advice = "; delete the file, if it is a snapshot, so that it is written again";

using Words = std::vector<std::uint64_t>;

std::uint64_t checksum_of(std::string_view bytes) { return hash_bytes(std::as_bytes(std::span(bytes))); }
std::uint64_t checksum_of(const Words& words) { return hash_bytes(std::as_bytes(std::span(words))); }

std::string_view text_of(const Words& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(std::uint64_t)};
}

template <std::size_t count> std::array<std::uint64_t, count> words_at(const OpenFile& file, std::int64_t at) {
  std::array<std::uint64_t, count> words{};
  file.read_at(at, std::as_writable_bytes(std::span(words)));
  return words;
}

}  // namespace

ElementWriter::ElementWriter(std::shared_ptr<const OpenFile> file, std::string_view description, ObjectCodec codec)
    : file_(std::move(file)),
      codec_(std::move(codec)) {
  put(begin_mark);
  put(text_of({description.size(), checksum_of(description)}));
  put(description);
}

void ElementWriter::add(const Element& element) {
  const std::string record = record_of(element, codec_);
  index_.push_back(static_cast<std::uint64_t>(written_) + buffer_.size());
  put(text_of({record.size(), checksum_of(record)}));
  put(record);
}

void ElementWriter::finish() {
  const std::uint64_t count = index_.size(), index_begin = static_cast<std::uint64_t>(written_) + buffer_.size();
  index_.insert(index_.end(), {count, index_begin});
  index_.push_back(checksum_of(index_));
  put(text_of(index_));
  put(end_mark);
  flush();
}

void ElementWriter::put(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > buffer_bytes) flush();
  if (bytes.size() < buffer_bytes) {
    buffer_ += bytes;
    return;
  }
  file_->write_at(written_, std::as_bytes(std::span(bytes)));
  written_ += static_cast<std::int64_t>(bytes.size());
}

void ElementWriter::flush() {
  file_->write_at(written_, std::as_bytes(std::span(buffer_)));
  written_ += static_cast<std::int64_t>(buffer_.size());
  buffer_.clear();
}

ElementFile::ElementFile(std::shared_ptr<const OpenFile> file, ObjectCodec codec)
    : file_(std::move(file)),
      codec_(std::move(codec)) {
  const std::int64_t file_bytes = file_->size();
  read_header(file_bytes);
  read_index(file_bytes);
}

void ElementFile::read_header(std::int64_t file_bytes) {
  const std::string& name = file_->name();
  if (file_bytes < header_bytes || file_->read_text(0, mark_bytes) != begin_mark)
    fail(ErrorKind::data, name, " is not a file of elements: it must begin with ", quote(begin_mark));
  const auto [size, checksum] = words_at<2>(*file_, mark_bytes);
  require(ErrorKind::data, size <= static_cast<std::uint64_t>(file_bytes - header_bytes), name, " is damaged: it has ",
          file_bytes, " bytes, but its description of ", size, " bytes begins at byte ", header_bytes, advice);
  description_ = file_->read_text(header_bytes, static_cast<std::int64_t>(size));
  require(ErrorKind::data, checksum_of(description_) == checksum, name, " is damaged: the description at byte ",
          header_bytes, " does not match its checksum", advice);
  first_record_ = header_bytes + static_cast<std::int64_t>(size);
}

void ElementFile::read_index(std::int64_t file_bytes) {
  const std::int64_t trailer = file_bytes - trailer_bytes;
  if (trailer < first_record_ || file_->read_text(file_bytes - mark_bytes, mark_bytes) != end_mark)
    fail_without_trailer(file_bytes);
  const auto [count, begin, checksum] = words_at<3>(*file_, trailer);
  const auto end = static_cast<std::uint64_t>(trailer), first = static_cast<std::uint64_t>(first_record_);
  require(ErrorKind::data, begin >= first && begin <= end && count == (end - begin) / 8 && (end - begin) % 8 == 0,
          file_->name(), " is damaged: the trailer at byte ", trailer, " has an index of ", count,
          " elements that begins at byte ", begin, advice);
  index_.resize(static_cast<std::size_t>(count) + 2);
  file_->read_at(static_cast<std::int64_t>(begin), std::as_writable_bytes(std::span(index_)));
  require(ErrorKind::data, checksum_of(index_) == checksum, file_->name(), " is damaged: the index at byte ", begin,
          " does not match its checksum", advice);
  index_.pop_back();
  index_.back() = begin;         // instead of the count: the end of the last record
  std::uint64_t before = first;  // the offset of the previous record
  for (std::size_t i = 0; i < index_.size(); ++i) {
    const bool ok = i == 0 ? index_[i] == first : index_[i] >= before && index_[i] - before >= record_header;
    require(ErrorKind::data, ok, file_->name(), " is damaged: the index at byte ", begin, " has byte ", index_[i],
            " for record ", i, advice);
    before = index_[i];
  }
}

// Says where the file ends: every record contains its size.
void ElementFile::fail_without_trailer(std::int64_t file_bytes) const {
  std::int64_t at = first_record_, record = 0, second_record = -1;
  while (file_bytes - at >= record_header) {
    const auto [size, checksum] = words_at<2>(*file_, at);
    // The index begins with the offsets of the first two records, or with that of the only one and the number 1.
    const bool is_index = record > 0 && size == static_cast<std::uint64_t>(first_record_) &&
                          checksum == (record == 1 ? 1 : static_cast<std::uint64_t>(second_record));
    require(ErrorKind::data, !is_index, file_->name(), " is not complete: it ends at byte ", file_bytes,
            " in the index after record ", record - 1, ", which begins at byte ", at, advice);
    if (size > static_cast<std::uint64_t>(file_bytes - at - record_header)) break;
    at += record_header + static_cast<std::int64_t>(size);
    if (++record == 1) second_record = at;
  }
  fail(ErrorKind::data, file_->name(), " is not complete: it ends at byte ", file_bytes, " in record ", record,
       " or after it, which begins at byte ", at, advice);
}

Element ElementFile::read(std::int64_t number) const {
  require(number >= 0 && number < size(), file_->name(), ": record ", number, " does not exist: there are ", size());
  const auto at = static_cast<std::int64_t>(index_[static_cast<std::size_t>(number)]);
  const auto bytes = static_cast<std::int64_t>(index_[static_cast<std::size_t>(number) + 1]) - at;
  const RecordPlace place{file_->name(), number, at + record_header};
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
  file_->read_at(at, {buffer.get(), static_cast<std::size_t>(bytes)});
  std::array<std::uint64_t, 2> header{};
  std::memcpy(header.data(), buffer.get(), record_header);
  const std::string_view record(reinterpret_cast<const char*>(buffer.get()) + record_header,
                                static_cast<std::size_t>(bytes - record_header));
  if (header[0] != record.size() || header[1] != checksum_of(record))
    fail(ErrorKind::data, print(place), " is damaged: its ", record.size(), " bytes do not match its size or checksum",
         advice);
  return element_of(record, codec_, pool_, place);
}

}  // namespace karez::data
