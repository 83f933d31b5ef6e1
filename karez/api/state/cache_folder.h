// A key-value store of files in a folder, shared between processes: a stored value is found complete or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "karez/comm/socket.h"

namespace karez {

// Each file contains its key, its value and a checksum of both. It is written under a temporary name and renamed, so
// that processes may share the folder, which only its owner may access (0700). Functions do not throw: without the
// cache the program still works. Problems are reported as warnings, for the folder once, for a file each time.
class CacheFolder {
 public:
  explicit CacheFolder(std::string path, std::int64_t limit = 1'000'000'000);  // "": stores nothing

  bool open();  // whether the folder exists (it is created if needed) and belongs to this user
  // None if there is no file, or if it is truncated, modified or has another key.
  std::optional<std::string> find(std::string_view key);
  void store(std::string_view key, std::string_view value);
  void warn(std::string_view key, std::string_view wrong) const;  // about the file of this key

 private:
  bool write_temporary(const std::string& name, std::string_view head, std::string_view key, std::string_view value);
  void trim();  // removes the least recently used files until an eighth of the limit is free
  void refuse(std::string_view why);

  std::string path_;
  std::int64_t limit_, written_ = 0;  // bytes written since trim() ran
  bool tried_open_ = false;
  comm::Descriptor folder_;
};

// KAREZ_CACHE; without it $XDG_CACHE_HOME/karez, and without that ~/.cache/karez. "" disables the cache
// (KAREZ_CACHE=off, or no home directory).
std::string cache_path();

}  // namespace karez
