// The fuse pass: within an actor, bias and ReLU become part of the preceding library call, casts become part of
// neighbouring calls, and updates with equal attributes become one call.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Without `chains`, each pointwise op keeps its own call, so that its result can be checked.
LocalProgram fuse(LocalProgram program, const Graph& graph, const Segmentation& segmentation,
                  const KernelCatalog& catalog, int team, bool chains = true);

}  // namespace karez::passes
