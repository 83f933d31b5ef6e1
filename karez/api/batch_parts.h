// How the batch of a function with micro-batches passes, for what works on each of them by itself.
#pragma once

#include "karez/api/tensor.h"
#include "karez/graph/graph.h"

namespace karez {

// Into how many equal parts of dimension 0, one after the other, x is cut: as many as there are micro-batches where x
// follows from the batch, else 1.
std::int64_t batch_parts(Term x);
std::int64_t batch_parts(const graph::Graph& graph, ValueId value);

}  // namespace karez
