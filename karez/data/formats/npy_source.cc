// The rows of .npy files: by index, or as a stream if the files are compressed.
#include <algorithm>

#include "karez/base/error.h"
#include "karez/data/formats/npy_rows.h"
#include "karez/data/formats/record_reader.h"
#include "karez/data/open_file.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/file_list.h"

namespace karez::data {
namespace {

constexpr std::size_t max_open_files = 64;  // kept open; the others are opened for each row

class NpyNode : public DatasetNode {
 public:
  NpyNode(std::vector<std::string> paths, const FileOptions& options)
      : DatasetNode({}),
        paths_(std::move(paths)),
        convert_(options.convert),
        text_(cat("from_npy(", file_list_text(paths_))) {
    for (const std::string& path : paths_) {
      auto file = std::make_shared<const OpenFile>(path);
      std::int64_t at = 0;
      const std::int64_t size = file->size();
      const NpyRows rows = read_npy_rows(
          [&](std::span<std::uint8_t> bytes) {
            const auto part = bytes.first(static_cast<std::size_t>(std::min(std::ssize(bytes), size - at)));
            file->read_at(at, std::as_writable_bytes(part));
            at += std::ssize(part);
            return part.size();
          },
          path, options.max_record_bytes);
      const std::int64_t expected = checked_add(rows.begin, checked_mul(rows.count, rows.row.bytes()));
      require(ErrorKind::data, expected == size, path, ": ", rows.count, " rows of ", rows.row, " take ", expected,
              " bytes with the header, but the file has ", size);
      if (begins_.empty()) row_ = rows.row;
      require(ErrorKind::data, rows.row == row_, "from_npy: all files must have rows of one type, but those of ",
              paths_[0], " are ", row_, ", and those of ", path, " are ", rows.row);
      begins_.push_back(size_), offsets_.push_back(rows.begin);
      size_ = checked_add(size_, rows.count);
      if (files_.size() < max_open_files) files_.push_back(std::move(file));
    }
    text_ += cat(", ", size_, " rows of ", row_, ")");
  }
  std::string name() const override { return text_; }
  std::unique_ptr<StageBody> make_body() const override { return nullptr; }
  std::optional<std::int64_t> size() const override { return size_; }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    // The last file that begins at the index or before it; files without rows are before the one with the row.
    const auto next = std::upper_bound(begins_.begin(), begins_.end(), index);
    const auto number = static_cast<std::size_t>(next - begins_.begin()) - 1;
    HostArray array(row_);
    const std::int64_t byte = offsets_[number] + (index - begins_[number]) * row_.bytes();
    const std::span<std::byte> bytes(array.bytes(), static_cast<std::size_t>(row_.bytes()));
    if (number < files_.size()) files_[number]->read_at(byte, bytes);
    else OpenFile(paths_[number]).read_at(byte, bytes);
    Element out = element(std::move(array));
    if (convert_) out = convert_(std::move(out));
    out.epoch = epoch, out.index = index;
    return out;
  }

 private:
  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<const OpenFile>> files_;  // the first ones
  std::vector<std::int64_t> begins_, offsets_;          // of each file: its first row's index, and byte in the file
  TensorType row_;
  std::int64_t size_ = 0;
  std::function<Element(Element)> convert_;
  std::string text_;
};

// A stream of rows; the byte of its places is always 0, because a compressed file is read from its beginning anyway.
class NpyReader : public RecordReader {
 public:
  NpyReader(const std::string& path, RecordPlace place, const FileOptions& options)
      : stream_(open_unpacked(path, 0, options.open, {options.max_file_bytes})),
        rows_([this](std::span<std::uint8_t> bytes) { return bytes.empty() ? 0 : stream_->read(bytes); }, path,
              options.max_record_bytes),
        number_(place.number) {
    rows_.skip(number_);
  }
  std::optional<Element> next() override {
    std::optional<HostArray> row = rows_.next();
    if (!row) return std::nullopt;
    ++number_;
    return element(std::move(*row));
  }
  RecordPlace place() const override { return {number_, 0}; }
  bool can_continue() const override { return false; }

 private:
  std::unique_ptr<ByteStream> stream_;
  NpyRowReader rows_;
  std::int64_t number_;
};

}  // namespace

Dataset from_npy(std::vector<std::string> paths, const FileOptions& options) {
  if (!options.open) {
    paths = files_of("from_npy", paths);
    if (std::none_of(paths.begin(), paths.end(), is_compressed))
      return Dataset(std::make_shared<NpyNode>(std::move(paths), options));
  }
  return from_records(
      "from_npy", "", std::move(paths),
      [options](const std::string& path, RecordPlace place) {
        return std::make_unique<NpyReader>(path, place, options);
      },
      options);
}

}  // namespace karez::data
