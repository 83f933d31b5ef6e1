// Reads IDX files of images and labels; an image is normalised when its element is read.
#include "karez/data/labelled_images.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "karez/data/idx.h"
#include "karez/data/stages/array_pool.h"
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

struct NormalisedImages {
  IdxArray images;
  std::array<float, 256> values = {};  // by grey level
  mutable ArrayPool pool{512};         // of the rows of a batch, which exist at the same time

  HostArray operator[](std::int64_t row) const {
    HostArray out = pool.allocate({DType::f32, {1, images.shape[1], images.shape[2]}});
    const std::uint8_t* from = images.bytes.data() + row * out.count();
    std::transform(from, from + out.count(), out.data<float>().begin(),
                   [&](std::uint8_t grey) { return values[grey]; });
    return out;
  }
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
  auto images = std::make_shared<NormalisedImages>();
  images->images = read_idx(image_path, 3);
  const IdxArray labels = read_idx(label_path, 1);
  const Shape& shape = images->images.shape;
  require(ErrorKind::data, shape[0] == labels.shape[0], image_path, " has ", shape[0], " images, but ", label_path,
          " has ", labels.shape[0], " labels");
  for (std::size_t grey = 0; grey < 256; ++grey)
    images->values[grey] = (static_cast<float>(grey) / 255.0f - options.mean) / options.deviation;
  const StructureRef pair = tuple_structure({leaf_structure(), leaf_structure()});
  auto make = [images, pair, rows = rows_of_labels(labels, options.classes, label_path)](std::int64_t row) {
    Element out;
    out.fields.reserve(2);
    out.fields.emplace_back((*images)[row]);
    out.fields.emplace_back(rows[row]);
    out.structure = pair;
    return out;
  };
  return from_function(shape[0], std::move(make),
                       cat("labelled images ", part, ", mean ", options.mean, ", deviation ", options.deviation));
}

}  // namespace karez::data
