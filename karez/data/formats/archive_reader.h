// The entries of an archive, tar or zip. Only its source calls libarchive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "karez/data/formats/byte_stream.h"
#include "karez/data/namespace.h"

struct archive;

namespace karez::data {

enum class ArchiveFormat { tar, zip };

struct ArchiveEntry {
  enum class Kind { file, folder, link, other };
  std::string path;
  Kind kind = Kind::file;
  std::int64_t size = 0;      // -1: unknown
  std::int64_t position = 0;  // of its header in the file; an archive may be opened there
};

// Nothing is ever written to files, and links are not followed.
class ArchiveReader {
 public:
  // The stream begins at `offset` of the file, before an entry. Errors begin with `name`.
  ArchiveReader(std::unique_ptr<ByteStream> stream, std::string name, ArchiveFormat format, std::int64_t offset = 0);
  ~ArchiveReader();
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  // Moves on to the next entry; false at the end. A file of no bytes has no entries.
  bool next();
  const ArchiveEntry& entry() const { return entry_; }
  // Reads up to bytes.size() bytes of the entry; 0 at its end.
  std::size_t read(std::span<std::uint8_t> bytes);
  std::int64_t position() const { return entry_.position; }  // at the end: of the end

 private:
  static long read_block(archive*, void* self, const void** block);
  static std::int64_t skip_block(archive*, void* self, std::int64_t bytes);
  void check(long result, const char* action);

  std::unique_ptr<ByteStream> stream_;
  std::string name_;
  std::int64_t offset_;
  std::vector<std::uint8_t> block_;
  std::size_t first_ = 0;  // the bytes of the first block, until they are read
  std::exception_ptr error_;
  archive* archive_ = nullptr;
  bool begun_ = false;  // an entry is open
  ArchiveEntry entry_;
};

}  // namespace karez::data
