// Modules that may be recomputed if memory is short, besides those that the user named.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Lists of more and more modules to be recomputed, each with `already` and the whole list before it. Modules are sorted
// by the bytes, kept from the forward pass for gradients, that recomputing them frees; the lists have the first quarter
// of them, a half, three quarters, all. Modules are those that repeat: outermost ones with paths that differ only in a
// number ("block0", "block1"; "blocks.0", ...); if none repeats, the outermost ones. Modules that free nothing are left
// out. `graph` is the program before recompute.
std::vector<std::vector<std::string>> recompute_candidates(const Graph& graph, std::span<const std::string> already);

}  // namespace karez::passes
