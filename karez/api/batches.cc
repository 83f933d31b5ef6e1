// Implements Batches, a public wrapper of the corresponding class of the component `data`.
#include "karez/api/batches.h"

#include "karez/data/batch.h"
#include "karez/data/idx.h"

namespace karez {

LabelledImages read_labelled_images(const std::string& directory, std::string_view part, int classes) {
  auto [shape, images, labels] = data::read_labelled_images(directory, part, classes);
  return {std::move(shape), std::move(images), std::move(labels)};
}

Batches::Batches(LabelledImages rows, const BatchOptions& options) {
  const data::Batches batches({std::move(rows.shape), std::move(rows.images), std::move(rows.labels)},
                              {options.batch, options.train, options.seed, options.mean, options.deviation});
  per_epoch_ = batches.per_epoch();
  rows_ = batches.rows();
  images_ = batches.images();
  labels_ = batches.labels();
  weights_ = batches.weights();
}

}  // namespace karez
