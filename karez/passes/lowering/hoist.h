// The hoist pass: moves calls that read only constants to the setup, which runs once, when the plan is loaded.
#pragma once

#include <cstdint>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Moves every call to `setup` that
//   computes a pure op or a copy,
//   reads only values that the setup computes, or windows on them,
//   is the same in every act of a launch,
//   has results that fit in the part of `max_bytes` that earlier calls on its device have left,
//   needs at most 64 KiB of workspace, or at most the size of its results, since workspace is stored with the
//   constants, and
//   is not a copy that is larger than its operand: a broadcast stays a window.
// Results stay in memory while the plan is loaded. Equal calls on one device are merged.
LocalProgram hoist(LocalProgram program, const Graph& graph, const KernelCatalog& catalog,
                   std::int64_t max_bytes = INT64_MAX);

// True if a call of the setup with `result_bytes` of results may use `workspace` bytes of workspace.
bool works_in_setup(std::int64_t workspace, std::int64_t result_bytes);

}  // namespace karez::passes
