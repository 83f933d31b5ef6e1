// Aside, synced, renamed: a crash at any moment leaves the old file or the new one.
#include "data/weight_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace karez::data {
namespace {

// Its own in this process and beside others.
std::string aside_of(const std::string& path) {
  static std::atomic<int> last = 0;
  return cat(path, ".writing-", ::getpid(), "-", ++last);
}

}  // namespace

WeightWriter::WeightWriter(std::string path, std::vector<WeightEntry> entries, const WeightNotes& notes)
    : path_(std::move(path)),
      aside_(aside_of(path_)),
      entries_(std::move(entries)) {
  const std::string header = print_weight_header(entries_, notes);
  descriptor_ = ::open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_with_errno(path_);
  try {
    put(std::as_bytes(std::span(header)));
  } catch (...) {
    ::close(descriptor_);
    ::unlink(aside_.c_str());
    throw;
  }
}

WeightWriter::~WeightWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(aside_.c_str());
}

void WeightWriter::fail_with_errno(const std::string& path) const { fail(ErrorKind::data, "cannot write ", path, ": ", std::strerror(errno)); }

void WeightWriter::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor_, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_with_errno(path_);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void WeightWriter::write(std::span<const std::byte> bytes) {
  require(next_ < entries_.size(), path_, ": more tensors than its header names");
  const WeightEntry& entry = entries_[next_++];
  require(static_cast<std::int64_t>(bytes.size()) == entry.end - entry.begin, path_, ": tensor ", quote(entry.name), " takes ",
          entry.end - entry.begin, " bytes; ", bytes.size(), " are written");
  put(bytes);
}

void WeightWriter::commit() {
  require(next_ == entries_.size(), path_, ": ", next_, " of ", entries_.size(), " tensors are written");
  if (::fsync(descriptor_) != 0) fail_with_errno(path_);
  if (::close(std::exchange(descriptor_, -1)) != 0 || ::rename(aside_.c_str(), path_.c_str()) != 0) {
    const int why = errno;
    ::unlink(aside_.c_str());
    errno = why;
    fail_with_errno(path_);
  }
  // The new name is an entry of the folder, which has bytes of its own.
  const auto slash = path_.find_last_of('/');
  const std::string folder = slash == path_.npos ? "." : path_.substr(0, slash + 1);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_with_errno(folder);
  const bool synced = ::fsync(descriptor) == 0 || errno == EINVAL;  // some file systems have nothing to sync there
  const int why = errno;
  ::close(descriptor);
  errno = why;
  if (!synced) fail_with_errno(folder);
}

}  // namespace karez::data
