// scan: a body that runs once for each row of its sequences, as one node with the body as its region.
#pragma once

#include <span>
#include <vector>

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// Operands: first carries, then sequences (with first dimension `trips`), then the outer values that the body
// reads. The region has one argument for each: the carries of the previous trip, rows of the sequences, outer values.
// Its outputs: the next carries, then `rows`, which the node stacks. The node's results: the last carries, then those
// stacks.
struct ScanShape {
  int carries = 0, sequences = 0;
  std::int64_t trips = 1;
  bool reverse = false;               // from the last row to the first
  std::vector<TensorType> rows = {};  // types of the rows that a trip adds
};
ScanShape scan_shape(const Attrs& attrs);
TensorType stacked(const TensorType& row, std::int64_t trips);
TensorType row_of(const TensorType& sequence);

namespace build {
std::vector<ValueId> scan(Builder& b, Graph body, std::span<const ValueId> operands, const ScanShape& shape);
}  // namespace build

}  // namespace karez::ops
