// fuse: inside an actor, fuses bias and ReLU into the library call before them, casts into neighbouring calls, and
// equal updates into one call.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

LocalProgram fuse(LocalProgram program, const Graph& graph, const Segmentation& segmentation,
                  const KernelCatalog& catalog, int team);

}  // namespace karez::passes
