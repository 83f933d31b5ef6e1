// Batches of labelled images, as sources from which each device reads its slice. A position determines the epoch and
// the batch within it, and these determine the rows.
#pragma once

#include <cstdint>
#include <memory>

#include "karez/data/idx.h"
#include "karez/data/namespace.h"
#include "karez/data/source.h"

namespace karez::data {

struct BatchOptions {
  std::int64_t batch = 64;
  bool train = true;  // true: each epoch is shuffled, and the last partial batch is dropped; false: rows are in order,
                      // and the last batch is padded with weight zero
  std::uint64_t seed = 1;         // of the shuffle
  float mean = 0, deviation = 1;  // images become (grey / 255 - mean) / deviation
};

// Three sources that agree on the order of rows. Position p is batch p mod per_epoch() of epoch p / per_epoch().
class Batches {
 public:
  Batches(LabelledImages rows, const BatchOptions& options);

  std::int64_t per_epoch() const;
  std::int64_t rows() const;                                        // in the data set
  std::shared_ptr<const Source> images() const { return images_; }  // f32 [batch, 1, h, w], normalised
  std::shared_ptr<const Source> labels() const { return labels_; }  // i32 [batch]
  std::shared_ptr<const Source> weights() const {
    return weights_;
  }  // f32 [batch]: 1 for a row of the data, 0 for padding

 private:
  struct Rows;  // the data and the epochs' orders, shared by the sources
  class Images;
  class Labels;
  class Weights;
  std::shared_ptr<Rows> rows_;
  std::shared_ptr<const Source> images_, labels_, weights_;
};

}  // namespace karez::data
