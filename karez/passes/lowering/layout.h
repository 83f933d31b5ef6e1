// layout: the order in which each value's dimensions lie in memory, by the summed price of the calls that write and
// read it and of copies.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The same on every rank and device: decided on the shapes of the mesh's first device.
DimensionOrders layout(const Graph& graph, const KernelCatalog& catalog, const CostTable& costs);
// "%7 conv2d f32[64, 16, 26, 26]: 0 2 3 1": the values that do not lie row-major, one a line.
std::string orders_text(const Graph& graph, const DimensionOrders& orders);

// Dense, with dimension order[0] outermost in memory.
View laid_out(DType dtype, const Shape& shape, const Ints& order);

}  // namespace karez::passes
