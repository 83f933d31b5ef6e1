// Reads the lines of a text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "karez/data/formats/record_reader.h"
#include "karez/data/formats/stream_buffer.h"
#include "karez/data/namespace.h"

namespace karez::data {

// Drops a byte order mark at the beginning of a file.
void drop_byte_order_mark(StreamBuffer& buffer);

// Throws if the text, which begins at this place of a file, is not UTF-8. `place` is text for people.
void check_utf8(std::string_view text, std::string_view place, std::int64_t byte);

class TextLines {
 public:
  TextLines(std::string path, RecordPlace place, const FileOptions& options);
  // The next line without its end; valid until the next call. A line that is too long or not UTF-8 is an error, after
  // which the next call returns the line after it.
  std::optional<std::string_view> next();
  RecordPlace place() const { return {number_, buffer_.offset() + static_cast<std::int64_t>(taken_)}; }
  bool can_continue() const { return !buffer_.failed(); }
  std::string line_text() const;  // the place of the line that the last call returned: "a.txt: line 3 at byte 12"

 private:
  [[noreturn]] void skip_long_line();

  std::string path_;
  std::size_t max_bytes_;
  StreamBuffer buffer_;
  std::int64_t number_;    // of the next line
  std::size_t taken_ = 0;  // the bytes at the beginning of the window that the last call returned
};

}  // namespace karez::data
