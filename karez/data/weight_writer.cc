// Writes the tensors and their checksums to a temporary file, which gets its name when it is complete.
#include "karez/data/weight_writer.h"

#include <utility>

#include "karez/base/text.h"
#include "karez/base/xxhash.h"

namespace karez::data {

WeightWriter::WeightWriter(std::string path, std::vector<WeightEntry> entries, const WeightNotes& notes)
    : path_(std::move(path)),
      entries_(std::move(entries)),
      notes_(notes) {
  const std::string header = print_checked_header(entries_, notes_);
  file_.emplace(path_);
  put(std::as_bytes(std::span(header)));
}

void WeightWriter::put(std::span<const std::byte> bytes) {
  file_->file()->write_at(position_, bytes);
  position_ += static_cast<std::int64_t>(bytes.size());
}

void WeightWriter::write(std::span<const std::byte> bytes) {
  require(next_ < entries_.size(), path_, ": more tensors were written than the header lists");
  WeightEntry& entry = entries_[next_++];
  if (static_cast<std::int64_t>(bytes.size()) != entry.end - entry.begin)
    fail(path_, ": tensor ", quote(entry.name), " takes ", entry.end - entry.begin, " bytes, but ", bytes.size(),
         " were given");
  entry.checksum = hash_bytes(bytes);
  put(bytes);
}

void WeightWriter::commit() {
  require(next_ == entries_.size(), path_, ": only ", next_, " of ", entries_.size(), " tensors were written");
  const std::string header =
      print_checked_header(entries_, notes_);  // has the same length as before, now with all checksums
  file_->file()->write_at(0, std::as_bytes(std::span(header)));
  file_->commit();
  file_.reset();
}

}  // namespace karez::data
