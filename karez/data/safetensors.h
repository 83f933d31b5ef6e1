// The safetensors format, version 1: eight bytes that give the length of a JSON header, the header, and the tensors'
// bytes without gaps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::data {

// A tensor of a file.
struct WeightEntry {
  std::string name, dtype;                     // dtype by its name in the format: "F32", "BF16", "BOOL"
  Shape shape;                                 // row-major
  std::int64_t begin = 0, end = 0;             // range of its bytes, from the first byte after the header
  int file = 0;                                // index of its file
  std::optional<std::uint64_t> checksum = {};  // XXH3 (64 bits) of its bytes, if the file contains it
  bool operator==(const WeightEntry&) const = default;
};
using WeightNotes = std::map<std::string, std::string>;  // "__metadata__": text by name

struct WeightHeader {
  std::vector<WeightEntry> entries;  // in the order of their bytes
  WeightNotes notes;
};

inline constexpr std::int64_t longest_weight_header = 100'000'000;  // bytes; the limit of the format's own library

std::int64_t item_bytes(std::string_view dtype);  // bytes of one element; 0 for an unknown dtype
std::string_view weight_dtype(DType dtype);       // its name in the format

// Returns the length of the header, given the file's first eight bytes (or all its bytes, if there are fewer).
std::int64_t weight_header_bytes(std::string_view prefix, std::int64_t file_bytes, std::string_view file);
// Parses the header's text. If it has checksums (see print_checked_header), the checksum of the header is verified,
// those of the tensors are stored in the entries, and `notes` leaves them out. Throws data errors that contain the
// file, the tensor and the fault: invalid JSON, a duplicate name, an unknown dtype or key, a size below 0, offsets that
// do not match shape and dtype, exceed the file, overlap or leave a gap, or a wrong checksum.
WeightHeader parse_weight_header(std::string_view text, std::int64_t file_bytes, std::string_view file);
// Returns the eight bytes and the header, padded so that the tensors are aligned; sets every entry's begin and end.
std::string print_weight_header(std::vector<WeightEntry>& entries, const WeightNotes& notes);
// Returns such a header with two more notes. "karez.checksums" has the XXH3 (64 bits) of each tensor's bytes in 16
// hexadecimal digits, in the order of the tensors' offsets (0 if `checksum` is not set yet; the header has the same
// length). "karez.header" has the checksum of the eight bytes and the header, with its own digits set to 0.
std::string print_checked_header(std::vector<WeightEntry>& entries, const WeightNotes& notes);

// Parses the index of a model in several files and returns the file of each tensor, by name. All files are in the
// folder of the index: a name that could refer to another folder is an error.
std::map<std::string, std::string> parse_weight_index(std::string_view text, std::string_view file);

}  // namespace karez::data
