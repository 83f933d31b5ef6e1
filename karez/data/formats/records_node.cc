// The records of files as a stage: which file is read, positions, and records that are skipped.
#include <cstring>

#include "karez/base/error.h"
#include "karez/data/formats/record_reader.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/file_list.h"
#include "karez/data/stages/skip_counts.h"
#include "karez/data/stages/state_numbers.h"

namespace karez::data {
namespace {

struct RecordFiles {
  std::string name;  // "from_text"
  std::string text;  // with the files and options, for people
  std::vector<std::string> paths;
  RecordReaderFactory open;
  FileOptions options;
};
using RecordFilesRef = std::shared_ptr<const RecordFiles>;

// The numbers of a state: of the file; of the next record and its byte; of records emitted; of records skipped.
class RecordsBody : public StageBody {
 public:
  explicit RecordsBody(RecordFilesRef files) : files_(std::move(files)) {}

  void start(const RunStart& run, InputStarts&) override {
    reader_.reset();
    epoch_ = run.epoch, file_ = 0, emitted_ = 0, place_ = {}, skipped_ = {};
    if (!run.state) return;
    check_state(*run.state, 5, 0, files_->name);
    const std::vector<std::int64_t>& n = run.state->numbers;
    const bool valid = n[0] >= 0 && n[0] <= std::ssize(files_->paths) && n[1] >= 0 && n[2] >= 0 && n[3] >= 0 &&
                       n[4] >= 0 && (n[0] < std::ssize(files_->paths) || (n[1] == 0 && n[2] == 0));
    require(ErrorKind::data, valid, "the state of stage ", files_->name, " is damaged");
    file_ = static_cast<std::size_t>(n[0]), place_ = {n[1], n[2]}, emitted_ = n[3];
    if (n[4] > 0) skipped_ = {n[4], "unknown, because the stream was resumed after it"};
  }
  void stop() override { reader_.reset(); }
  int next_input() const override { return -1; }

  Emission act(Element*, Element& out, InputStarts&) override {
    if (file_ == files_->paths.size()) {
      if (skipped_.count > 0) count_skipped(files_->name, std::exchange(skipped_, {}), files_->options.report);
      return Emission::last;
    }
    try {
      if (!reader_) reader_ = files_->open(files_->paths[file_], place_);
      std::optional<Element> next = reader_->next();
      if (!next) {
        next_file();
        return Emission::nothing;
      }
      out = files_->options.convert ? files_->options.convert(std::move(*next)) : std::move(*next);
    } catch (const Error& error) {
      if (files_->options.on_error == OnError::raise || error.kind != ErrorKind::data) throw;
      if (skipped_.count++ == 0) skipped_.first_error = error.what();
      if (!reader_ || !reader_->can_continue()) next_file();
      return Emission::nothing;
    }
    check_element(out, files_->name);
    out.epoch = epoch_, out.index = emitted_ + skipped_.count;
    ++emitted_;
    const RecordPlace place = reader_->place();
    out.state = stream_state({static_cast<std::int64_t>(file_), place.number, place.byte, emitted_, skipped_.count});
    return Emission::element;
  }

 private:
  void next_file() {
    reader_.reset();
    ++file_, place_ = {};
  }
  RecordFilesRef files_;
  std::unique_ptr<RecordReader> reader_;  // of the file `file_`; null before its first record
  std::size_t file_ = 0;
  RecordPlace place_;  // where the reader starts
  std::int64_t epoch_ = 0, emitted_ = 0;
  SkippedRecords skipped_;
};

class RecordsNode : public DatasetNode {
 public:
  explicit RecordsNode(RecordFilesRef files) : DatasetNode({}), files_(std::move(files)) {}
  std::string name() const override { return files_->text; }
  std::unique_ptr<StageBody> make_body() const override { return std::make_unique<RecordsBody>(files_); }

 private:
  RecordFilesRef files_;
};

}  // namespace

Dataset from_records(std::string name, std::string details, std::vector<std::string> paths, RecordReaderFactory open,
                     FileOptions options) {
  require(options.max_record_bytes >= 1, name, ": max_record_bytes must be at least 1, got ", options.max_record_bytes);
  require(options.max_file_bytes >= 0, name, ": max_file_bytes must be at least 0, got ", options.max_file_bytes);
  if (!options.open) paths = files_of(name, paths);
  require(!paths.empty(), name, ": at least one path or pattern is needed");
  auto files = std::make_shared<RecordFiles>();
  files->text = cat(name, "(", file_list_text(paths), details.empty() ? "" : ", ", details,
                    options.on_error == OnError::skip ? ", on_error=skip)" : ")");
  files->name = std::move(name), files->paths = std::move(paths), files->open = std::move(open);
  files->options = std::move(options);
  return Dataset(std::make_shared<RecordsNode>(std::move(files)));
}

HostArray bytes_array(std::span<const std::uint8_t> bytes) {
  const std::size_t count = bytes.size();
  std::shared_ptr<std::byte[]> memory(new std::byte[count == 0 ? 1 : count]);
  if (count > 0) std::memcpy(memory.get(), bytes.data(), count);
  return HostArray(TensorType{DType::u8, {static_cast<std::int64_t>(count)}}, std::move(memory));
}

StructureRef dict_structure(std::vector<std::string> keys) {
  auto structure = std::make_shared<Structure>();
  structure->kind = Structure::Kind::dict;
  structure->children.assign(keys.size(), leaf_structure());
  structure->keys = std::move(keys);
  return structure;
}

Dataset list_files(std::vector<std::string> paths) {
  return from_files(std::move(paths), [](const std::string& path) {
    return element(bytes_array({reinterpret_cast<const std::uint8_t*>(path.data()), path.size()}));
  });
}

std::string path_of(const Element& element) {
  const HostArray& array = array_of(element);
  if (array.dtype() != DType::u8 || array.view().rank() != 1)
    fail(ErrorKind::type, "path_of: expected the path of a file, u8[n], got ", print(array.type()));
  return {reinterpret_cast<const char*>(array.bytes()), static_cast<std::size_t>(array.count())};
}

}  // namespace karez::data
