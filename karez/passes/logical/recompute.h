// recompute: what a gradient reads of a chosen module is computed again when the gradient comes to it, instead of lying
// in memory until then.
#pragma once

#include <span>
#include <string>

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Every glob must match a module's path in the program as traced; one that matches none is an error with the nearest.
void check_remat(const Graph& graph, std::span<const std::string> globs);

// A region is what was traced under a module that a glob matches, and what lies between: nodes under no module, or
// under one around it, on a way from the region to the region. The outermost matching module counts; a module called
// twice is one region. Of a region
//   kept        values that a node outside of it reads that is no gradient's, results of the program and next versions
//   of variables made again  all else that a node of a gradient reads, and what that is made of, from kept values, from
//   what enters the region and from the
//               variables as they were: random masks too, which depend on seed, site and step alone
// The copies stand before the first node of a gradient that reads them, behind the gradients that stand before that one
// (Node::after): not earlier, or memory would hold both. A function without gradients stays as it is.
//   h = tanh(matmul(x, w))           in "block"        h' = tanh(matmul(x, w)) after dy
//   dx = mul(dy, 1 - h * h)          in "block.grad"   dx = mul(dy, 1 - h' * h')
Graph recompute(Graph graph, std::span<const std::string> globs);

}  // namespace karez::passes
