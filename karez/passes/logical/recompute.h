// recompute: values of chosen modules are computed again when a gradient reads them, instead of being held in memory
// until then.
#pragma once

#include <span>
#include <string>

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Requires that every glob matches the path of a module in the traced program; the error suggests the nearest paths.
void check_remat(const Graph& graph, std::span<const std::string> globs);

// A region has the nodes that were traced under a module that a glob matches, and the nodes between them: nodes under
// no module, or under an enclosing one, on a path from the region to itself. The outermost matching module counts; a
// module called twice is one region. Values of a region are
//   kept        if they are outputs or next versions of variables, or if a node outside of the region reads them that
//   is
//               not part of a gradient
//   recomputed  otherwise, if a gradient or another recomputed value needs them; the copies read kept values, the
//               region's operands and variables before their update. Random masks are recomputed too, since they depend
//               only on seed, site and step
// The copies come before the first node of a gradient that reads them and after the gradients before that node
// (Node::after); if they ran earlier, memory would hold both. A function without gradients is not changed.
//   h = tanh(matmul(x, w))           in "block"        h' = tanh(matmul(x, w)) after dy
//   dx = mul(dy, 1 - h * h)          in "block.grad"   dx = mul(dy, 1 - h' * h')
Graph recompute(Graph graph, std::span<const std::string> globs);

}  // namespace karez::passes
