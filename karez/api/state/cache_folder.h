// CacheFolder: a key-value store in the files of a folder that several processes may share. No process ever reads an
// incomplete value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "karez/comm/transport/socket.h"

namespace karez {

// Each file contains a key, its value and a checksum of the two. A file is written under a temporary name and renamed,
// so that several processes may share the folder. Only the owner may access the folder (0700). Functions do not throw,
// because programs work without the cache. A problem with the folder is reported by one warning; a problem with a file
// is reported each time.
class CacheFolder {
 public:
  explicit CacheFolder(std::string path, std::int64_t limit = 1'000'000'000);  // an empty path stores nothing

  bool open();  // creates the folder if needed; returns whether it can be used
  // Returns the value. Returns nullopt if there is no file for the key, or if the file is damaged or has another key.
  std::optional<std::string> find(std::string_view key);
  void store(std::string_view key, std::string_view value);
  void warn(std::string_view key, std::string_view defect) const;  // warns about the file of this key

 private:
  bool write_temporary(const std::string& name, std::string_view head, std::string_view key, std::string_view value);
  void trim();  // removes the least recently used files until an eighth of the limit is free
  void warn_disabled(std::string_view reason);

  std::string path_;
  std::int64_t limit_, written_ = 0;  // bytes written since trim() ran
  bool tried_open_ = false;
  comm::Descriptor folder_;
};

// Returns KAREZ_CACHE if set, otherwise $XDG_CACHE_HOME/karez if set, otherwise ~/.cache/karez. Returns "", which
// disables the cache, if KAREZ_CACHE is off or there is no home directory.
std::string cache_path();

}  // namespace karez
