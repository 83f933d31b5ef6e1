// Pass recompute: values of chosen modules are computed again when a gradient needs them, instead of being kept in
// memory until then.
#pragma once

#include <span>
#include <string>

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Requires that every glob matches the path of a module in the traced program; the error suggests the nearest paths.
void check_remat(const Graph& graph, std::span<const std::string> globs);

// A region consists of the nodes that were traced under a module whose path matches a glob. It also includes the nodes
// under no module, or under an enclosing module, that lie on a path between two of those nodes. If nested modules
// match, the outermost one determines the region. A module that is called twice is one region. Values of a region are
//   kept        if they are outputs or next versions of variables, or if they are read by a node that is outside of the
//               region and not part of a gradient
//   recomputed  otherwise, if a gradient or another recomputed value needs them. The copies read kept values, the
//               region's operands, and variables before their update. Random masks are also recomputed, since they
//               depend only on seed, site and step
// The copies are inserted before the first gradient node that reads them. They run after the preceding gradient nodes
// (Node::after): if they ran earlier, the copies of several regions would be in memory at the same time. A function
// without gradients is not changed.
//   h = tanh(matmul(x, w))           in "block"        h' = tanh(matmul(x, w)) after dy
//   dx = mul(dy, 1 - h * h)          in "block.grad"   dx = mul(dy, 1 - h' * h')
Graph recompute(Graph graph, std::span<const std::string> globs);

}  // namespace karez::passes
