// The safetensors format, version 1: eight bytes with the length of a JSON header, the header, the tensors' bytes
// without gaps.
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
  std::string name, dtype;                     // dtype as the format calls it: "F32", "BF16", "BOOL"
  Shape shape;                                 // row-major
  std::int64_t begin = 0, end = 0;             // its bytes, counted from the first byte behind the header
  int file = 0;                                // which of several
  std::optional<std::uint64_t> checksum = {};  // XXH3 (64 bits) of its bytes, where the file says it
  bool operator==(const WeightEntry&) const = default;
};
using WeightNotes = std::map<std::string, std::string>;  // "__metadata__": text by name

struct WeightHeader {
  std::vector<WeightEntry> entries;  // as their bytes follow one another
  WeightNotes notes;
};

inline constexpr std::int64_t longest_weight_header = 100'000'000;  // bytes; as the format's own library has it

std::int64_t item_bytes(std::string_view dtype);  // of the format's dtypes; 0: none of them
std::string_view weight_dtype(DType dtype);       // what the format calls it

// How long the header is, by a file's first eight bytes (or all it has, if fewer).
std::int64_t weight_header_bytes(std::string_view first, std::int64_t file_bytes, std::string_view file);
// The header's text. Where it has checksums (see print_checked_header) the header's own is compared, and entries get
// theirs; `notes` are without them. Errors are of data and say the file, the tensor and what is wrong: no JSON, a name
// twice, an unknown dtype or key, a size below 0, offsets that do not hold what shape and dtype take, that leave the
// file, overlap or leave a gap, another checksum.
WeightHeader parse_weight_header(std::string_view text, std::int64_t file_bytes, std::string_view file);
// Eight bytes and the header, padded so that what follows is aligned; sets every entry's begin and end.
std::string print_weight_header(std::vector<WeightEntry>& entries, const WeightNotes& notes);
// The same with two notes more: "karez.checksums", the XXH3 (64 bits) of each tensor's bytes in 16 hexadecimal digits,
// in the order of their places (0 where `checksum` is not there yet, and the header is as long), and "karez.header",
// that of the eight bytes and the header, its own digits taken as 0.
std::string print_checked_header(std::vector<WeightEntry>& entries, const WeightNotes& notes);

// The index of a model in several files: which tensor is in which of them, by name. A file is one beside the index: a
// name that could lead elsewhere is an error.
std::map<std::string, std::string> parse_weight_index(std::string_view text, std::string_view file);

}  // namespace karez::data
