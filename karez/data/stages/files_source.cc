// The elements that a function makes from files.
#include "karez/data/dataset.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/file_list.h"

namespace karez::data {
namespace {

using Paths = std::vector<std::string>;

class FilesNode : public DatasetNode {
 public:
  FilesNode(Paths paths, std::function<Element(const std::string&)> read)
      : DatasetNode({}),
        paths_(std::move(paths)),
        read_(std::move(read)) {
    name_ = cat("from_files(", file_list_text(paths_), ")");
  }
  std::string name() const override { return name_; }
  std::unique_ptr<StageBody> make_body() const override { return nullptr; }
  std::optional<std::int64_t> size() const override { return static_cast<std::int64_t>(paths_.size()); }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    Element out = read_(paths_[static_cast<std::size_t>(index)]);
    check_element(out, "from_files");
    out.epoch = epoch, out.index = index;
    return out;
  }

 private:
  Paths paths_;
  std::function<Element(const std::string&)> read_;
  std::string name_;
};

}  // namespace

Dataset from_files(std::vector<std::string> patterns, std::function<Element(const std::string& path)> read) {
  require(read != nullptr, "from_files: the function must not be null");
  return Dataset(std::make_shared<FilesNode>(files_of("from_files", patterns), std::move(read)));
}

}  // namespace karez::data
