// How elements become a batch: the number of rows, and what happens to the last ones of an epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "karez/data/dataset.h"
#include "karez/data/namespace.h"
#include "karez/data/stages/row_stack.h"

namespace karez::data {

const char* name_of(LastBatch last);

// A row of an earlier batch: batches without an element have its types.
class SampleRow {
 public:
  void set(const Element& row);  // only the first call has an effect
  std::optional<Element> get() const;

 private:
  mutable std::mutex mutex_;
  std::optional<Element> row_;
};

// Copies share the memory and the sample.
struct BatchRule {
  std::int64_t rows = 1;
  LastBatch last = LastBatch::keep;
  bool padded = false;
  std::vector<Shape> shapes = {};
  std::string stage;
  std::shared_ptr<ArrayPool> pool = std::make_shared<ArrayPool>();
  std::shared_ptr<SampleRow> sample = std::make_shared<SampleRow>();

  // The batch of these elements; if there are fewer than `rows`, it is the last one and must not be dropped. Skipped
  // elements are rows of zeros.
  Element make(std::span<const Element> elements) const;
  // The batch of `count` rows, of which `elements` are at these positions; the others are zeros of weight 0.
  Element make_sparse(std::span<const Element> elements, std::vector<std::int64_t> positions, std::int64_t count) const;
};

}  // namespace karez::data
