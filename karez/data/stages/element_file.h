// A file of elements that can be read by index, with a checksum of each element.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/open_file.h"
#include "karez/data/stages/array_pool.h"
#include "karez/data/stages/element.h"

namespace karez::data {

// The file, whose numbers are unsigned, of 64 bits and in little-endian order:
//
//   header    "KAREZ ELEMENTS 1", bytes of the description, its checksum, the description
//   records   of each element: bytes of the record, its checksum, the record (element_record.h)
//   index     the offset of each element's first byte
//   trailer   number of elements, offset of the index, checksum of index and these two numbers, "KAREZ ELEMENTS E"
//
// A checksum is XXH3 of the bytes (karez/base/xxhash.h).

// Writes elements to an empty file. Not for several threads.
class ElementWriter {
 public:
  ElementWriter(std::shared_ptr<const OpenFile> file, std::string_view description, ObjectCodec codec);
  void add(const Element& element);
  void finish();  // the file is complete; nothing may be added any more

 private:
  void put(std::string_view bytes);
  void flush();
  std::shared_ptr<const OpenFile> file_;
  ObjectCodec codec_;
  std::string buffer_;        // bytes that have not been written yet
  std::int64_t written_ = 0;  // bytes
  std::vector<std::uint64_t> index_;
};

// Reads elements from a complete file. Several threads may read at the same time. Anything else than the bytes that a
// writer has written is a data error that contains the file, the record and the byte; the bytes of an element are
// checked when it is read.
class ElementFile {
 public:
  ElementFile(std::shared_ptr<const OpenFile> file, ObjectCodec codec);
  const std::string& description() const { return description_; }
  std::int64_t size() const { return static_cast<std::int64_t>(index_.size()) - 1; }
  Element read(std::int64_t number) const;

 private:
  void read_header(std::int64_t file_bytes);
  void read_index(std::int64_t file_bytes);
  [[noreturn]] void fail_without_trailer(std::int64_t file_bytes) const;
  std::shared_ptr<const OpenFile> file_;
  ObjectCodec codec_;
  std::string description_;
  std::int64_t first_record_ = 0;     // its offset
  std::vector<std::uint64_t> index_;  // the offset of each record, and of the end of the last one
  mutable ArrayPool pool_;
};

}  // namespace karez::data
