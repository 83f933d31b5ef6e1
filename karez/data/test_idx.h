// Test helpers: the bytes of IDX files, and a directory for them.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "karez/base/error.h"
#include "karez/data/namespace.h"

namespace karez::data {

using Bytes = std::vector<std::uint8_t>;

inline Bytes idx(std::uint32_t magic, const std::vector<std::uint32_t>& counts, const Bytes& content) {
  Bytes out;
  auto word = [&](std::uint32_t w) {
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<std::uint8_t>(w >> shift));
  };
  word(magic);
  for (auto count : counts) word(count);
  out.insert(out.end(), content.begin(), content.end());
  return out;
}

// A directory that exists for one test.
struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / cat("karez_idx_", getpid());
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const std::string& name, const Bytes& bytes) const {
    std::ofstream(path / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
};

}  // namespace karez::data
