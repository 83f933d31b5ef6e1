// Writes a temporary file, syncs and renames it, so that a crash at any moment leaves the old file or the new one.
#include "karez/data/weight_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "karez/base/text.h"
#include "karez/base/xxhash.h"

namespace karez::data {
namespace {

constexpr std::string_view temporary_infix = ".writing-";

// Makes a path that is unique within this process and among processes.
std::string temporary_path_of(const std::string& path) {
  static std::atomic<int> counter = 0;
  return cat(path, temporary_infix, ::getpid(), "-", ++counter);
}

std::string folder_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  return slash == path.npos ? "." : path.substr(0, slash + 1);
}

bool lock(int descriptor, int operation) {
  while (::flock(descriptor, operation) != 0)
    if (errno != EINTR) return false;
  return true;
}

// Removes a temporary file if no writer has locked it. On a file system without locks this is unknown, and the file is
// kept.
void remove_stale_temporary(const std::string& temporary_path) {
  const int descriptor = ::open(temporary_path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  struct stat status = {};
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && lock(descriptor, LOCK_EX | LOCK_NB))
    ::unlink(temporary_path.c_str());
  ::close(descriptor);
}

// Removes the files that killed writers of the path have left: PATH.writing-123-4.
void remove_stale_temporaries(const std::string& path) {
  const std::string folder = folder_of(path), prefix = cat(path.substr(path.find_last_of('/') + 1), temporary_infix);
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(folder.c_str()), &::closedir);
  while (const dirent* entry = list != nullptr ? ::readdir(list.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(prefix)) continue;
    const std::string_view numbers = name.substr(prefix.size());
    const std::size_t dash = numbers.find('-');
    if (dash == 0 || dash == numbers.npos || dash + 1 == numbers.size() ||
        numbers.find_first_not_of("0123456789") != dash ||
        numbers.find_first_not_of("0123456789", dash + 1) != numbers.npos)
      continue;
    remove_stale_temporary(path.substr(0, path.find_last_of('/') + 1) + std::string(name));
  }
}

}  // namespace

WeightWriter::WeightWriter(std::string path, std::vector<WeightEntry> entries, const WeightNotes& notes)
    : path_(std::move(path)),
      entries_(std::move(entries)),
      notes_(notes) {
  const std::string header = print_checked_header(entries_, notes_);
  remove_stale_temporaries(path_);
  open_temporary();
  try {
    put(std::as_bytes(std::span(header)));
  } catch (...) {
    ::close(descriptor_);
    ::unlink(temporary_path_.c_str());
    throw;
  }
}

WeightWriter::~WeightWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_path_.c_str());
}

// Opens the temporary file and locks it, so that other writers do not remove it. Between the two steps another writer
// may have removed the file as stale.
void WeightWriter::open_temporary() {
  while (true) {
    temporary_path_ = temporary_path_of(path_);
    descriptor_ = ::open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno == EEXIST) continue;  // a child of an earlier process with this id is still writing
    if (descriptor_ < 0) fail_with_errno(path_);
    struct stat status = {};
    if (!lock(descriptor_, LOCK_EX) || ::fstat(descriptor_, &status) != 0 || status.st_nlink > 0) return;
    ::close(descriptor_);
  }
}

void WeightWriter::fail_with_errno(const std::string& path) const {
  fail(ErrorKind::data, "cannot write ", path, ": ", std::strerror(errno));
}

void WeightWriter::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t byte_count = ::write(descriptor_, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 30));
    if (byte_count < 0 && errno == EINTR) continue;
    if (byte_count < 0) fail_with_errno(path_);
    bytes = bytes.subspan(static_cast<std::size_t>(byte_count));
  }
}

void WeightWriter::write(std::span<const std::byte> bytes) {
  require(next_ < entries_.size(), path_, ": more tensors were written than the header lists");
  WeightEntry& entry = entries_[next_++];
  require(static_cast<std::int64_t>(bytes.size()) == entry.end - entry.begin, path_, ": tensor ", quote(entry.name),
          " takes ", entry.end - entry.begin, " bytes, but ", bytes.size(), " were given");
  entry.checksum = hash_bytes(bytes);
  put(bytes);
}

void WeightWriter::commit() {
  require(next_ == entries_.size(), path_, ": only ", next_, " of ", entries_.size(), " tensors were written");
  const std::string header =
      print_checked_header(entries_, notes_);  // has the same length as before, now with all checksums
  if (::lseek(descriptor_, 0, SEEK_SET) != 0) fail_with_errno(path_);
  put(std::as_bytes(std::span(header)));
  if (::fsync(descriptor_) != 0 || ::rename(temporary_path_.c_str(), path_.c_str()) != 0) fail_with_errno(path_);
  if (::close(std::exchange(descriptor_, -1)) != 0)
    fail_with_errno(path_);  // after the rename, because closing ends the lock
  // The new name is an entry of the folder, which must be synced too.
  const std::string folder = folder_of(path_);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_with_errno(folder);
  const bool synced = ::fsync(descriptor) == 0 || errno == EINVAL;  // some file systems do not sync folders
  const int saved_errno = errno;
  ::close(descriptor);
  errno = saved_errno;
  if (!synced) fail_with_errno(folder);
}

}  // namespace karez::data
