// Divides CSV text into rows and fields. Debian has no library for this whose columns are chosen at run time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/data/formats/record_reader.h"
#include "karez/data/formats/stream_buffer.h"
#include "karez/data/namespace.h"

namespace karez::data {

class CsvRows {
 public:
  CsvRows(std::string path, RecordPlace place, char delimiter, const FileOptions& options);
  // Reads the next row that is not blank; false at the end. A row that is not valid is an error, after which the next
  // call continues with a later line.
  bool next();
  std::span<const std::string> fields() const { return std::span(fields_).first(count_); }
  RecordPlace place() const { return {number_, buffer_.offset()}; }  // of the next row; its number is that of its line
  bool can_continue() const { return !buffer_.failed(); }
  const std::string& row_text() const { return row_text_; }  // the place of the row: "a.csv: line 3 at byte 40"

 private:
  enum class State : std::uint8_t { begin, plain, quoted, quote };
  bool read_row();
  void put(char c) { fields_[count_ - 1] += c; }
  void begin_field();
  [[noreturn]] void fail_row(std::size_t skipped, std::string_view what);

  std::string path_, row_text_;
  std::size_t max_bytes_;
  char delimiter_;
  StreamBuffer buffer_;
  std::int64_t number_;  // of the next line
  std::vector<std::string> fields_;
  std::size_t count_ = 0;
  bool blank_ = false;
};

}  // namespace karez::data
