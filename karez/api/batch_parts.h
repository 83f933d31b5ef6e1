// batch_parts: the number of micro-batches into which the batch dimension of a value is split. Functions that treat
// each micro-batch separately use it.
#pragma once

#include "karez/api/tensor.h"
#include "karez/graph/graph.h"

namespace karez {

// Returns the number of equal consecutive parts into which dimension 0 of x is split: the number of micro-batches if x
// depends on the batch and this number divides the dimension, otherwise 1.
std::int64_t batch_parts(Term x);
std::int64_t batch_parts(const graph::Graph& graph, ValueId value);

}  // namespace karez
