// Which modules recompute may take, when memory is short and nobody has said so.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Lists of ever more modules to be recomputed, each with `already` and all of the list before: first those without whom
// fewest bytes are held from the forward pass for gradients; a quarter of them, a half, three quarters, all. Modules
// are those that repeat: outermost ones whose paths differ in a number alone
// ("block0", "block1"; "blocks.0", ...); where none does, the outermost. None that frees nothing. Of the program as it
// stands before recompute.
std::vector<std::vector<std::string>> recompute_candidates(const Graph& graph, std::span<const std::string> already);

}  // namespace karez::passes
