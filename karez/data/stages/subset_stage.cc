// A selection of elements by their indices.
#include <memory>
#include <span>
#include <utility>

#include "karez/base/hash.h"
#include "karez/base/hex.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/dataset_node.h"

namespace karez::data {
namespace {

class SubsetNode : public DatasetNode {
 public:
  SubsetNode(DatasetNodeRef input, std::vector<std::int64_t> indices)
      : DatasetNode({std::move(input)}),
        indices_(std::move(indices)) {
    const std::optional<std::int64_t> size = inputs()[0]->size();
    require(size.has_value(),
            "subset: the elements of the data set cannot be read by index, or their number is not known");
    Hash hash;
    for (std::int64_t index : indices_) {
      require(index >= 0 && index < *size, "subset: index ", index, " does not exist: the data set has ", *size,
              " elements");
      hash.add(index);
    }
    const std::uint64_t value = hash.value();
    name_ =
        cat("subset(", indices_.size(), " elements with hash ", base::hex_of(std::as_bytes(std::span(&value, 1))), ")");
  }
  std::string name() const override { return name_; }
  std::unique_ptr<StageBody> make_body() const override { return nullptr; }  // it is read by index
  bool permutes() const override { return true; }
  std::optional<std::int64_t> size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    return inputs()[0]->at(epoch, indices_[static_cast<std::size_t>(index)]);
  }

 private:
  std::vector<std::int64_t> indices_;
  std::string name_;
};

}  // namespace

Dataset Dataset::subset(std::vector<std::int64_t> indices) const {
  return Dataset(std::make_shared<SubsetNode>(node_, std::move(indices)));
}

}  // namespace karez::data
