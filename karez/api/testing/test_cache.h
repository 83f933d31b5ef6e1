// TemporaryCache: for tests, a temporary folder for cached plans. KAREZ_CACHE names it during the object's lifetime.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "karez/base/error.h"

namespace karez {

class TemporaryCache {
 public:
  TemporaryCache() : old_cache_(std::getenv("KAREZ_CACHE") == nullptr ? "off" : std::getenv("KAREZ_CACHE")) {
    std::string name = (std::filesystem::temp_directory_path() / "karez-cache-XXXXXX").string();
    base::require(::mkdtemp(name.data()) != nullptr, "cannot make ", name);
    path = name;
    ::setenv("KAREZ_CACHE", path.c_str(), 1);
  }
  ~TemporaryCache() {
    ::setenv("KAREZ_CACHE", old_cache_.c_str(), 1);
    std::filesystem::remove_all(path);
  }
  TemporaryCache(const TemporaryCache&) = delete;
  TemporaryCache& operator=(const TemporaryCache&) = delete;

  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> result;
    for (const auto& entry : std::filesystem::directory_iterator(path)) result.push_back(entry.path());
    return result;
  }

  std::filesystem::path path;

 private:
  std::string old_cache_;
};

}  // namespace karez
