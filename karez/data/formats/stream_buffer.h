// A window of a stream of bytes that grows to hold one record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/data/formats/byte_stream.h"
#include "karez/data/namespace.h"

namespace karez::data {

class StreamBuffer {
 public:
  // offset: of the stream's first byte in the file
  StreamBuffer(std::unique_ptr<ByteStream> stream, std::int64_t offset) : stream_(std::move(stream)), offset_(offset) {}

  // Reads until the window has this many bytes or the stream ends, and returns the window, which may have more bytes or
  // fewer. The window's memory grows with the bytes that exist, so a wrong size in a file allocates nothing.
  std::span<const std::uint8_t> fill(std::size_t bytes);
  std::span<const std::uint8_t> window() const { return std::span(memory_).subspan(begin_, end_ - begin_); }
  void consume(std::size_t bytes) { begin_ += bytes, offset_ += static_cast<std::int64_t>(bytes); }
  // Whether the stream threw an error, so that what follows cannot be read.
  bool failed() const { return failed_; }
  std::int64_t offset() const { return offset_; }  // of the window's first byte in the file, unpacked

 private:
  std::unique_ptr<ByteStream> stream_;
  std::vector<std::uint8_t> memory_;
  std::size_t begin_ = 0, end_ = 0;  // of the window
  std::int64_t offset_;
  bool failed_ = false;
};

inline std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace karez::data
