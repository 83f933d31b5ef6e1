// Writing a safetensors file so that its name stands for the old bytes or for all of the new ones, never for a part of
// them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/safetensors.h"

namespace karez::data {

// Writes beside the path, under a name of its own (PATH.writing-PROCESS-NUMBER), with a checksum of each tensor and of
// the header; `commit` syncs the bytes, gives them the name and syncs the folder. Dropped before that, it leaves
// nothing; what writers of this path have left that were killed goes when the next one begins: a writer holds a lock on
// its file (flock) as long as it lives. Errors are of data and say the file and why: no such folder, no room.
class WeightWriter {
 public:
  WeightWriter(std::string path, std::vector<WeightEntry> entries,
               const WeightNotes& notes);  // of an entry: name, dtype, shape
  ~WeightWriter();
  WeightWriter(const WeightWriter&) = delete;
  WeightWriter& operator=(const WeightWriter&) = delete;

  void write(std::span<const std::byte> bytes);  // of the next entry, all of it
  void commit();

 private:
  void open_temporary();
  void put(std::span<const std::byte> bytes);
  [[noreturn]] void fail_with_errno(const std::string& path) const;
  std::string path_, temporary_path_;
  std::vector<WeightEntry> entries_;
  WeightNotes notes_;
  std::size_t next_ = 0;
  int descriptor_ = -1;
};

}  // namespace karez::data
