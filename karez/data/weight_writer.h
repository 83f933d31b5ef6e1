// Writes a safetensors file atomically: the path has either all old bytes or all new bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/safetensors.h"

namespace karez::data {

// Writes to a temporary file in the same folder (PATH.writing-PROCESS-NUMBER), with a checksum of each tensor and of
// the header; `commit` syncs the bytes, renames the file to the path and syncs the folder. A writer that is destroyed
// before `commit` removes its temporary file. Files of killed writers of this path are removed when the next writer
// begins: a writer locks its file (flock) as long as it lives. Throws data errors that contain the file and the reason,
// such as a missing folder or a full disk.
class WeightWriter {
 public:
  WeightWriter(std::string path, std::vector<WeightEntry> entries,
               const WeightNotes& notes);  // uses name, dtype and shape of the entries
  ~WeightWriter();
  WeightWriter(const WeightWriter&) = delete;
  WeightWriter& operator=(const WeightWriter&) = delete;

  void write(std::span<const std::byte> bytes);  // all bytes of the next entry
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
