// hoist: calls that read only constants run once, when the plan is loaded.
#pragma once

#include <cstdint>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The program with every call moved to `setup` that
//   computes a pure op or a copy,
//   reads only values that the set-up makes (its windows included),
//   does the same in every act of a launch,
//   makes no more than is left of `most_bytes` on its device, in the order of the program,
//   needs no more workspace than its results are large (64 KiB in any case), since that lies among the constants, and
//   is no copy that is larger than the bytes it copies: a broadcast stays a window.
// Its results are held for the life of the plan; equal calls on one device become one.
LocalProgram hoist(LocalProgram program, const Graph& graph, const KernelCatalog& catalog,
                   std::int64_t most_bytes = INT64_MAX);

// Whether a call that makes so many bytes may work in so many among the constants.
bool works_in_setup(std::int64_t workspace, std::int64_t made);

}  // namespace karez::passes
