// For tests: files in memory, which are read in pieces, and the elements of a data set as text.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "karez/data/formats.h"
#include "karez/data/namespace.h"

namespace karez::data {

// Opens the files of this map; each read returns at most `piece` bytes.
FileOpener memory_files(std::map<std::string, std::string> files, std::size_t piece = 1 << 20);

// An element as text: bytes in quotes, and other arrays as "f32[2](1 2)".
std::string print_element(const Element& element);

struct ReadRecords {
  std::vector<std::string> records;  // print_element of each
  std::string error;                 // "" if the stream ended
};
// Reads an epoch, and again from the position after each record: the rest must be the same. same_error: also its error;
// otherwise only whether there is one.
ReadRecords read_records(const Dataset& dataset, bool same_error = true);

// Number in little-endian order.
template <class T> std::string little_endian(T number) {
  std::string out;
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(number >> (8 * i));
  return out;
}
// A TFRecord file, written without the code of the reader.
std::string tfrecord_file(const std::vector<std::string>& records);
std::uint32_t bitwise_crc32c(std::string_view bytes);

}  // namespace karez::data
