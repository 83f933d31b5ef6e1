// Batches of labelled images: wraps the data component's under public names.
#include "karez/api/batches.h"

#include "karez/data/batch.h"
#include "karez/data/idx.h"

namespace karez {

LabelledImages read_labelled_images(const std::string& directory, std::string_view part, int classes) {
  auto [shape, images, labels] = data::read_labelled_images(directory, part, classes);
  return {std::move(shape), std::move(images), std::move(labels)};
}

Batches::Batches(LabelledImages rows, const BatchOptions& options) {
  const data::Batches made({std::move(rows.shape), std::move(rows.images), std::move(rows.labels)},
                           {options.batch, options.train, options.seed, options.mean, options.deviation});
  per_epoch_ = made.per_epoch();
  rows_ = made.rows();
  images_ = made.images();
  labels_ = made.labels();
  weights_ = made.weights();
}

}  // namespace karez
