// A folder of files by key, on disk: what one process kept another one finds, whole or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "karez/comm/socket.h"

namespace karez {

// Each file holds its key, its value and a checksum of both. It is written aside and renamed, so processes may share
// the folder, which is its owner's alone (0700). Nothing here throws: who keeps nothing works on. What is wrong is
// said, of the folder once, of a file each time.
class CacheFolder {
 public:
  explicit CacheFolder(std::string path, std::int64_t limit = 1'000'000'000);  // "": keeps nothing

  bool open();  // the folder is there (it is made if need be), and ours
  // Nothing where there is none, and where it is cut, changed or of another key.
  std::optional<std::string> find(std::string_view key);
  void store(std::string_view key, std::string_view value);
  void warn(std::string_view key, std::string_view wrong) const;  // of the file of this key

 private:
  bool write_temporary(const std::string& name, std::string_view head, std::string_view key, std::string_view value);
  void trim();  // what was not used for longest goes, until an eighth is free
  void refuse(std::string_view why);

  std::string path_;
  std::int64_t limit_, written_ = 0;  // bytes since trim() looked
  bool tried_open_ = false;
  comm::Descriptor folder_;
};

// KAREZ_CACHE; without it $XDG_CACHE_HOME/karez, and without that ~/.cache/karez. "": nowhere (KAREZ_CACHE=off, or no
// home).
std::string cache_path();

}  // namespace karez
