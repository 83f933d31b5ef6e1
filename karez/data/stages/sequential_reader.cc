// Reads a data set in the calling thread.
#include "karez/data/stages/sequential_reader.h"

#include "karez/data/stages/stage_tree.h"

namespace karez::data {

SequentialReader::SequentialReader(const Dataset& dataset) : segment_(sequential_segment(dataset.node())) {}

std::optional<Element> SequentialReader::next() {
  static const std::atomic<bool> never{false};
  Element out;
  if (act(out, never) == Emission::last) return std::nullopt;
  return out;
}

}  // namespace karez::data
