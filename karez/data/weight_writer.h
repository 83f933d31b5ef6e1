// Writes a safetensors file atomically: the path has either all old bytes or all new bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/safetensors.h"
#include "karez/data/temporary_file.h"

namespace karez::data {

// Writes to a temporary file (temporary_file.h), with a checksum of each tensor and of the header; `commit` gives it
// its name. A writer that is destroyed before `commit` removes its temporary file. Throws data errors that contain the
// file and the reason, such as a missing folder or a full disk.
class WeightWriter {
 public:
  WeightWriter(std::string path, std::vector<WeightEntry> entries,
               const WeightNotes& notes);  // uses name, dtype and shape of the entries

  void write(std::span<const std::byte> bytes);  // all bytes of the next entry
  void commit();

 private:
  void put(std::span<const std::byte> bytes);
  std::string path_;
  std::vector<WeightEntry> entries_;
  WeightNotes notes_;
  std::size_t next_ = 0;
  std::optional<TemporaryFile> file_;  // none after `commit`
  std::int64_t position_ = 0;
};

}  // namespace karez::data
