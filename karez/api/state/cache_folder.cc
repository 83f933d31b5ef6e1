// Files of a cache: writes, checks and removes them.
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
// Of the header: the magic and three numbers in hexadecimal digits.
constexpr std::size_t head_size = 64, field_size = 16;
constexpr std::time_t abandoned = 3600;  // seconds after which a temporary file is abandoned

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

std::optional<std::uint64_t> field(std::string_view file, std::size_t number) {
  const char* begin = file.data() + magic.size() + number * field_size;
  std::uint64_t out = 0;
  const auto [end, fault] = std::from_chars(begin, begin + field_size, out, 16);
  if (fault != std::errc() || end != begin + field_size) return std::nullopt;
  return out;
}

// Removes everything but the value from a valid file; otherwise returns the defect.
std::string_view find_defect(std::string& file, std::string_view key) {
  if (file.size() < head_size || !file.starts_with(magic)) return "is not a file of this cache, or is truncated";
  const auto keys = field(file, 0), values = field(file, 1), sum = field(file, 2);
  const std::uint64_t rest = file.size() - head_size;
  if (!keys || !values || !sum) return "has a modified header";
  if (*keys > rest || *values != rest - *keys) return "is truncated";
  const std::string_view stored = std::string_view(file).substr(head_size, *keys),
                         value = std::string_view(file).substr(head_size + *keys);
  if (checksum(stored, value) != *sum) return "was modified after it was written";
  if (stored != key) return "belongs to another program or another build of Karez";
  file.erase(0, head_size + *keys);
  return {};
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(file, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

std::optional<std::string> read_all(int file, std::int64_t bytes) {
  std::string out(static_cast<std::size_t>(bytes), '\0');
  for (std::size_t at = 0; at < out.size();) {
    const ssize_t got = ::read(file, out.data() + at, out.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) out.resize(at);
    at += static_cast<std::size_t>(got);
  }
  return out;
}

struct CacheFile {
  std::string name;
  std::int64_t bytes = 0;
  timespec used = {};
};

std::vector<CacheFile> files_in(int folder) {
  std::vector<CacheFile> out;
  DIR* list = ::fdopendir(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (list == nullptr) return out;
  while (const dirent* entry = ::readdir(list)) {
    const std::string_view name = entry->d_name;
    struct stat found {};
    if (!(name.ends_with(suffix) || name.starts_with(temporary_prefix)) ||
        ::fstatat(folder, entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (S_ISREG(found.st_mode)) out.push_back({std::string(name), found.st_size, found.st_mtim});
  }
  ::closedir(list);
  return out;
}

}  // namespace

CacheFolder::CacheFolder(std::string path, std::int64_t limit) : path_(std::move(path)), limit_(limit) {}

void CacheFolder::refuse(std::string_view why) {
  note(LogLevel::warning, "plans are not cached in '", path_, "': ", why,
       "; set KAREZ_CACHE to another folder, or to off");
}

bool CacheFolder::open() {
  if (path_.empty() || std::exchange(tried_open_, true)) return static_cast<bool>(folder_);
  std::error_code fault;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), fault);
  if (fault) return refuse(fault.message()), false;
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) return refuse(std::strerror(errno)), false;
  comm::Descriptor folder(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat found {};
  if (!folder || ::fstat(folder.get(), &found) != 0) return refuse(std::strerror(errno)), false;
  if (found.st_uid != ::geteuid()) return refuse("it belongs to another user"), false;
  if ((found.st_mode & 0777) != 0700)
    return refuse("users other than its owner have access (chmod 700 fixes this)"), false;
  folder_ = std::move(folder);
  return true;
}

void CacheFolder::warn(std::string_view key, std::string_view wrong) const {
  note(LogLevel::warning, "the cached plan ", path_, "/", name_of_key(key), " ", wrong, "; it is made again");
}

std::optional<std::string> CacheFolder::find(std::string_view key) {
  if (!open()) return std::nullopt;
  const comm::Descriptor file(
      ::openat(folder_.get(), name_of_key(key).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file && errno == ENOENT) return std::nullopt;
  struct stat found {};
  if (!file || ::fstat(file.get(), &found) != 0) return warn(key, std::strerror(errno)), std::nullopt;
  if (!S_ISREG(found.st_mode) || found.st_uid != ::geteuid())
    return warn(key, "is not a regular file of this user"), std::nullopt;
  std::optional<std::string> bytes = read_all(file.get(), std::min<std::int64_t>(found.st_size, limit_));
  if (!bytes) return warn(key, std::strerror(errno)), std::nullopt;
  if (const std::string_view wrong = find_defect(*bytes, key); !wrong.empty()) return warn(key, wrong), std::nullopt;
  ::futimens(file.get(), nullptr);  // marks it as just used
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
  // Unique among existing objects and processes.
  const std::string name = name_of_key(key),
                    other = cat(temporary_prefix, ::getpid(), "-", reinterpret_cast<std::uintptr_t>(this));
  ::unlinkat(folder_.get(), other.c_str(), 0);  // a leftover of an ended process with the same number
  if (!write_temporary(other, make_header(key, value), key, value) ||
      ::renameat(folder_.get(), other.c_str(), folder_.get(), name.c_str()) != 0) {
    refuse(std::strerror(errno));
    ::unlinkat(folder_.get(), other.c_str(), 0);
    folder_ = {};
    return;
  }
  if (written_ == 0 || written_ > limit_ / 16) trim(), written_ = 0;
  written_ += bytes;
}

void CacheFolder::trim() {
  std::vector<CacheFile> files = files_in(folder_.get());
  std::erase_if(files, [&](const CacheFile& file) {
    if (!file.name.starts_with(temporary_prefix)) return false;
    if (file.used.tv_sec < std::time(nullptr) - abandoned) ::unlinkat(folder_.get(), file.name.c_str(), 0);
    return true;
  });
  std::int64_t bytes = 0;
  for (const CacheFile& file : files) bytes += file.bytes;
  if (bytes <= limit_ - limit_ / 8) return;
  std::sort(files.begin(), files.end(), [](const CacheFile& a, const CacheFile& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
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
  if (const std::string chosen = environment_value("KAREZ_CACHE"); !chosen.empty())
    return chosen == "off" ? "" : std::filesystem::absolute(chosen).string();
  if (const std::string caches = environment_value("XDG_CACHE_HOME"); caches.starts_with("/")) return caches + "/karez";
  if (const std::string home = environment_value("HOME"); home.starts_with("/")) return home + "/.cache/karez";
  return {};
}

}  // namespace karez
