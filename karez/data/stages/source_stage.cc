// Reads the arrays of a source.
#include "karez/data/dataset.h"
#include "karez/data/source.h"
#include "karez/data/stages/array_pool.h"
#include "karez/data/stages/dataset_node.h"

namespace karez::data {
namespace {

class SourceNode : public DatasetNode {
 public:
  SourceNode(std::shared_ptr<const Source> source, std::int64_t size)
      : DatasetNode({}),
        source_(std::move(source)),
        size_(size) {
    require(source_ != nullptr, "from_source: the source must not be null");
    require(size >= 0, "from_source: the number of elements must be at least 0, got ", size);
  }
  std::string name() const override { return cat("from_source(", size_, " of ", print(source_->type()), ")"); }
  std::unique_ptr<StageBody> make_body() const override { return nullptr; }
  std::optional<std::int64_t> size() const override { return size_; }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    const TensorType type = source_->type();
    const std::vector<std::int64_t> begin(type.shape.size(), 0);
    Element out;
    const View view(type);
    if (const std::byte* bytes = source_->find(index, begin, view)) {
      // The source keeps the array, which must not be written.
      out = element(HostArray(type, std::shared_ptr<std::byte[]>(source_, const_cast<std::byte*>(bytes))));
    } else {
      HostArray array = pool_.allocate(type);
      source_->read(index, begin, array.ref());
      out = element(std::move(array));
    }
    out.epoch = epoch, out.index = index;
    return out;
  }

 private:
  const std::shared_ptr<const Source> source_;
  const std::int64_t size_;
  mutable ArrayPool pool_;
};

}  // namespace

Dataset from_source(std::shared_ptr<const Source> source, std::int64_t size) {
  return Dataset(std::make_shared<SourceNode>(std::move(source), size));
}

}  // namespace karez::data
