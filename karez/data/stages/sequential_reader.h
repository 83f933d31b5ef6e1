// Reads a data set in the calling thread, one element after the other.
#pragma once

#include <optional>

#include "karez/data/dataset.h"
#include "karez/data/namespace.h"
#include "karez/data/stages/segment.h"

namespace karez::data {

class SequentialReader {
 public:
  explicit SequentialReader(const Dataset& dataset);
  void start(const RunStart& run = {}) { segment_.start(run); }
  std::optional<Element> next();  // nothing at the end of the run
  std::int64_t held_bytes() const { return segment_.held_bytes(); }
  // The same; emits nothing if `cancelled` becomes true.
  Emission act(Element& out, const std::atomic<bool>& cancelled) { return segment_.act(nullptr, out, cancelled); }

 private:
  Segment segment_;
};

}  // namespace karez::data
