// Finds modules that may be recomputed if memory is short, in addition to those that the user named.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Returns ever longer lists of modules to recompute; each contains `user_modules` and the preceding list. Modules are
// sorted by the bytes of activations (values that the forward pass keeps for gradients) that recomputing them would
// free, most first. The lists contain the first quarter, half, three quarters and all of the modules. Only modules that
// repeat are used: outermost modules whose paths differ only in a number ("block0", "block1"; "blocks.0", ...). If no
// module repeats, all outermost modules are used. Modules whose recomputation frees nothing are left out. `graph` is
// the program before the recompute pass.
std::vector<std::vector<std::string>> recompute_candidates(const Graph& graph,
                                                           std::span<const std::string> user_modules);

}  // namespace karez::passes
