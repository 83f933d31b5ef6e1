// A data source copies any slice of the batch at a position into the caller's memory. Input actors of a plan read from
// sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "karez/data/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::data {

class Source {
 public:
  virtual ~Source() = default;
  // The logical type of one batch, the same at every position.
  virtual TensorType type() const = 0;
  // Writes the slice of batch `position` that begins at `begin` (one entry per dimension) and has `out`'s shape.
  // Several worker threads may call it at the same time. Must not allocate memory. Throws Error if the data is invalid.
  virtual void read(std::int64_t position, std::span<const std::int64_t> begin, const TensorRef& out) const = 0;
  // Whether `read` may wait for other threads.
  virtual bool may_block() const { return true; }
  // Returns the address of this slice if the source keeps it in memory with the strides of `view`, unchanged for the
  // lifetime of the source; readers then use it without a copy. Returns null if the slice must be read.
  virtual const std::byte* find(std::int64_t position, std::span<const std::int64_t> begin, const View& view) const {
    (void)position, (void)begin, (void)view;
    return nullptr;
  }
};

// Feeds an input with batch `position` of a source. If the input actor runs several times in one launch, its later acts
// read the batches at the following positions.
struct Feed {
  std::shared_ptr<const Source> source;
  std::int64_t position = 0;
};

}  // namespace karez::data
