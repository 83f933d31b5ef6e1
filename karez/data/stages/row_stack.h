// Stacks elements to a batch, and takes the rows of arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/data/stages/array_pool.h"
#include "karez/data/stages/element.h"

namespace karez::data {

struct EpochIndex;

// The rows of an array along its first dimension. A row shares the array's bytes.
class Rows {
 public:
  explicit Rows(HostArray array);
  HostArray operator[](std::int64_t index) const;
  void copy(std::span<const EpochIndex> places, std::byte* to) const;  // the rows at these indices, one after another
  std::int64_t count() const { return array_->shape()[0]; }
  const HostArray& array() const { return *array_; }

 private:
  std::shared_ptr<const HostArray> array_;  // rows own it, so that a row needs no copy of it
  TensorType row_;
  std::int64_t bytes_ = 0;  // of a row
};

struct StackOptions {
  std::int64_t rows = 0;           // of the batch; rows that `elements` lacks are zeros
  bool weights = false;            // append a field f32[rows]: 1 for an element, 0 for a row of zeros
  bool padded = false;             // arrays of a field may differ in size
  std::vector<Shape> shapes = {};  // padded: by field, the shape of a row; -1: the largest size
  // The row of each element, -1 if the element only gives types. Empty: the first rows, in order.
  std::vector<std::int64_t> positions = {};
};

// One element with the epoch, index and structure of the first one and the state of the last one, in arrays of the
// pool. `stage` is for errors.
Element stack(std::span<const Element> elements, const StackOptions& options, ArrayPool& pool, std::string_view stage);

}  // namespace karez::data
