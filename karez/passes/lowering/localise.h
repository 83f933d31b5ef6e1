// localise: this rank's nodes, once for each own device, with local shapes, offsets, kernels and windows.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Every value lies in its order of `orders`, dense, unless it is a window on another.
LocalProgram localise(const Graph& graph, const Streams& stream, const Segmentation& segmentation,
                      const DimensionOrders& orders, const KernelCatalog& catalog, const CompileOptions& options);

}  // namespace karez::passes
