// Reads blocks of a stream into memory that doubles when it is full.
#include "karez/data/formats/stream_buffer.h"

#include <algorithm>
#include <cstring>

namespace karez::data {
namespace {

constexpr std::size_t block_bytes = 1 << 16;  // read at least as many bytes at a time

}  // namespace

std::span<const std::uint8_t> StreamBuffer::fill(std::size_t bytes) {
  while (end_ - begin_ < bytes && stream_ != nullptr) {
    if (memory_.size() - end_ < block_bytes) {
      if (begin_ > 0) std::memmove(memory_.data(), memory_.data() + begin_, end_ - begin_);
      end_ -= begin_, begin_ = 0;
      if (memory_.size() - end_ < block_bytes) memory_.resize(std::max(4 * block_bytes, 2 * memory_.size()));
    }
    failed_ = true;  // unless the call returns
    const std::size_t count = stream_->read(std::span(memory_).subspan(end_));
    failed_ = false;
    end_ += count;
    if (count == 0) stream_.reset();  // the stream has ended
  }
  return window();
}

}  // namespace karez::data
