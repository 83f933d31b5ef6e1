// For tests: a temporary folder for plans; KAREZ_CACHE names it during the object's lifetime.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "karez/base/error.h"

namespace karez {

class CacheForTest {
 public:
  CacheForTest() : before_(std::getenv("KAREZ_CACHE") == nullptr ? "off" : std::getenv("KAREZ_CACHE")) {
    std::string made = (std::filesystem::temp_directory_path() / "karez-cache-XXXXXX").string();
    base::require(::mkdtemp(made.data()) != nullptr, "cannot make ", made);
    path = made;
    ::setenv("KAREZ_CACHE", path.c_str(), 1);
  }
  ~CacheForTest() {
    ::setenv("KAREZ_CACHE", before_.c_str(), 1);
    std::filesystem::remove_all(path);
  }
  CacheForTest(const CacheForTest&) = delete;
  CacheForTest& operator=(const CacheForTest&) = delete;

  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> out;
    for (const auto& entry : std::filesystem::directory_iterator(path)) out.push_back(entry.path());
    return out;
  }

  std::filesystem::path path;

 private:
  std::string before_;
};

}  // namespace karez
