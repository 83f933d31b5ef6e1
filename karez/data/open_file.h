// An open file: its descriptor, and the name that errors contain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "karez/data/namespace.h"

namespace karez::data {

// Several threads may read and write at the same time. Throws data errors that contain the name and the reason.
class OpenFile {
 public:
  // Opens a regular file for reading. Anything else, such as a folder or a pipe, is an error.
  explicit OpenFile(const std::string& path);
  OpenFile(int descriptor, std::string name);  // owns the descriptor
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const std::string& name() const { return name_; }
  int descriptor() const { return descriptor_; }
  std::int64_t size() const;
  // Fills `bytes` from offset `at` on; an error if the file ends before.
  void read_at(std::int64_t at, std::span<std::byte> bytes) const;
  std::string read_text(std::int64_t at, std::int64_t bytes) const;
  void write_at(std::int64_t at, std::span<const std::byte> bytes) const;
  void sync() const;

 private:
  int descriptor_;
  std::string name_;
};

[[noreturn]] void fail_to_write(const std::string& name);  // with the reason in errno

}  // namespace karez::data
