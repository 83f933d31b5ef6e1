// A source: a thing that can write any slice of its batch at a position into given memory. What a plan's input actors
// read from.
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
  // Writes the slice of batch `position` that begins at `begin` (one entry per dimension) and has `out`'s shape. Called
  // from worker threads, several at once; allocates nothing; throws Error on bad data.
  virtual void read(std::int64_t position, std::span<const std::int64_t> begin, const TensorRef& out) const = 0;
  // Where the bytes of such a slice lie already, with the view's strides, unchanged for as long as the source lives:
  // who reads them there needs no copy. Null: nowhere, they must be read.
  virtual const std::byte* find(std::int64_t position, std::span<const std::int64_t> begin, const View& view) const {
    (void)position, (void)begin, (void)view;
    return nullptr;
  }
};

// What an input is fed with: batch `position` of a source. If an input acts several times in a launch, later acts read
// later positions.
struct Feed {
  std::shared_ptr<const Source> source;
  std::int64_t position = 0;
};

}  // namespace karez::data
