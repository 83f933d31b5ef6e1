// Implements CacheFolder: writes, reads, checks and removes the files of a cache.
#include "karez/api/state/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>
#include <vector>

#include "karez/api/namespace.h"
#include "karez/base/hash.h"
#include "karez/base/log.h"
#include "karez/base/text.h"

namespace karez {
namespace {

constexpr std::string_view magic = "karez cache 1\n", suffix = ".plan", temporary_prefix = "aside-";
// The header consists of the magic text and three hexadecimal numbers.
constexpr std::size_t head_size = 64, field_size = 16;
constexpr std::time_t temporary_lifetime = 3600;  // seconds after which a temporary file counts as abandoned

std::string hexadecimal(std::uint64_t word) {
  std::array<char, field_size> digits;
  for (std::size_t i = field_size; i-- > 0; word >>= 4) digits[i] = "0123456789abcdef"[word & 15];
  return {digits.begin(), digits.end()};
}

std::string name_of_key(std::string_view key) { return cat(hexadecimal(hash_text(key)), suffix); }

std::uint64_t checksum(std::string_view key, std::string_view value) { return Hash().add(key).add(value).value(); }

std::string make_header(std::string_view key, std::string_view value) {
  return cat(magic, hexadecimal(key.size()), hexadecimal(value.size()), hexadecimal(checksum(key, value)), "\n\n");
}

std::optional<std::uint64_t> read_field(std::string_view file, std::size_t number) {
  const char* begin = file.data() + magic.size() + number * field_size;
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(begin, begin + field_size, out, 16);
  if (error != std::errc() || end != begin + field_size) return std::nullopt;
  return out;
}

// If the file is valid, removes everything except the value from its contents; otherwise returns the defect.
std::string_view find_defect(std::string& file, std::string_view key) {
  if (file.size() < head_size || !file.starts_with(magic)) return "is not a cache file of Karez, or is truncated";
  const auto key_size = read_field(file, 0), value_size = read_field(file, 1), stored_checksum = read_field(file, 2);
  const std::uint64_t rest = file.size() - head_size;
  if (!key_size || !value_size || !stored_checksum) return "has a modified header";
  if (*key_size > rest || *value_size != rest - *key_size) return "is truncated";
  const std::string_view stored_key = std::string_view(file).substr(head_size, *key_size),
                         value = std::string_view(file).substr(head_size + *key_size);
  if (checksum(stored_key, value) != *stored_checksum) return "was modified after it was written";
  if (stored_key != key) return "belongs to another program or another build of Karez";
  file.erase(0, head_size + *key_size);
  return {};
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::optional<std::string> read_all(int file, std::int64_t bytes) {
  std::string out(static_cast<std::size_t>(bytes), '\0');
  for (std::size_t offset = 0; offset < out.size();) {
    const ssize_t count = ::read(file, out.data() + offset, out.size() - offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) out.resize(offset);
    offset += static_cast<std::size_t>(count);
  }
  return out;
}

struct CacheFile {
  std::string name;
  std::int64_t bytes = 0;
  timespec last_use = {};
};

std::vector<CacheFile> list_files(int folder) {
  std::vector<CacheFile> out;
  DIR* list = ::fdopendir(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (list == nullptr) return out;
  while (const dirent* entry = ::readdir(list)) {
    const std::string_view name = entry->d_name;
    struct stat status {};
    if (!(name.ends_with(suffix) || name.starts_with(temporary_prefix)) ||
        ::fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (S_ISREG(status.st_mode)) out.push_back({std::string(name), status.st_size, status.st_mtim});
  }
  ::closedir(list);
  return out;
}

}  // namespace

CacheFolder::CacheFolder(std::string path, std::int64_t limit) : path_(std::move(path)), limit_(limit) {}

void CacheFolder::warn_disabled(std::string_view reason) {
  note(LogLevel::warning, "plans are not cached in '", path_, "': ", reason,
       "; set KAREZ_CACHE to another folder, or to off");
}

bool CacheFolder::open() {
  if (path_.empty() || std::exchange(tried_open_, true)) return static_cast<bool>(folder_);
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  if (error) return warn_disabled(error.message()), false;
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) return warn_disabled(std::strerror(errno)), false;
  comm::Descriptor folder(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!folder || ::fstat(folder.get(), &status) != 0) return warn_disabled(std::strerror(errno)), false;
  if (status.st_uid != ::geteuid()) return warn_disabled("it belongs to another user"), false;
  if ((status.st_mode & 0777) != 0700)
    return warn_disabled("users other than its owner have access (chmod 700 fixes this)"), false;
  folder_ = std::move(folder);
  return true;
}

void CacheFolder::warn(std::string_view key, std::string_view defect) const {
  note(LogLevel::warning, "the cached plan ", path_, "/", name_of_key(key), " ", defect, "; it is made again");
}

std::optional<std::string> CacheFolder::find(std::string_view key) {
  if (!open()) return std::nullopt;
  const comm::Descriptor file(
      ::openat(folder_.get(), name_of_key(key).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file && errno == ENOENT) return std::nullopt;
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return warn(key, std::strerror(errno)), std::nullopt;
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid())
    return warn(key, "is not a regular file of this user"), std::nullopt;
  std::optional<std::string> bytes = read_all(file.get(), std::min<std::int64_t>(status.st_size, limit_));
  if (!bytes) return warn(key, std::strerror(errno)), std::nullopt;
  if (const std::string_view defect = find_defect(*bytes, key); !defect.empty()) return warn(key, defect), std::nullopt;
  ::futimens(file.get(), nullptr);  // records the time of this use
  return bytes;
}

bool CacheFolder::write_temporary(const std::string& name, std::string_view head, std::string_view key,
                                  std::string_view value) {
  const comm::Descriptor file(::openat(folder_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  return file && write_all(file.get(), head) && write_all(file.get(), key) && write_all(file.get(), value);
}

void CacheFolder::store(std::string_view key, std::string_view value) {
  const auto bytes = static_cast<std::int64_t>(head_size + key.size() + value.size());
  if (!open() || bytes > limit_ / 8) return;
  // The temporary name is unique among existing objects and processes.
  const std::string name = name_of_key(key),
                    temporary = cat(temporary_prefix, ::getpid(), "-", reinterpret_cast<std::uintptr_t>(this));
  ::unlinkat(folder_.get(), temporary.c_str(), 0);  // such a file may be left from an earlier process with the same id
  if (!write_temporary(temporary, make_header(key, value), key, value) ||
      ::renameat(folder_.get(), temporary.c_str(), folder_.get(), name.c_str()) != 0) {
    warn_disabled(std::strerror(errno));
    ::unlinkat(folder_.get(), temporary.c_str(), 0);
    folder_ = {};
    return;
  }
  if (written_ == 0 || written_ > limit_ / 16) trim(), written_ = 0;
  written_ += bytes;
}

void CacheFolder::trim() {
  std::vector<CacheFile> files = list_files(folder_.get());
  std::erase_if(files, [&](const CacheFile& file) {
    if (!file.name.starts_with(temporary_prefix)) return false;
    if (file.last_use.tv_sec < std::time(nullptr) - temporary_lifetime) ::unlinkat(folder_.get(), file.name.c_str(), 0);
    return true;
  });
  std::int64_t bytes = 0;
  for (const CacheFile& file : files) bytes += file.bytes;
  if (bytes <= limit_ - limit_ / 8) return;
  std::sort(files.begin(), files.end(), [](const CacheFile& a, const CacheFile& b) {
    return std::pair(a.last_use.tv_sec, a.last_use.tv_nsec) < std::pair(b.last_use.tv_sec, b.last_use.tv_nsec);
  });
  for (const CacheFile& file : files) {
    if (bytes <= limit_ - limit_ / 8) return;
    if (::unlinkat(folder_.get(), file.name.c_str(), 0) == 0) bytes -= file.bytes;
  }
}

std::string cache_path() {
  auto environment_value = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  if (const std::string cache = environment_value("KAREZ_CACHE"); !cache.empty())
    return cache == "off" ? "" : std::filesystem::absolute(cache).string();
  if (const std::string caches = environment_value("XDG_CACHE_HOME"); caches.starts_with("/")) return caches + "/karez";
  if (const std::string home = environment_value("HOME"); home.starts_with("/")) return home + "/.cache/karez";
  return {};
}

}  // namespace karez
