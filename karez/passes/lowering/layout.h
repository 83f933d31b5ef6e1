// layout: chooses the order of each value's dimensions in memory by the total cost of the calls that write and read it
// and of copies.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The result is the same on every rank and device: it is computed for the shapes of the mesh's first device.
DimensionOrders layout(const Graph& graph, const KernelCatalog& catalog, const CostTable& costs);
// "%7 conv2d f32[64, 16, 26, 26]: 0 2 3 1": the values that are not row-major, one per line.
std::string orders_text(const Graph& graph, const DimensionOrders& orders);

// A dense view with dimension order[0] outermost in memory.
View laid_out(DType dtype, const Shape& shape, const Ints& order);

}  // namespace karez::passes
