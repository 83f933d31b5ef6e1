// For tests: an empty folder that is removed at the end of the test.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "karez/data/namespace.h"

namespace karez::data {

class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  std::vector<std::string> names() const;  // of the files in the folder, sorted
  std::string content(const std::string& name) const;
  void put(const std::string& name, const std::string& bytes) const;

 private:
  std::string path_;
};

// The text of the error that the body throws while no file may have more than 4096 bytes, as if the disk were full.
std::string error_with_a_full_disk(const std::function<void()>& body);

}  // namespace karez::data
