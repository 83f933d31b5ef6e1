// The number of parts into which the batch of a function with micro-batches is cut, for functions that treat each part
// separately.
#pragma once

#include "karez/api/tensor.h"
#include "karez/graph/graph.h"

namespace karez {

// The number of equal consecutive parts into which dimension 0 of x is cut: the number of micro-batches if x depends on
// the batch, otherwise 1.
std::int64_t batch_parts(Term x);
std::int64_t batch_parts(const graph::Graph& graph, ValueId value);

}  // namespace karez
