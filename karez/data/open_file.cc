// Reads and writes bytes at offsets of a file, and continues after calls that transferred only a part of the bytes.
#include "karez/data/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "karez/base/error.h"

namespace karez::data {
namespace {

[[noreturn]] void fail_to_read(const std::string& name) {
  fail(ErrorKind::data, "cannot read ", name, ": ", std::strerror(errno));
}

// The bytes of one call: Linux transfers at most 2 GiB.
std::size_t step_of(std::size_t bytes) { return std::min<std::size_t>(bytes, 1 << 30); }

}  // namespace

void fail_to_write(const std::string& name) {
  fail(ErrorKind::data, "cannot write ", name, ": ", std::strerror(errno));
}

OpenFile::OpenFile(const std::string& path)
    // O_NONBLOCK: opening a named pipe must not block.
    : OpenFile(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), path) {
  if (descriptor_ < 0) fail_to_read(name_);
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0) fail_to_read(name_);
  require(ErrorKind::data, S_ISREG(status.st_mode), "cannot read ", name_, ": it is not a regular file");
}

OpenFile::OpenFile(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::int64_t OpenFile::size() const {
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0) fail_to_read(name_);
  return status.st_size;
}

void OpenFile::read_at(std::int64_t at, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), step_of(bytes.size()), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to_read(name_);
    require(ErrorKind::data, count > 0, name_, ": the file ends at byte ", at, ", but ", bytes.size(),
            " more bytes are expected; it was truncated after it was opened");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    at += count;
  }
}

std::string OpenFile::read_text(std::int64_t at, std::int64_t bytes) const {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  read_at(at, std::as_writable_bytes(std::span(text)));
  return text;
}

void OpenFile::write_at(std::int64_t at, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), step_of(bytes.size()), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_to_write(name_);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    at += count;
  }
}

void OpenFile::sync() const {
  if (::fsync(descriptor_) != 0) fail_to_write(name_);
}

}  // namespace karez::data
