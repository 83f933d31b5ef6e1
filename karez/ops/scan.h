// scan: a node whose region, the body, runs once for each row of its sequences.
#pragma once

#include <span>
#include <vector>

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// The operands are the initial carries, then sequences (whose first dimension is `trips`), then the outer values that
// the body reads. The region has an argument for each operand: the carries of the previous trip, the rows of the
// sequences, and the outer values. The outputs of the region are the next carries, then `rows`. The results of the node
// are the final carries, then the stacked rows.
struct ScanShape {
  int carries = 0, sequences = 0;
  std::int64_t trips = 1;
  bool reverse = false;               // whether the rows are visited from the last to the first
  std::vector<TensorType> rows = {};  // types of the rows that each trip outputs
};
ScanShape scan_shape(const Attrs& attrs);
TensorType stacked(const TensorType& row, std::int64_t trips);
TensorType row_of(const TensorType& sequence);

namespace build {
std::vector<ValueId> scan(Builder& b, Graph body, std::span<const ValueId> operands, const ScanShape& shape);
}  // namespace build

}  // namespace karez::ops
