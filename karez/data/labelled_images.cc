// Reads IDX files of images and labels; an image is normalised when its element or its batch is read.
#include "karez/data/labelled_images.h"

#include <cmath>
#include <filesystem>

#include "karez/data/highway_bytes.h"
#include "karez/data/idx.h"
#include "karez/data/stages/array_pool.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/row_stack.h"

namespace karez::data {
namespace {
namespace fs = std::filesystem;

// Returns the path of the file with this name, or with ".gz" appended.
std::string find_file(const std::string& directory, const std::string& name) {
  for (const auto& candidate : {name, name + ".gz"})
    if (auto path = fs::path(directory) / candidate; fs::is_regular_file(path)) return path.string();
  fail(ErrorKind::data, "data directory '", directory, "' has no file ", name, ", neither plain nor with .gz");
}

// Returns the rows of the labels, as i32 scalars.
Rows rows_of_labels(const IdxArray& labels, int classes, const std::string& path) {
  HostArray out(TensorType{DType::i32, labels.shape});
  for (std::size_t row = 0; row < labels.bytes.size(); ++row) {
    require(ErrorKind::data, labels.bytes[row] < classes, path, ": label ", static_cast<int>(labels.bytes[row]),
            " of row ", row, " is not in 0..", classes - 1);
    out.data<std::int32_t>()[row] = labels.bytes[row];
  }
  return Rows(std::move(out));
}

class LabelledImagesNode : public DatasetNode {
 public:
  LabelledImagesNode(IdxArray images, Rows labels, const LabelledImageOptions& options, std::string name)
      : DatasetNode({}),
        images_(std::move(images)),
        labels_(std::move(labels)),
        name_(std::move(name)),
        normalisation_(options.mean, options.deviation) {}
  std::string name() const override { return name_; }
  std::unique_ptr<StageBody> make_body() const override { return nullptr; }
  std::optional<std::int64_t> size() const override { return images_.shape[0]; }
  Element at(std::int64_t epoch, std::int64_t index) const override {
    HostArray image = pool_.allocate({DType::f32, {1, height(), width()}});
    normalise(index, image.data<float>().data());
    return pair(std::move(image), labels_[index], epoch, index);
  }
  bool stacks() const override { return true; }
  Element stacked(std::span<EpochIndex> places, ArrayPool& pool) const override {
    const auto rows = static_cast<std::int64_t>(places.size());
    HostArray batch = pool.allocate({DType::f32, {rows, 1, height(), width()}});
    float* to = batch.data<float>().data();
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (i + 1 < places.size()) prefetch(places[i + 1].index);  // shuffled images are not in a cache
      normalise(places[i].index, to);
      to += height() * width();
    }
    HostArray labels = pool.allocate({DType::i32, {rows}});
    labels_.copy(places, labels.bytes());
    return pair(std::move(batch), std::move(labels), places[0].epoch, places[0].index);
  }

 private:
  std::int64_t height() const { return images_.shape[1]; }
  std::int64_t width() const { return images_.shape[2]; }
  const std::uint8_t* image(std::int64_t index) const { return images_.bytes.data() + index * height() * width(); }
  void prefetch(std::int64_t index) const {
    for (std::int64_t at = 0; at < height() * width(); at += 64) __builtin_prefetch(image(index) + at);
  }
  void normalise(std::int64_t index, float* to) const {
    normalisation_.apply(std::span(image(index), static_cast<std::size_t>(height() * width())), to);
  }
  Element pair(HostArray image, HostArray label, std::int64_t epoch, std::int64_t index) const {
    Element out;
    out.fields.reserve(2);
    out.fields.emplace_back(std::move(image));
    out.fields.emplace_back(std::move(label));
    out.structure = structure_;
    out.epoch = epoch, out.index = index;
    return out;
  }

  const IdxArray images_;
  const Rows labels_;
  const std::string name_;
  const StructureRef structure_ = tuple_structure({leaf_structure(), leaf_structure()});
  const ByteNormalisation normalisation_;
  mutable ArrayPool pool_{512};  // of the images of elements, many of which exist at the same time
};

}  // namespace

Dataset from_labelled_images(const std::string& directory, std::string_view part, const LabelledImageOptions& options) {
  require(options.classes >= 1, "from_labelled_images: classes must be at least 1, got ", options.classes);
  require(std::isfinite(options.mean), "from_labelled_images: mean must be finite, got ", options.mean);
  require(std::isfinite(options.deviation) && options.deviation > 0,
          "from_labelled_images: deviation must be finite and positive, got ", options.deviation);
  require(ErrorKind::data, fs::is_directory(directory), "data directory '", directory, "' does not exist");
  const std::string image_path = find_file(directory, cat(part, "-images-idx3-ubyte")),
                    label_path = find_file(directory, cat(part, "-labels-idx1-ubyte"));
  IdxArray images = read_idx(image_path, 3);
  const IdxArray labels = read_idx(label_path, 1);
  const Shape& shape = images.shape;
  require(ErrorKind::data, shape[0] == labels.shape[0], image_path, " has ", shape[0], " images, but ", label_path,
          " has ", labels.shape[0], " labels");
  return Dataset(std::make_shared<LabelledImagesNode>(std::move(images),
                                                      rows_of_labels(labels, options.classes, label_path), options,
                                                      cat("from_labelled_images(", part, ", mean ", options.mean,
                                                          ", deviation ", options.deviation, ", ", shape[0], ")")));
}

}  // namespace karez::data
