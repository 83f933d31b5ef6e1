// Reads weights from one open file or from several files of an index, and converts an entry's bytes to arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/open_file.h"
#include "karez/data/safetensors.h"
#include "karez/device/host_array.h"

namespace karez::data {

// A part of an entry, and the order of its dimensions.
struct WeightPart {
  bool transposed = false;            // exchanges the two dimensions after the part is taken
  int part = 0, parts = 1, axis = 0;  // number `part` of `parts` equal parts along an axis of the entry
  bool operator==(const WeightPart&) const = default;
};

// Open weight files. They stay open, so that the old file is still read after its path is replaced.
class WeightFiles {
 public:
  // Opens a .safetensors file, or an index (*.index.json) and the files that it lists, which must be in the same folder
  // and contain exactly the tensors that the index lists.
  explicit WeightFiles(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<WeightEntry>& entries() const { return entries_; }  // by name
  const WeightNotes& notes() const { return notes_; }
  // Returns all bytes of the entry. Throws if the file has become shorter, or if the bytes do not match their checksum.
  std::vector<std::byte> read(const WeightEntry& entry) const;
  void check_bytes() const;  // reads all tensors that have checksums; throws the same errors

 private:
  struct File {
    std::unique_ptr<const OpenFile> file;
    std::int64_t data = 0;  // offset of the first byte after the header
  };
  void open(const std::string& path);
  std::string path_;
  std::vector<File> files_;
  std::vector<WeightEntry> entries_;
  WeightNotes notes_;
};

// Returns the shape of a part. Throws if the entry has no such part.
Shape shape_of(const WeightEntry& entry, const WeightPart& part);
// Returns whether the dtype represents an entry's numbers exactly: the entry has the same dtype, or it has 16-bit
// floats and the dtype is f32 or f64.
bool is_representable(const WeightEntry& entry, DType dtype);
// Returns the part as an array of a dtype that represents it; a bool that is neither 0 nor 1 is an error.
HostArray array_of(const WeightEntry& entry, const WeightPart& part, DType dtype, const std::vector<std::byte>& bytes);
// Returns the part's bytes without conversion, in row-major order.
std::vector<std::byte> bytes_of(const WeightEntry& entry, const WeightPart& part, const std::vector<std::byte>& bytes);

}  // namespace karez::data
