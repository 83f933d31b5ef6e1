// The rows of the arrays in .npz files, which are zip archives. Each array is read by its own pass over the file.
#include <algorithm>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/data/formats/archive_reader.h"
#include "karez/data/formats/npy_rows.h"
#include "karez/data/formats/record_reader.h"

namespace karez::data {
namespace {

constexpr std::size_t max_arrays = 256;

class NpzReader : public RecordReader {
 public:
  NpzReader(const std::string& path, RecordPlace place, const FileOptions& options) : number_(place.number) {
    std::vector<std::string> names = array_names(path, options);
    require(ErrorKind::data, !names.empty(), path, ": the file contains no arrays");
    for (const std::string& name : names) {
      auto archive = open(path, options);
      do
        if (!archive->next()) fail(ErrorKind::data, path, ": the array ", quote(name), " is missing");
      while (archive->entry().path != name + ".npy");
      ArchiveReader& entries = *archive;
      arrays_.push_back(std::move(archive));
      rows_.emplace_back([&entries](std::span<std::uint8_t> bytes) { return bytes.empty() ? 0 : entries.read(bytes); },
                         cat(path, ": ", name, ".npy"), options.max_record_bytes);
      require(ErrorKind::data, rows_.back().rows().count == rows_[0].rows().count, path,
              ": all arrays must have the same number of rows, but ", names[0], " has ", rows_[0].rows().count,
              ", and ", name, " has ", rows_.back().rows().count);
      rows_.back().skip(number_);
    }
    structure_ = dict_structure(std::move(names));
  }
  std::optional<Element> next() override {
    Element out;
    for (NpyRowReader& rows : rows_) {
      std::optional<HostArray> row = rows.next();
      if (row) out.fields.emplace_back(std::move(*row));
    }
    if (out.fields.empty()) return std::nullopt;
    out.structure = structure_;
    ++number_;
    return out;
  }
  RecordPlace place() const override { return {number_, 0}; }
  bool can_continue() const override { return false; }

 private:
  static std::unique_ptr<ArchiveReader> open(const std::string& path, const FileOptions& options) {
    return std::make_unique<ArchiveReader>(open_unpacked(path, 0, options.open, {options.max_file_bytes}), path,
                                           ArchiveFormat::zip);
  }
  static std::vector<std::string> array_names(const std::string& path, const FileOptions& options) {
    const auto archive = open(path, options);
    std::vector<std::string> names;
    while (archive->next()) {
      std::string name = archive->entry().path;
      if (!name.ends_with(".npy") || archive->entry().kind != ArchiveEntry::Kind::file) continue;
      name.resize(name.size() - 4);
      if (std::find(names.begin(), names.end(), name) != names.end())
        fail(ErrorKind::data, path, ": the file contains two arrays with the name ", quote(name));
      require(ErrorKind::data, names.size() < max_arrays, path, ": the file contains more than ", max_arrays,
              " arrays");
      names.push_back(std::move(name));
    }
    return names;
  }

  std::int64_t number_;
  std::vector<std::unique_ptr<ArchiveReader>> arrays_;
  std::vector<NpyRowReader> rows_;
  StructureRef structure_;
};

}  // namespace

Dataset from_npz(std::vector<std::string> paths, const FileOptions& options) {
  return from_records(
      "from_npz", "", std::move(paths),
      [options](const std::string& path, RecordPlace place) {
        return std::make_unique<NpzReader>(path, place, options);
      },
      options);
}

}  // namespace karez::data
