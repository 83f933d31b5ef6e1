// Batches of labelled images from IDX files (the format of MNIST). Every device reads its own slice of a batch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "karez/api/names.h"

namespace karez {

// Images [n, h, w] and their labels [n].
struct LabelledImages {
  Shape shape;                       // [n, h, w]
  std::vector<std::uint8_t> images;  // n * h * w grey levels
  std::vector<std::uint8_t> labels;
  std::int64_t rows() const { return shape[0]; }
};

// Reads the files "<part>-images-idx3-ubyte" and "<part>-labels-idx1-ubyte" in a directory, each with or without ".gz";
// `part` is "train" or "t10k". Errors name the file and the defect, for example a label that is not below `classes`.
LabelledImages read_labelled_images(const std::string& directory, std::string_view part, int classes = 10);

// Options that determine how rows are grouped into batches.
struct BatchOptions {
  std::int64_t batch = 64;
  // If true, shuffle each epoch and drop the last partial batch; otherwise keep the order and pad the last batch with
  // rows of weight 0.
  bool train = true;
  std::uint64_t seed = 1;         // of the shuffle
  float mean = 0, deviation = 1;  // images become (grey / 255 - mean) / deviation
};

// Sources of images, labels and weights that deliver rows in the same order. Position p is batch p mod per_epoch() of
// epoch p / per_epoch().
class Batches {
 public:
  Batches(LabelledImages rows, const BatchOptions& options);

  std::int64_t per_epoch() const { return per_epoch_; }
  std::int64_t rows() const { return rows_; }                       // of the data set
  std::shared_ptr<const Source> images() const { return images_; }  // f32 [batch, 1, h, w], normalised
  std::shared_ptr<const Source> labels() const { return labels_; }  // i32 [batch]
  // f32 [batch]: 1 for a row of the data, 0 for padding.
  std::shared_ptr<const Source> weights() const { return weights_; }

 private:
  std::int64_t per_epoch_ = 0, rows_ = 0;
  std::shared_ptr<const Source> images_, labels_, weights_;
};

}  // namespace karez
