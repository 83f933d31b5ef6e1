// Opens local files, chooses how they are unpacked, and limits their size.
#include "karez/data/formats/byte_stream.h"

#include <algorithm>
#include <vector>

#include "karez/base/error.h"
#include "karez/data/open_file.h"

namespace karez::data {
namespace {

class FileStream : public ByteStream {
 public:
  FileStream(const std::string& path, std::int64_t offset) : file_(path), at_(offset), size_(file_.size()) {}
  std::size_t read(std::span<std::uint8_t> bytes) override {
    const auto count = std::min<std::int64_t>(std::ssize(bytes), std::max<std::int64_t>(size_ - at_, 0));
    const auto part = bytes.first(static_cast<std::size_t>(count));
    file_.read_at(at_, std::as_writable_bytes(part));
    at_ += count;
    return part.size();
  }
  std::int64_t skip(std::int64_t bytes) override {
    const std::int64_t count = std::clamp<std::int64_t>(size_ - at_, 0, bytes);
    at_ += count;
    return count;
  }

 private:
  OpenFile file_;
  std::int64_t at_, size_;
};

// Fails when more than `limit` bytes have been read.
class LimitedStream : public ByteStream {
 public:
  LimitedStream(std::unique_ptr<ByteStream> stream, std::string name, std::int64_t limit)
      : stream_(std::move(stream)),
        name_(std::move(name)),
        limit_(limit) {}
  std::size_t read(std::span<std::uint8_t> bytes) override {
    const std::size_t count = stream_->read(bytes);
    read_ += static_cast<std::int64_t>(count);
    require(ErrorKind::data, read_ <= limit_, name_, ": the file has more than ", limit_,
            " bytes, the limit max_file_bytes");
    return count;
  }
  std::int64_t skip(std::int64_t bytes) override {
    const std::int64_t count = stream_->skip(std::min(bytes, limit_ - read_));
    read_ += count;
    return count;
  }

 private:
  std::unique_ptr<ByteStream> stream_;
  std::string name_;
  std::int64_t limit_, read_ = 0;
};

}  // namespace

std::unique_ptr<ByteStream> open_local_file(const std::string& path, std::int64_t offset) {
  return std::make_unique<FileStream>(path, offset);
}

bool is_compressed(std::string_view path) { return path.ends_with(".gz") || path.ends_with(".zst"); }

std::unique_ptr<ByteStream> open_unpacked(const std::string& path, std::int64_t offset, const FileOpener& open,
                                          const OpenLimits& limits) {
  const bool compressed = is_compressed(path);
  std::unique_ptr<ByteStream> stream =
      open ? open(path, compressed ? 0 : offset) : open_local_file(path, compressed ? 0 : offset);
  if (compressed) {
    stream = path.ends_with(".gz") ? unpack_gzip(std::move(stream), path) : unpack_zstd(std::move(stream), path);
  }
  if (limits.max_file_bytes > 0) {
    const std::int64_t before = compressed ? 0 : std::min(offset, limits.max_file_bytes);
    stream = std::make_unique<LimitedStream>(std::move(stream), path, limits.max_file_bytes - before);
  }
  std::vector<std::uint8_t> dropped(compressed && offset > 0 ? 1 << 16 : 0);
  for (std::int64_t left = offset; compressed && left > 0;) {
    const auto part = std::span(dropped).first(static_cast<std::size_t>(std::min(left, std::ssize(dropped))));
    const std::size_t count = stream->read(part);
    if (count == 0) break;  // the reader finds no record
    left -= static_cast<std::int64_t>(count);
  }
  return stream;
}

}  // namespace karez::data
