// The fuse pass: within an actor, bias and ReLU become part of the preceding library call, casts become part of
// neighbouring calls, and updates with equal attributes and groups of small equal calls become one call each.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

struct FuseOptions {
  bool chains = true;  // if false, each pointwise op keeps its own call, so that its result can be checked
  bool groups = true;  // if false, calls keep their places, so that no result is stored earlier than it has to be
};

LocalProgram fuse(LocalProgram program, const Graph& graph, const Segmentation& segmentation,
                  const KernelCatalog& catalog, int team, const FuseOptions& options);

}  // namespace karez::passes
