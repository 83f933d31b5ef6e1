// Makes a folder for a test, reads and writes small files in it, and limits the size of files.
#include "karez/data/test_folder.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "karez/base/test_error.h"

namespace karez::data {
namespace fs = std::filesystem;

TestFolder::TestFolder() : path_(::testing::TempDir() + "karez_data_XXXXXX") {
  require(::mkdtemp(path_.data()) != nullptr, "cannot make the folder ", path_);
}

TestFolder::~TestFolder() { fs::remove_all(path_); }

std::vector<std::string> TestFolder::names() const {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(path_)) out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

std::string TestFolder::content(const std::string& name) const {
  std::ifstream in(path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void TestFolder::put(const std::string& name, const std::string& bytes) const {
  std::ofstream(path(name), std::ios::binary) << bytes;
}

std::string error_with_a_full_disk(const std::function<void()>& body) {
  struct rlimit old_limit = {};
  ::getrlimit(RLIMIT_FSIZE, &old_limit);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {4096, old_limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string error = error_of(body);
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, handler);
  return error;
}

}  // namespace karez::data
