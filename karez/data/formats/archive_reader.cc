// Reads archives through libarchive, without its filters: streams are unpacked before.
#include "karez/data/formats/archive_reader.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <utility>

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::data {

long ArchiveReader::read_block(archive*, void* self, const void** block) {
  auto& reader = *static_cast<ArchiveReader*>(self);
  *block = reader.block_.data();
  if (reader.first_ > 0) return static_cast<long>(std::exchange(reader.first_, 0));
  try {
    return static_cast<long>(reader.stream_->read(reader.block_));
  } catch (...) {  // an exception must not pass through a library in C
    reader.error_ = std::current_exception();
    return ARCHIVE_FATAL;
  }
}

std::int64_t ArchiveReader::skip_block(archive*, void* self, std::int64_t bytes) {
  auto& reader = *static_cast<ArchiveReader*>(self);
  try {
    return reader.first_ > 0 ? 0 : reader.stream_->skip(bytes);
  } catch (...) {
    reader.error_ = std::current_exception();
    return ARCHIVE_FATAL;
  }
}

ArchiveReader::ArchiveReader(std::unique_ptr<ByteStream> stream, std::string name, ArchiveFormat format,
                             std::int64_t offset)
    : stream_(std::move(stream)),
      name_(std::move(name)),
      offset_(offset),
      block_(1 << 16) {
  entry_.position = offset;
  first_ = stream_->read(block_);
  if (first_ == 0) return;
  archive_ = archive_read_new();
  require(ErrorKind::data, archive_ != nullptr, name_, ": libarchive failed to start: out of memory");
  try {
    // In the middle of a file the format is known. To detect it, libarchive requires more of the first header than of
    // others, so a stream that is resumed at such a header would end with an error.
    if (format == ArchiveFormat::tar && offset > 0) archive_read_set_format(archive_, ARCHIVE_FORMAT_TAR);
    else if (format == ArchiveFormat::tar) archive_read_support_format_tar(archive_);
    else archive_read_support_format_zip_streamable(archive_);
    archive_read_set_callback_data(archive_, this);
    archive_read_set_read_callback(archive_, read_block);
    archive_read_set_skip_callback(archive_, skip_block);
    check(archive_read_open1(archive_), "the archive cannot be read");
  } catch (...) {
    archive_read_free(archive_);
    throw;
  }
}

ArchiveReader::~ArchiveReader() {
  if (archive_) archive_read_free(archive_);
}

void ArchiveReader::check(long result, const char* action) {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (result >= ARCHIVE_WARN && result != ARCHIVE_RETRY) return;  // ARCHIVE_RETRY: a damaged header
  const char* reason = archive_error_string(archive_);
  fail(ErrorKind::data, name_, ": ", action, " at byte ", entry_.position, ": ", reason ? reason : "unknown reason");
}

bool ArchiveReader::next() {
  if (archive_ == nullptr) return false;
  // The rest of the current entry is skipped first, so that the position is that of the next header, also if it is
  // damaged.
  if (begun_) check(archive_read_data_skip(archive_), "the end of an entry cannot be read");
  begun_ = true;
  entry_.position = offset_ + archive_filter_bytes(archive_, -1);
  archive_entry* header = nullptr;
  const int result = archive_read_next_header(archive_, &header);
  if (result == ARCHIVE_EOF) {
    begun_ = false;
    return false;
  }
  check(result, "the header of an entry cannot be read");
  const char* path = archive_entry_pathname_utf8(header);
  if (path == nullptr) path = archive_entry_pathname(header);  // of a locale without UTF-8
  require(ErrorKind::data, path != nullptr, name_, ": the name of the entry at byte ", entry_.position,
          " is not UTF-8");
  entry_.path = path;
  entry_.size = archive_entry_size_is_set(header) ? archive_entry_size(header) : -1;
  const auto type = archive_entry_filetype(header);
  const bool is_link = type == AE_IFLNK || archive_entry_hardlink(header) != nullptr || archive_entry_symlink(header);
  using Kind = ArchiveEntry::Kind;
  entry_.kind = is_link ? Kind::link : type == AE_IFREG ? Kind::file : type == AE_IFDIR ? Kind::folder : Kind::other;
  return true;
}

std::size_t ArchiveReader::read(std::span<std::uint8_t> bytes) {
  const la_ssize_t count = archive_read_data(archive_, bytes.data(), bytes.size());
  if (count < 0 || error_) {
    // ARCHIVE_WARN is an error here: it stands for a wrong checksum.
    check(std::min<la_ssize_t>(count, ARCHIVE_FAILED),
          cat("the entry ", quote(entry_.path), " cannot be read").c_str());
  }
  return static_cast<std::size_t>(count);
}

}  // namespace karez::data
