// The rules of vmap: how the node of an op computes all elements of a batch.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/ops/vmap.h"

namespace karez::ops {

// A node of a body, and the values of its operands, of which at least one is mapped.
struct MappedNode {
  NodeView view;
  std::vector<MappedValue> in;
  std::int64_t size = 0;  // of the batch

  bool is_mapped(std::size_t operand) const { return in[operand].is_mapped; }
};

// Adds nodes that compute the results of all elements of the batch, and returns them; all are mapped.
using VmapRule = std::vector<ValueId> (*)(Builder& b, const MappedNode& node);

// The rule of an op, or null if it has none. Elementwise ops need no row.
VmapRule vmap_rule(const OpDef& op);

// The value with the dimension of the batch first. A value of `type` that is not mapped is repeated.
ValueId mapped(Builder& b, const MappedValue& value, const TensorType& type, std::int64_t size);

}  // namespace karez::ops
