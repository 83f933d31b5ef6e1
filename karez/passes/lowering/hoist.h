// Pass hoist: calls that read only constants run once, when the plan is loaded.
#pragma once

#include <cstdint>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Moves every call to `setup` that
//   computes a pure op or a copy,
//   reads only values that the set-up computes, or windows on them,
//   is the same in every act of a launch,
//   has results that fit in the rest of `max_bytes` on its device, in the order of the program,
//   needs at most 64 KiB of workspace, or at most the size of its results, since workspace is stored with the
//   constants, and
//   is not a copy that is larger than its operand: a broadcast stays a window.
// Results are held for the life of the plan; equal calls on one device are merged.
LocalProgram hoist(LocalProgram program, const Graph& graph, const KernelCatalog& catalog,
                   std::int64_t max_bytes = INT64_MAX);

// True if a call of the set-up with `result_bytes` of results may use `workspace` bytes of workspace.
bool works_in_setup(std::int64_t workspace, std::int64_t result_bytes);

}  // namespace karez::passes
