// Finds the ends of lines.
#include "karez/data/formats/text_lines.h"

#include <algorithm>
#include <cstring>

#include "karez/base/error.h"
#include "karez/base/hex.h"
#include "karez/data/formats/simdjson_text.h"

namespace karez::data {

void drop_byte_order_mark(StreamBuffer& buffer) {
  if (buffer.offset() == 0 && text_of(buffer.fill(3)).starts_with("\xef\xbb\xbf")) buffer.consume(3);
}

void check_utf8(std::string_view text, std::string_view place, std::int64_t byte) {
  const std::size_t valid = valid_utf8(text);
  if (valid == text.size()) return;
  fail(ErrorKind::data, place, ": the text is not UTF-8: invalid byte 0x",
       hex_of(std::as_bytes(std::span(text).subspan(valid, 1))), " at byte ", byte + static_cast<std::int64_t>(valid));
}

TextLines::TextLines(std::string path, RecordPlace place, const FileOptions& options)
    : path_(std::move(path)),
      max_bytes_(static_cast<std::size_t>(options.max_record_bytes)),
      buffer_(open_unpacked(path_, place.byte, options.open, {options.max_file_bytes}), place.byte),
      number_(place.number) {}

std::string TextLines::line_text() const { return cat(path_, ": line ", number_, " at byte ", buffer_.offset()); }

std::optional<std::string_view> TextLines::next() {
  buffer_.consume(std::exchange(taken_, 0));
  drop_byte_order_mark(buffer_);
  std::size_t searched = 0;
  while (true) {
    const std::string_view window = text_of(buffer_.fill(searched + 1));
    if (window.empty()) return std::nullopt;
    std::size_t end = window.find('\n', searched);
    const bool at_end = end == window.npos && window.size() == searched;  // of the file
    if (at_end) end = searched;
    if (std::min(end, window.size()) > max_bytes_ + 1) skip_long_line();  // 1: for \r
    if (end == window.npos) {
      searched = window.size();
      continue;
    }
    ++number_;
    taken_ = at_end ? end : end + 1;
    std::string_view line = window.substr(0, end);
    if (!at_end && line.ends_with('\r')) line.remove_suffix(1);
    if (line.size() > max_bytes_) {
      fail(ErrorKind::data, line_text(), ": the line has ", line.size(), " bytes, more than the limit of ", max_bytes_,
           " (max_record_bytes)");
    }
    check_utf8(line, line_text(), buffer_.offset());
    return line;
  }
}

void TextLines::skip_long_line() {
  ++number_;
  const std::string place = line_text();
  while (true) {
    const std::string_view window = text_of(buffer_.fill(1));
    const std::size_t end = window.find('\n');
    buffer_.consume(end == window.npos ? window.size() : end + 1);
    if (end != window.npos || window.empty()) break;
  }
  fail(ErrorKind::data, place, ": the line has more than ", max_bytes_, " bytes, the limit (max_record_bytes)");
}

}  // namespace karez::data
