// Creates temporary files, removes those of killed processes, and renames them when they are complete.
#include "karez/data/temporary_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "karez/base/cat.h"

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

// Locks the file after creating it, so that other writers do not remove it. Between the two steps another writer may
// have removed it as stale.
TemporaryFile::TemporaryFile(std::string path) : path_(std::move(path)), process_(::getpid()) {
  remove_stale_temporaries(path_);
  while (true) {
    temporary_path_ = temporary_path_of(path_);
    const int descriptor = ::open(temporary_path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == EEXIST) continue;  // a child of an earlier process with this id is still writing
    if (descriptor < 0) fail_to_write(path_);
    file_ = std::make_shared<const OpenFile>(descriptor, path_);
    struct stat status = {};
    if (!lock(descriptor, LOCK_EX) || ::fstat(descriptor, &status) != 0 || status.st_nlink > 0) return;
  }
}

TemporaryFile::~TemporaryFile() {
  if (!temporary_path_.empty() && process_ == ::getpid()) ::unlink(temporary_path_.c_str());
}

void TemporaryFile::commit() {
  file_->sync();
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) fail_to_write(path_);
  temporary_path_.clear();
  // The new name is an entry of the folder, which must be synced too.
  const OpenFile folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), folder_of(path_));
  const bool synced = folder.descriptor() >= 0 &&
                      (::fsync(folder.descriptor()) == 0 || errno == EINVAL);  // some file systems do not sync folders
  if (!synced) fail_to_write(folder.name());
}

std::shared_ptr<const OpenFile> open_unnamed_file(const std::string& folder, std::string name) {
  int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {  // not every file system has such files
    std::string path = folder + "/karez-XXXXXX";
    descriptor = ::mkostemp(path.data(), O_CLOEXEC);
    if (descriptor >= 0) ::unlink(path.c_str());
  }
  if (descriptor < 0) fail_to_write(name);
  return std::make_shared<const OpenFile>(descriptor, std::move(name));
}

}  // namespace karez::data
