// The localise pass: converts this rank's nodes to calls on each own device, with local shapes, offsets, kernels and
// windows.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Every value is dense in the order that `orders` gives, unless it is a window on another value.
LocalProgram localise(const Graph& graph, const Streams& stream, const Segmentation& segmentation,
                      const DimensionOrders& orders, const KernelCatalog& catalog, const CompileOptions& options);

}  // namespace karez::passes
