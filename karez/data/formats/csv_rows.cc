// Reads rows by the grammar of RFC 4180, with \n as another end of a row.
#include "karez/data/formats/csv_rows.h"

#include <algorithm>

#include "karez/base/error.h"
#include "karez/data/formats/text_lines.h"

namespace karez::data {

CsvRows::CsvRows(std::string path, RecordPlace place, char delimiter, const FileOptions& options)
    : path_(std::move(path)),
      max_bytes_(static_cast<std::size_t>(options.max_record_bytes)),
      delimiter_(delimiter),
      buffer_(open_unpacked(path_, place.byte, options.open, {options.max_file_bytes}), place.byte),
      number_(place.number) {}

bool CsvRows::next() {
  do
    if (!read_row()) return false;
  while (blank_);
  return true;
}

void CsvRows::begin_field() {
  if (count_ == fields_.size()) fields_.emplace_back();
  fields_[count_++].clear();
}

// Ends the row within the first `skipped` bytes of the window and drops the rest of that line.
void CsvRows::fail_row(std::size_t skipped, std::string_view what) {
  const std::int64_t byte = buffer_.offset() + static_cast<std::int64_t>(skipped);
  const std::string_view row = text_of(buffer_.window().first(skipped));
  number_ += std::count(row.begin(), row.end(), '\n');
  buffer_.consume(skipped);
  while (true) {
    const std::string_view window = text_of(buffer_.fill(1));
    const std::size_t end = window.find('\n');
    buffer_.consume(end == window.npos ? window.size() : end + 1);
    if (window.empty() || end != window.npos) break;
  }
  ++number_;
  fail(ErrorKind::data, row_text_, ": ", what, ", at byte ", byte);
}

bool CsvRows::read_row() {
  drop_byte_order_mark(buffer_);
  std::string_view window = text_of(buffer_.fill(1));
  if (window.empty()) return false;
  row_text_ = cat(path_, ": line ", number_ + 1, " at byte ", buffer_.offset());
  count_ = 0;
  begin_field();
  State state = State::begin;
  bool any_quote = false;
  std::int64_t lines = 0;
  std::size_t at = 0;
  for (;; ++at) {
    if (at > max_bytes_) fail_row(0, cat("the row has more than ", max_bytes_, " bytes, the limit (max_record_bytes)"));
    if (at == window.size()) window = text_of(buffer_.fill(at + 1));
    const bool at_end = at == window.size();
    const char c = at_end ? '\n' : window[at];
    if (state == State::quoted) {
      if (at_end) fail_row(0, "the file ends within a quoted field");
      lines += c == '\n';
      if (c == '"') state = State::quote;
      else put(c);
    } else if (c == '"' && state == State::begin) {
      state = State::quoted, any_quote = true;
    } else if (c == '"' && state == State::quote) {
      put('"'), state = State::quoted;
    } else if (c == '"') {
      fail_row(at, "a quote within a field that does not begin with a quote");
    } else if (c == delimiter_) {
      begin_field(), state = State::begin;
    } else if (c == '\n') {
      break;
    } else if (state == State::quote) {
      if (c == '\r') window = text_of(buffer_.fill(at + 2));
      const bool ends = c == '\r' && (at + 1 == window.size() || window[at + 1] == '\n');
      if (!ends) fail_row(at, "a character follows the closing quote of a field");
    } else {
      put(c), state = State::plain;
    }
  }
  if (state == State::plain && fields_[count_ - 1].ends_with('\r')) fields_[count_ - 1].pop_back();
  blank_ = count_ == 1 && fields_[0].empty() && !any_quote;
  const std::string_view row = window.substr(0, at);
  const std::int64_t byte = buffer_.offset();
  buffer_.consume(std::min(at + 1, window.size()));  // the bytes stay valid until the next row is read
  number_ += lines + 1;
  check_utf8(row, row_text_, byte);
  return true;
}

}  // namespace karez::data
