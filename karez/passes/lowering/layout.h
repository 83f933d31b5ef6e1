// The layout pass: chooses the order of each value's dimensions in memory that minimises the time of calls and copies.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The result is the same on every rank, because it is computed for the shapes of the mesh's first device.
DimensionOrders layout(const Graph& graph, const KernelCatalog& catalog, const CostTable& costs);
// Lists the values that are not row-major, one per line: "%7 conv2d f32[64, 16, 26, 26]: 0 2 3 1".
std::string orders_text(const Graph& graph, const DimensionOrders& orders);

}  // namespace karez::passes
