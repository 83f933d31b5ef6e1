// A file of weights that is open for reading, or several behind an index; and what an entry's bytes are as an array.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/safetensors.h"
#include "karez/device/host_array.h"

namespace karez::data {

// Which part of an entry is meant, and how its dimensions lie.
struct WeightPart {
  bool transposed = false;            // its two dimensions change places, after the part was taken
  int part = 0, parts = 1, axis = 0;  // of `parts` equal ones along an axis of the entry, this one
  bool operator==(const WeightPart&) const = default;
};

// Keeps the files open: one that is replaced by another of its name meanwhile is still the old one here.
class WeightFiles {
 public:
  // A .safetensors file, or an index (*.index.json) with its files beside it, which hold what it says and no more.
  explicit WeightFiles(const std::string& path);
  ~WeightFiles();
  WeightFiles(const WeightFiles&) = delete;
  WeightFiles& operator=(const WeightFiles&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<WeightEntry>& entries() const { return entries_; }  // by name
  const WeightNotes& notes() const { return notes_; }
  // All its bytes; a file that has become shorter is an error, and so are bytes that do not fit their checksum.
  std::vector<std::byte> read(const WeightEntry& entry) const;
  void check_bytes() const;  // reads all tensors that have checksums, for the same errors

 private:
  struct File {
    std::string path;
    int descriptor = -1;
    std::int64_t data = 0;  // where the bytes behind the header begin
  };
  void open(const std::string& path);
  std::string path_;
  std::vector<File> files_;
  std::vector<WeightEntry> entries_;
  WeightNotes notes_;
};

// The shape of a part; one that the entry does not have is an error.
Shape shape_of(const WeightEntry& entry, const WeightPart& part);
// Whether an entry's numbers are numbers of the dtype: of the same, or of 16 bits, which f32 and f64 hold exactly.
bool is_representable(const WeightEntry& entry, DType dtype);
// The part as an array of a dtype that holds it; a bool that is neither 0 nor 1 is an error.
HostArray array_of(const WeightEntry& entry, const WeightPart& part, DType dtype, const std::vector<std::byte>& bytes);
// The part's bytes as they are, row-major.
std::vector<std::byte> bytes_of(const WeightEntry& entry, const WeightPart& part, const std::vector<std::byte>& bytes);

}  // namespace karez::data
