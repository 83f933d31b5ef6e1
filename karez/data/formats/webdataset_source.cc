// WebDataset: tar files in which consecutive files with the same name before the first dot are one sample.
#include <algorithm>
#include <map>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/data/formats/archive_reader.h"
#include "karez/data/formats/record_reader.h"
#include "karez/data/formats/stream_buffer.h"
#include "karez/data/formats/text_lines.h"

namespace karez::data {
namespace {

// "a/b.seg.png" has the key "a/b" and the extension "seg.png"; both are empty for files that belong to no sample.
struct SampleName {
  std::string key, extension;
};
SampleName name_of(const std::string& path) {
  const std::size_t base = path.find_last_of('/') + 1;  // 0 without a slash
  const std::size_t dot = path.find('.', base);
  if (dot == path.npos || dot == base) return {};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

bool leaves_folder(const std::string& path) {
  if (path.starts_with('/')) return true;
  const std::vector<std::string> parts = split(path, '/');
  return std::find(parts.begin(), parts.end(), "..") != parts.end();
}

class WebdatasetReader : public RecordReader {
 public:
  WebdatasetReader(std::string path, RecordPlace place, const FileOptions& options)
      : path_(std::move(path)),
        max_bytes_(options.max_record_bytes),
        archive_(open_unpacked(path_, place.byte, options.open, {options.max_file_bytes}), path_, ArchiveFormat::tar,
                 place.byte),
        place_(place) {}

  std::optional<Element> next() override {
    if (error_) {
      ended_ = true;
      with_record([this] { std::rethrow_exception(std::exchange(error_, nullptr)); });
    }
    if (!begun_) {
      begun_ = ended_ = true;
      with_record([this] { read_header(); });
      ended_ = false;
    }
    if (at_end_) return std::nullopt;
    if (key_.empty()) fail_with_entry();
    fault_.clear();
    files_.clear(), bytes_ = 0;
    const std::string key = key_, place = place_text();
    while (!at_end_ && !error_ && key_ == key) {
      ended_ = true;  // an error while an entry is read ends the file
      with_record([this] { add_entry(); });
      ended_ = false;
      read_next_header();
    }
    next_place();
    require(ErrorKind::data, fault_.empty(), place, ": ", fault_);
    return sample(key);
  }
  RecordPlace place() const override { return place_; }
  bool can_continue() const override { return !ended_; }

 private:
  std::string place_text() const { return cat(path_, ": record ", place_.number, " at byte ", place_.byte); }

  // Adds the number of the record to errors of the archive, which begin with the path.
  template <class Body> void with_record(Body body) const {
    try {
      body();
    } catch (const Error& error) {
      const std::string_view message = error.what();
      if (error.kind != ErrorKind::data || !message.starts_with(path_ + ": ")) throw;
      fail(ErrorKind::data, path_, ": record ", place_.number, message.substr(path_.size()));
    }
  }
  // Moves on to the next entry that belongs to a sample or is an error of its own, which has an empty key.
  void read_header() {
    while (true) {
      at_end_ = !archive_.next();
      if (at_end_) return;
      const ArchiveEntry& entry = archive_.entry();
      check_utf8(entry.path, cat(path_, ": the name of the entry at byte ", entry.position), 0);
      if (entry.kind == ArchiveEntry::Kind::folder && !leaves_folder(entry.path)) continue;
      SampleName name = leaves_folder(entry.path) ? SampleName{} : name_of(entry.path);
      if (name.key.empty() && entry.kind == ArchiveEntry::Kind::file && !leaves_folder(entry.path)) continue;
      key_ = std::move(name.key), extension_ = std::move(name.extension);
      return;
    }
  }
  // The same; an error is thrown when the record after this one is read.
  void read_next_header() {
    try {
      read_header();
    } catch (...) { error_ = std::current_exception(); }
  }
  void next_place() { place_ = {place_.number + 1, archive_.position()}; }
  [[noreturn]] void fail_with_entry() {
    const std::string place = place_text(), fault = fault_of(archive_.entry());
    read_next_header();
    next_place();
    fail(ErrorKind::data, place, ": ", fault);
  }
  static std::string fault_of(const ArchiveEntry& entry) {
    if (leaves_folder(entry.path)) return cat("the entry ", quote(entry.path), " is outside of the archive's folder");
    if (entry.kind == ArchiveEntry::Kind::link)
      return cat("the entry ", quote(entry.path), " is a link, which is not followed");
    if (entry.kind != ArchiveEntry::Kind::file) return cat("the entry ", quote(entry.path), " is not a regular file");
    return "";
  }

  void add_entry() {
    const ArchiveEntry& entry = archive_.entry();
    std::string fault = fault_of(entry);
    if (fault.empty() && (entry.size < 0 || entry.size > max_bytes_ - bytes_)) {
      fault = cat("with the entry ", quote(entry.path), ", which has ", entry.size,
                  " bytes, the record has more than the limit of ", max_bytes_, " (max_record_bytes)");
    }
    if (fault.empty() && (files_.count(extension_) > 0 || extension_ == "__key__"))
      fault = cat("the record has two files with the extension ", quote(extension_));
    if (!fault.empty()) {
      if (fault_.empty()) fault_ = std::move(fault);
      return;
    }
    // The memory grows with the bytes that exist: the size in the header may be wrong.
    std::vector<std::uint8_t> bytes;
    const auto size = static_cast<std::size_t>(entry.size);
    for (std::size_t used = 0; used < size;) {
      bytes.resize(std::min(size, std::max<std::size_t>(2 * used, 1 << 16)));
      while (used < bytes.size()) {
        const std::size_t count = archive_.read(std::span(bytes).subspan(used));
        if (count <= 0)
          fail(ErrorKind::data, path_, ": the entry ", quote(entry.path), " ends after ", used, " bytes instead of ",
               size);
        used += count;
      }
    }
    // Reads up to the next header, so that a file that ends before it is an error of this record.
    std::uint8_t byte = 0;
    if (archive_.read({&byte, 1}) != 0)
      fail(ErrorKind::data, path_, ": the entry ", quote(entry.path), " has more than ", size, " bytes");
    bytes_ += entry.size;
    files_.emplace(extension_, bytes_array(bytes));
  }
  Element sample(const std::string& key) {
    std::vector<std::string> names = {"__key__"};
    Element out;
    out.fields.emplace_back(bytes_array({reinterpret_cast<const std::uint8_t*>(key.data()), key.size()}));
    for (auto& [extension, bytes] : files_) {
      names.push_back(extension);
      out.fields.emplace_back(std::move(bytes));
    }
    out.structure = dict_structure(std::move(names));
    return out;
  }

  std::string path_;
  std::int64_t max_bytes_;
  ArchiveReader archive_;
  RecordPlace place_;
  bool begun_ = false, at_end_ = false, ended_ = false;  // ended_: nothing can be read after an error
  std::exception_ptr error_;                             // of the header after the last record
  std::string key_, extension_, fault_;                  // key_: of the entry whose header was read last
  std::map<std::string, HostArray> files_;               // of the record, by extension
  std::int64_t bytes_ = 0;
};

}  // namespace

Dataset from_webdataset(std::vector<std::string> paths, const FileOptions& options) {
  return from_records(
      "from_webdataset", "", std::move(paths),
      [options](const std::string& path, RecordPlace place) {
        return std::make_unique<WebdatasetReader>(path, place, options);
      },
      options);
}

}  // namespace karez::data
